//! A second account of an island's progress, kept apart from the one that is under test.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use atoll_protocol::codec::{CHUNK, Payload};
use atoll_protocol::id::ContentId;

use super::node::Known;
use super::shared::Shared;

/// The own payloads that a version contains.
pub(super) type Member = BTreeSet<ContentId>;

/// The sum of all movement that the adopted version does not contain.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    unmerged: Vec<f64>,
    /// What each own payload stands for.
    contents: BTreeMap<ContentId, Rc<[f32]>>,
    contained: Rc<Member>,
    /// The largest progress seen, to judge an error by.
    scale: f64,
    /// False once a payload was needed that is no longer known, until the next adoption.
    known: bool,
    /// How often own payloads had been told to return to fresh when it last adopted.
    reissues: u64,
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
            reissues: 0,
        }
    }

    /// Begins again after a restart that lost what was fresh: what is left is `pending`, the
    /// account's own from the checkpoint, and the captures of `own` that came after it.
    pub(super) fn restart<'a>(
        &mut self,
        shared: &Shared,
        pending: &[f32],
        own: impl Iterator<Item = (ContentId, &'a [u8])>,
        reissues: u64,
    ) {
        // What returned to fresh after the checkpoint may or may not be in a later capture:
        // only the next adoption tells.
        self.known = self.reissues == reissues;
        self.unmerged.fill(0.0);
        add(&mut self.unmerged, pending, 1.0);
        for (id, bytes) in own {
            if !self.contents.contains_key(&id) {
                let content = content(shared, bytes, self.unmerged.len());
                if !self.contained.contains(&id) {
                    add(&mut self.unmerged, &content, 1.0);
                }
                self.contents.insert(id, content);
            }
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

    /// A version was adopted, and the parameters are `local` now.
    pub(super) fn adopted(&mut self, known: &Known, local: &[f32]) {
        let contained = &known.contained;
        self.reissues = known.reissues;
        let before = std::mem::replace(&mut self.contained, contained.clone());
        if !self.known {
            self.rebase(local, &known.head);
            return;
        }
        for (payloads, sign) in
            [(contained.difference(&before), -1.0), (before.difference(contained), 1.0)]
        {
            for payload in payloads {
                match self.contents.get(payload) {
                    Some(content) => add(&mut self.unmerged, content, sign),
                    None => self.known = false,
                }
            }
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

fn add(sum: &mut [f64], content: &[f32], sign: f64) {
    for (sum, value) in sum.iter_mut().zip(content) {
        *sum += sign * f64::from(*value);
    }
}
