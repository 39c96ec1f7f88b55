//! One output, one effect.

use std::time::{Duration, Instant};

use atoll_protocol::engine::{FetchOutcome, Input, Output, Record, Report, in_the_same_write};
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};

use super::part::{self, Broken, Done, Folded, Job};
use super::{Driver, Ending, Task};
use crate::island::host::Errand;
use crate::observe::Event;
use crate::store::StoreError;

/// A change of the store that holds back what follows it, unless that promises nothing.
#[derive(Clone, Debug)]
pub(super) struct Write {
    change: Change,
    /// When to try again, if it failed.
    again: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Change {
    Persist(Vec<Record>),
    Prune { fragment: FragmentId, through: Version, own_through: Version, payloads: Vec<ContentId> },
}

impl Write {
    /// Whether it takes away what outputs that come later may need.
    pub(super) fn forgets(&self) -> bool {
        matches!(self.change, Change::Prune { .. })
    }
}

impl Driver {
    pub(super) fn execute(&mut self, task: Task) {
        match task.output {
            Output::Persist(record) => self.persist(record),
            Output::Publish(bytes) => self.net.publish(bytes),
            Output::Send { to, bytes } => self.net.send(to, bytes),
            Output::Judge { receipt, verdict } => self.net.judge(receipt, verdict),
            Output::Penalise { node, fault } => {
                let penalty = fault.penalty();
                self.observer.event(Event::Fault { node, fault, penalty });
                self.net.penalise(node, penalty);
            }
            Output::Fetch { content, from, bytes_max } => {
                let mut others = self.engine.holders(&content);
                others.retain(|node| *node != from);
                tracing::debug!(%content, %from, others = others.len(), "fetching");
                self.net.fetch(content, from, others, bytes_max);
            }
            Output::Check { payload, fragment } => self.check(payload, fragment),
            Output::Capture { fragment } => {
                if let Some(errands) = &mut self.errands {
                    errands.ask(Errand::Capture(fragment));
                }
            }
            Output::Materialise { fragment, cuts } => {
                self.enqueue(fragment, Job::Materialise(cuts));
            }
            Output::Stabilise { fragment, version } => {
                self.enqueue(fragment, Job::Stabilise(version));
            }
            Output::Install { fragment, content } => self.enqueue(fragment, Job::Install(content)),
            Output::Adopt { fragment, version, pending, reissued } => {
                self.adopt(fragment, version, &pending, &reissued, task.known);
            }
            Output::Prune { fragment, through, own_through, payloads } => {
                self.write(Change::Prune { fragment, through, own_through, payloads });
            }
            Output::Report(report) => self.report(report),
        }
    }

    /// Writes a record, and all that may be written with it, in one go.
    fn persist(&mut self, record: Record) {
        let mut records = vec![record];
        while let Some(place) = in_the_same_write(self.outputs.iter().map(|task| &task.output))
            && let Some(Task { output: Output::Persist(record), .. }) = self.outputs.remove(place)
        {
            records.push(record);
        }
        self.write(Change::Persist(records));
    }

    fn write(&mut self, change: Change) {
        let (store, own) = (self.store.clone(), self.engine.node());
        let change = self.write.insert(Write { change, again: None }).change.clone();
        part::spawn(&self.done, move || {
            Done::Written(match &change {
                Change::Persist(records) => store.persist(own, records),
                Change::Prune { fragment, through, own_through, payloads } => {
                    store.prune(own, *fragment, *through, *own_through, payloads)
                }
            })
        });
    }

    /// Tries again what failed for want of room.
    pub(super) fn retry(&mut self) {
        if let Some(Write { change, again: Some(again) }) = &self.write
            && Instant::now() >= *again
        {
            let change = change.clone();
            self.write(change);
        }
        self.work();
        self.fetch_rechecks();
    }

    fn check(&mut self, payload: ContentId, fragment: FragmentId) {
        let Some(shape) = self.parts.get(fragment.index()).map(|part| part.shape().clone()) else {
            return;
        };
        let (store, genesis) = (self.store.clone(), self.genesis.clone());
        part::spawn(&self.done, move || {
            let outcome = part::check(&store, &genesis, &shape, &payload);
            Done::Checked { payload, fragment, outcome }
        });
    }

    fn enqueue(&mut self, fragment: FragmentId, job: Job) {
        if let Some(part) = self.parts.get_mut(fragment.index()) {
            part.enqueue(job);
            self.work();
        }
    }

    /// Starts jobs on folds, a few at once: the threads they run on are also the disk's.
    pub(super) fn work(&mut self) {
        let mut folding = self.parts.iter().filter(|part| part.is_working()).count();
        for part in &mut self.parts {
            if folding >= FOLDS_MAX {
                return;
            }
            folding += usize::from(part.work(&self.store, &self.done));
        }
    }

    /// A blocking thread is done.
    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Folded { fragment, fold, outcome } => {
                self.parts[fragment.index()].ended(fold, &outcome);
                self.folded(fragment, outcome);
                self.work();
            }
            Done::Checked { payload, fragment, outcome } => match outcome {
                Ok(outcome) => self.input(Input::Checked { payload, fragment, outcome }),
                Err(reason) => self.unreadable(payload, fragment, &reason),
            },
            Done::Stored { fragment, payload, outcome } => match outcome {
                Ok(id) => self.payload_stored(fragment, id, payload),
                Err(error) => {
                    self.trouble(&error);
                    let (store, done) = (self.store.clone(), self.done.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(AGAIN).await;
                        part::spawn(&done, move || {
                            let outcome = store.put(&payload);
                            Done::Stored { fragment, payload, outcome }
                        });
                    });
                }
            },
            Done::Written(outcome) => match outcome {
                Ok(()) => self.write = None,
                Err(error) => {
                    self.mend(&error);
                    self.trouble(&error);
                    if let Some(write) = &mut self.write {
                        write.again = Some(Instant::now() + AGAIN);
                    }
                }
            },
            Done::Lost { content, base } => self.lost(content, base),
            Done::Folder { folder, reply } => self.folder_is_there(folder, reply),
            Done::Placed(placed) => self.placed(placed),
            Done::Chore(outcome) => {
                if let Err(error) = outcome {
                    self.trouble(&error);
                }
            }
            Done::Panicked => self.broke("a fold, a check or the disk"),
        }
    }

    /// Does something about a write that would fail for ever.
    fn mend(&mut self, error: &StoreError) {
        match error {
            StoreError::NoPayload { payload } => match self.own.get(payload).cloned() {
                Some(bytes) => {
                    let store = self.store.clone();
                    part::spawn(&self.done, move || Done::Chore(store.put(&bytes).map(drop)));
                }
                None => drop(self.rechecks.insert(*payload, None)),
            },
            // The next start puts what is damaged aside.
            StoreError::Corrupt { .. } | StoreError::TooLong { .. } => self.broke("the database"),
            _ => {}
        }
    }

    fn folded(&mut self, fragment: FragmentId, outcome: Result<Folded, Broken>) {
        match outcome {
            Ok(folded) => {
                if let Some(input) = folded.input {
                    self.input(input);
                }
                self.serving.set(self.servable());
                self.tell_tokens_trained();
            }
            Err(Broken::Missing(missing)) => {
                let what = format!("payload {missing} is gone or broken: fetching it again");
                self.observer.event(Event::Recovered { what });
                self.input(Input::Failed { fragment, missing });
            }
            Err(Broken::Disk(job, error)) => {
                self.trouble(&error);
                self.parts[fragment.index()].put_back(job, Instant::now() + AGAIN);
            }
            Err(Broken::Impossible(error)) => {
                self.warn(format!("fragment {fragment}: {error}"), "please report this");
            }
        }
    }

    /// A payload that was stored cannot be read back: it is fetched and checked again. It is
    /// not the author's fault, and to leave it out would leave this node with other bits.
    fn unreadable(&mut self, payload: ContentId, fragment: FragmentId, reason: &str) {
        self.observer.event(Event::Recovered { what: format!("{reason}: fetching it again") });
        self.rechecks.insert(payload, Some(fragment));
    }

    /// Asks anyone for what could not be read back.
    fn fetch_rechecks(&mut self) {
        if self.rechecks.is_empty() || self.rechecked.elapsed() < AGAIN {
            return;
        }
        self.rechecked = Instant::now();
        self.rechecks.retain(|payload, _| self.engine.needs(payload));
        let peers = self.engine.peer_views().into_iter().filter(|peer| peer.connected);
        let mut holders: Vec<NodeId> = peers.map(|peer| peer.node).collect();
        let Some(from) = holders.pop() else { return };
        for payload in self.rechecks.keys() {
            if self.rechecking.insert(*payload) {
                self.net.fetch(*payload, from, holders.clone(), u64::from(u32::MAX));
            }
        }
    }

    /// A fetch has ended; it may have been the driver's own.
    pub(super) fn fetched_again(&mut self, content: ContentId, outcome: FetchOutcome) {
        self.rechecking.remove(&content);
        let Some(fragment) = self.rechecks.get(&content).copied() else { return };
        if outcome == FetchOutcome::Stored {
            self.rechecks.remove(&content);
            if let Some(fragment) = fragment {
                self.check(content, fragment);
            }
        }
    }

    fn report(&mut self, report: Report) {
        if matches!(report, Report::SameKey) && self.started.elapsed() < SAME_KEY_WITHIN {
            self.ending = Some(Ending::SameKey);
        }
        if matches!(report, Report::Standing(_)) {
            self.serving.set(self.servable());
        }
        self.observer.event(report);
    }

    /// The learning rate follows the tokens that the swarm has trained. Were it to follow those
    /// merged, it would lag behind by a round, and the first round would learn next to nothing.
    pub(super) fn tell_tokens_trained(&self) {
        if let Some(host) = self.host() {
            host.pace().learn_at(self.swarm_tokens() + self.engine.tokens_under_way());
        }
    }
}

/// Folds at once, of the threads that also write records and serve contents.
const FOLDS_MAX: usize = 4;
/// How long to wait before the disk is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// A node that meets its own key so soon after its start is the second one, and goes.
const SAME_KEY_WITHIN: Duration = Duration::from_secs(60);
