//! The island's side of the driver: what it is asked for, and what it tells.

use std::collections::VecDeque;
use std::sync::Arc;

use atoll_protocol::engine::Input;
use atoll_protocol::id::{ContentId, FragmentId};

use super::part::{self, Done};
use super::{Driver, Ending};
use crate::island::host::{Adoption, Errand, Host, Told};
use crate::observe::Event;

/// What the island was asked for and has not answered.
#[derive(Debug)]
pub(super) struct Errands {
    host: Host,
    /// Errands that the island's queue had no room for.
    waiting: VecDeque<Errand>,
    /// Captures and adoptions under way.
    open: usize,
    /// For each fragment whose captured payload is being stored: steps and tokens since.
    storing: Vec<Option<(u32, u64)>>,
    /// Fragments that were adopted in this life.
    adopted: Vec<bool>,
}

/// The own payloads that adoptions ask for most; the disk has the others.
#[derive(Debug)]
pub(super) struct OwnPayloads(Vec<VecDeque<(ContentId, Arc<[u8]>)>>);

impl OwnPayloads {
    pub(super) fn new(fragments: usize) -> Self {
        Self(vec![VecDeque::new(); fragments])
    }

    pub(super) fn get(&self, id: &ContentId) -> Option<&Arc<[u8]>> {
        self.0.iter().flatten().find(|(known, _)| known == id).map(|(_, payload)| payload)
    }

    fn keep(&mut self, fragment: FragmentId, id: ContentId, payload: Arc<[u8]>) {
        let newest = &mut self.0[fragment.index()];
        newest.push_back((id, payload));
        if newest.len() > OWN_KEPT {
            newest.pop_front();
        }
    }
}

impl Errands {
    pub(super) fn new(host: Host, fragments: usize) -> Self {
        let (storing, adopted) = (vec![None; fragments], vec![false; fragments]);
        Self { host, waiting: VecDeque::new(), open: 0, storing, adopted }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether nothing is under way that a checkpoint could cut in two.
    pub(super) fn is_idle(&self) -> bool {
        self.open == 0 && self.waiting.is_empty() && self.storing.iter().all(Option::is_none)
    }

    pub(super) fn ask(&mut self, errand: Errand) {
        let errand = match errand {
            Errand::Adopt(adoption) => match self.replace(adoption) {
                None => return,
                Some(adoption) => Errand::Adopt(adoption),
            },
            errand => errand,
        };
        if matches!(errand, Errand::Capture(_) | Errand::Adopt(_)) {
            self.open += 1;
        }
        self.waiting.push_back(errand);
        self.flush();
    }

    /// Puts a newer head in the place of one that waits: nobody will look at that one any more, and
    /// each is as long as its fragment. Gives it back if none waits that could be left out.
    fn replace(&mut self, newer: Box<Adoption>) -> Option<Box<Adoption>> {
        let last = self.waiting.iter_mut().rev().find(|it| it.fragment() == Some(newer.fragment));
        match last {
            Some(Errand::Adopt(older))
                if older.captures == newer.captures && older.reissued.is_empty() =>
            {
                *older = newer;
                None
            }
            _ => Some(newer),
        }
    }

    /// Passes on what there is room for.
    pub(super) fn flush(&mut self) {
        while let Some(errand) = self.waiting.pop_front() {
            if let Err(errand) = self.host.ask(errand) {
                self.waiting.push_front(errand);
                return;
            }
        }
    }
}

impl Driver {
    /// Passes on an adoption, or says at once that it is done if nothing trains here.
    pub(super) fn adopt(
        &mut self,
        fragment: FragmentId,
        version: u32,
        pending: &[ContentId],
        reissued: &[ContentId],
        known: Option<(Arc<[f32]>, u64)>,
    ) {
        let Some((head, captures)) = known else { return };
        if self.errands.is_none() {
            self.input(Input::Adopted { fragment, version });
            return;
        }
        let pending = self.own_payloads(pending);
        let reissued = self.own_payloads(reissued);
        let adoption = Adoption { fragment, version, head, pending, reissued, captures };
        if let Some(errands) = &mut self.errands {
            errands.ask(Errand::Adopt(Box::new(adoption)));
        }
    }

    /// Own payloads, from memory or from the disk. One that is gone from both is left out: the
    /// engine was told of what the disk has lost when it started.
    fn own_payloads(&self, ids: &[ContentId]) -> Vec<Arc<[u8]>> {
        let find = |id: &ContentId| {
            self.own.get(id).cloned().or_else(|| {
                let read = tokio::task::block_in_place(|| self.store.content(id));
                match read {
                    Ok(Some(bytes)) => Some(bytes.into()),
                    Ok(None) => {
                        self.warn(format!("own payload {id} is gone"), "");
                        None
                    }
                    Err(error) => {
                        self.warn(error.to_string(), error.hint().unwrap_or_default());
                        None
                    }
                }
            })
        };
        ids.iter().filter_map(find).collect()
    }

    /// The island tells.
    pub(super) fn told(&mut self, told: Told) {
        match told {
            Told::Stepped { steps, tokens, step_ms, loss } => {
                self.training.stepped(steps, tokens, step_ms, loss);
                if let Some(errands) = &mut self.errands {
                    for since in errands.storing.iter_mut().flatten() {
                        since.0 += steps;
                        since.1 += u64::from(steps) * tokens;
                    }
                }
                for _ in 0..steps {
                    self.input(Input::Stepped { tokens, step_ms });
                }
                self.tell_tokens_trained();
                self.await_steps();
            }
            Told::Captured { fragment, payload } => {
                if let Some(errands) = &mut self.errands {
                    errands.open -= 1;
                    errands.storing[fragment.index()] = Some((0, 0));
                }
                self.store_payload(fragment, payload);
            }
            Told::Adopted { fragment, version } => {
                if let Some(errands) = &mut self.errands {
                    errands.open -= 1;
                    errands.adopted[fragment.index()] = true;
                }
                self.input(Input::Adopted { fragment, version });
            }
            Told::Evaluated { loss, took } => {
                self.training.evaluated(loss, took);
                let step = self.training.step();
                self.observer.event(Event::HeldOut { step, loss: Some(loss) });
            }
            Told::Failed(error) => {
                self.warn(format!("the island cannot go on: {error}"), "");
                self.ending = Some(Ending::Island);
            }
        }
        if let Some(errands) = &mut self.errands {
            errands.flush();
        }
    }

    pub(super) fn store_payload(&self, fragment: FragmentId, payload: Arc<[u8]>) {
        let store = self.store.clone();
        part::spawn(&self.done, move || {
            let outcome = store.put(&payload);
            Done::Stored { fragment, payload, outcome }
        });
    }

    /// An own payload is on disk: the engine may speak of it.
    pub(super) fn payload_stored(
        &mut self,
        fragment: FragmentId,
        id: ContentId,
        payload: Arc<[u8]>,
    ) {
        let Some(errands) = &mut self.errands else { return };
        let (steps_since, tokens_since) =
            errands.storing[fragment.index()].take().unwrap_or_default();
        let payload_bytes = u32::try_from(payload.len()).expect("payloads are below 4 GiB");
        self.own.keep(fragment, id, payload);
        self.parts[fragment.index()].captures += 1;
        self.input(Input::Captured {
            fragment,
            payload: id,
            payload_bytes,
            steps_since,
            tokens_since,
        });
        self.await_steps();
    }

    /// The island need not tell of its steps before one of them makes a capture due.
    fn await_steps(&self) {
        if let Some(host) = self.host() {
            host.pace().report_after(self.engine.steps_to_capture());
        }
    }

    /// The island's thread ended and did not say why.
    pub(super) fn island_is_gone(&mut self) {
        self.warn("the island's thread has ended".to_owned(), "please report this with the log");
        self.ending.get_or_insert(Ending::Island);
    }

    /// Whether the island's parameters are an outer state that this node has reached: without a
    /// checkpoint it begins with the initial ones, whatever the records say.
    fn stands(&self) -> bool {
        let Some(errands) = &self.errands else { return false };
        self.fragments().zip(&errands.adopted).all(|(fragment, adopted)| {
            *adopted || self.engine.status(fragment).is_some_and(|status| status.version == 0)
        })
    }

    /// Lets the island step once its node takes part, or at once if it trained before.
    pub(super) fn wake_island(&mut self) {
        if self.host().is_none_or(|host| host.pace().is_going()) {
            return;
        }
        let ready = self.training.resumed || self.is_caught_up() && self.stands();
        let may = ready && !self.quiet && self.leaving.is_none() && self.ending.is_none();
        if may && let Some(host) = self.host() {
            host.pace().go();
            self.training.going();
        }
    }

    pub(super) fn pause_island(&mut self) {
        if let Some(host) = self.host() {
            host.pace().halt();
            self.training.halted();
        }
    }

    pub(super) fn evaluate_if_due(&mut self) {
        let going = self.host().is_some_and(|host| host.pace().is_going());
        if going && self.training.evaluation_is_due() {
            self.training.evaluating();
            if let Some(errands) = &mut self.errands {
                errands.ask(Errand::Evaluate);
            }
        }
    }
}

/// Own payloads of each fragment that stay in memory: one that waits to be merged, and one that
/// was just captured.
const OWN_KEPT: usize = 2;
