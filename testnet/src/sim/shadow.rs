//! A second account of an island's progress, kept apart from the one that is under test.

use std::collections::BTreeMap;
use std::rc::Rc;

use atoll_protocol::codec::{CHUNK, Payload};
use atoll_protocol::id::ContentId;

use super::node::Known;
use super::shared::Shared;

/// Own payloads, and how often each is there.
pub(super) type Payloads = BTreeMap<ContentId, u32>;

/// The sum of all movement that the adopted version does not contain.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    unmerged: Vec<f64>,
    /// What each own payload stands for.
    contents: BTreeMap<ContentId, Rc<[f32]>>,
    /// What of ours the adopted version contains.
    contained: Rc<Payloads>,
    /// The largest progress seen, to judge an error by.
    scale: f64,
    /// False once a payload was needed that is no longer known, until the next adoption.
    known: bool,
}

impl Shadow {
    /// No movement yet, of so many parameters.
    pub(super) fn new(elements: usize) -> Self {
        Self {
            unmerged: vec![0.0; elements],
            contents: BTreeMap::new(),
            contained: Rc::default(),
            scale: 0.0,
            known: true,
        }
    }

    /// Begins again after a restart that lost what was fresh: what is left is whatever was ever
    /// `issued` and the adopted version does not contain. `bytes` finds what is still on disk.
    pub(super) fn restart<'a>(
        &mut self,
        shared: &Shared,
        issued: &Payloads,
        bytes: impl Fn(&ContentId) -> Option<&'a [u8]>,
    ) {
        self.known = true;
        self.unmerged.fill(0.0);
        let contained = self.contained.clone();
        // What the adopted version holds and was issued again since is not in `issued`: that
        // version holds it once too often, until a later one holds only its successor.
        for payload in issued.keys().chain(contained.keys().filter(|it| !issued.contains_key(*it)))
        {
            if !self.contents.contains_key(payload)
                && let Some(bytes) = bytes(payload)
            {
                let content = content(shared, bytes, self.unmerged.len());
                self.contents.insert(*payload, content);
            }
            let times = |set: &Payloads| f64::from(set.get(payload).copied().unwrap_or(0));
            self.shift(payload, times(issued) - times(&contained));
        }
    }

    /// A step moved the parameters.
    pub(super) fn moved(&mut self, from: &[f32], to: &[f32]) {
        for (unmerged, (from, to)) in self.unmerged.iter_mut().zip(from.iter().zip(to)) {
            *unmerged += f64::from(*to) - f64::from(*from);
        }
    }

    /// A payload was captured.
    pub(super) fn captured(&mut self, shared: &Shared, payload: ContentId, bytes: &[u8]) {
        self.contents.insert(payload, content(shared, bytes, self.unmerged.len()));
        let norm = self.unmerged.iter().map(|value| value * value).sum::<f64>().sqrt();
        self.scale = self.scale.max(norm);
    }

    /// The content of these payloads is gone for good.
    pub(super) fn forget(&mut self, payloads: &[ContentId]) {
        for payload in payloads {
            self.contents.remove(payload);
        }
    }

    /// A version was adopted, and the parameters are `local` now.
    pub(super) fn adopted(&mut self, known: &Known, local: &[f32]) {
        let before = std::mem::replace(&mut self.contained, known.contained.clone());
        if !self.known {
            self.rebase(local, &known.head);
            return;
        }
        let now = known.contained.clone();
        for payload in before.keys().chain(now.keys().filter(|it| !before.contains_key(*it))) {
            let times = |set: &Payloads| f64::from(set.get(payload).copied().unwrap_or(0));
            self.shift(payload, times(&before) - times(&now));
        }
    }

    /// A payload left the version so many times, or entered it if that is negative.
    fn shift(&mut self, payload: &ContentId, times: f64) {
        if times == 0.0 {
            return;
        }
        match self.contents.get(payload) {
            Some(content) => add(&mut self.unmerged, content, times),
            None => self.known = false,
        }
    }

    /// Believes what is there, for want of anything better, and watches on from here.
    fn rebase(&mut self, local: &[f32], outer: &[f32]) {
        self.known = true;
        for (unmerged, (local, outer)) in self.unmerged.iter_mut().zip(local.iter().zip(outer)) {
            *unmerged = f64::from(*local) - f64::from(*outer);
        }
    }

    /// |local - outer - unmerged| in units of the largest progress seen; none while unknown.
    pub(super) fn error(&self, local: &[f32], outer: &[f32]) -> Option<f64> {
        if !self.known || self.scale == 0.0 {
            return None;
        }
        let differences = local.iter().zip(outer).zip(&self.unmerged);
        let square: f64 = differences
            .map(|((local, outer), unmerged)| f64::from(*local) - f64::from(*outer) - unmerged)
            .map(|difference| difference * difference)
            .sum();
        Some(square.sqrt() / self.scale)
    }
}

/// The progress that a payload stands for: minus its pseudo-gradient.
fn content(shared: &Shared, bytes: &[u8], elements: usize) -> Rc<[f32]> {
    let mut values = vec![0.0; elements];
    if let Ok(payload) = Payload::open(bytes, shared.genesis.codec, elements) {
        for (index, part) in values.chunks_mut(CHUNK).enumerate() {
            // An own payload decodes, or the account under test refuses it as well.
            let _ = payload.accumulate_chunk(index, -1.0, part);
        }
    }
    values.into()
}

fn add(sum: &mut [f64], content: &[f32], times: f64) {
    for (sum, value) in sum.iter_mut().zip(content) {
        *sum += times * f64::from(*value);
    }
}
