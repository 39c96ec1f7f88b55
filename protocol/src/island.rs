//! The island's account: local = outer + pending + fresh, for one fragment.
//!
//! `outer` is the version last adopted, `pending` what was captured and is not in that version,
//! `fresh` whatever else the local parameters hold. Fresh is never stored: it is what remains, so
//! nothing can be lost between the three, and what a codec loses stays in it as error feedback.
//!
//! Everything here works on slices. A payload encodes a pseudo-gradient, so the progress it
//! stands for, its content, is minus what it decodes to.

use crate::codec::{CHUNK, Codec, NonFinite, Payload, PayloadError, encode};
use crate::crypto::content_id_with;
use crate::id::ContentId;
use crate::pool::{self, Pool};

/// One fragment's account.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    outer: Vec<f32>,
    /// Always the sum of the contents of `captured`, in that order, so it does not drift.
    pending: Vec<f32>,
    captured: Vec<ContentId>,
}

impl Account {
    /// The account of an island that has adopted `outer` and captured nothing.
    pub fn new(outer: &[f32]) -> Self {
        Self { outer: outer.to_vec(), pending: vec![0.0; outer.len()], captured: Vec::new() }
    }

    /// The account of an island that comes back with these own payloads pending.
    pub fn resume(
        outer: &[f32],
        pending: &[&[u8]],
        codec: Codec,
        pool: &dyn Pool,
    ) -> Result<Self, PayloadError> {
        let mut account = Self::new(outer);
        let mut local = outer.to_vec();
        account.adopt(&mut local, outer, pending, &[], codec, pool)?;
        Ok(account)
    }

    /// The version last adopted.
    pub fn outer(&self) -> &[f32] {
        &self.outer
    }

    /// What was captured and is not in that version.
    pub fn pending(&self) -> &[f32] {
        &self.pending
    }

    /// The own payloads that pending is the sum of, oldest first.
    pub fn captured(&self) -> &[ContentId] {
        &self.captured
    }

    /// Encodes fresh as a payload, the pseudo-gradient being minus fresh. What the codec kept
    /// becomes pending, what it lost stays fresh; `local` does not change.
    ///
    /// # Panics
    /// If `local` is not as long as the fragment.
    pub fn capture(
        &mut self,
        local: &[f32],
        codec: Codec,
        pool: &dyn Pool,
    ) -> Result<Vec<u8>, NonFinite> {
        let mut gradient = vec![0.0; local.len()];
        let parts = gradient.chunks_mut(CHUNK).enumerate().collect();
        pool::map(pool, parts, |(index, part)| {
            self.fresh_part(local, index * CHUNK, part);
            part.iter_mut().for_each(|value| *value = -*value);
        });
        let payload = encode(codec, &gradient, pool)?;
        let kept = Payload::open(&payload, codec, local.len()).expect("encoded just now");
        let parts = self.pending.chunks_mut(CHUNK).enumerate().collect();
        pool::map(pool, parts, |(index, part)| {
            kept.accumulate_chunk(index, CONTENT, part).expect("encoded just now");
        });
        self.captured.push(content_id_with(&payload, pool));
        Ok(payload)
    }

    /// Adopts an outer version and carries the local progress over to it.
    ///
    /// `pending` lists the own payloads that were captured and are not in that version,
    /// `reissued` those whose content returns to fresh; each capture is listed once at most, and
    /// equal payloads of two captures are two. What the account held as pending and neither list
    /// names is in `outer`, and leaves the account.
    ///
    /// A payload moves without touching `local` if the account held it. One that it did not
    /// hold had been merged into a version that no longer counts: its content comes back.
    /// With equal `pending` this is one pass: `local = outer' + (local - outer)`, rounded once.
    ///
    /// On an error nothing has changed.
    ///
    /// # Panics
    /// If `local` or `outer` is not as long as the fragment.
    pub fn adopt(
        &mut self,
        local: &mut [f32],
        outer: &[f32],
        pending: &[&[u8]],
        reissued: &[&[u8]],
        codec: Codec,
        pool: &dyn Pool,
    ) -> Result<(), PayloadError> {
        assert_eq!(local.len(), self.outer.len(), "local parameters of this fragment");
        assert_eq!(outer.len(), self.outer.len(), "an outer version of this fragment");
        let transfer = Transfer::new(self, pending, reissued, codec, pool)?;
        let parts = local
            .chunks_mut(CHUNK)
            .zip(outer.chunks(CHUNK))
            .zip(self.outer.chunks_mut(CHUNK).zip(self.pending.chunks_mut(CHUNK)))
            .enumerate()
            .collect();
        pool::map(pool, parts, |(index, ((local, new), (old, pending)))| {
            transfer.carry(index, local, old, new, pending);
            old.copy_from_slice(new);
            transfer.replace(index, pending);
        });
        self.captured = transfer.captured;
        Ok(())
    }

    /// Writes what the island has trained since its captures, and what codecs lost, to `out`.
    ///
    /// # Panics
    /// If `local` or `out` is not as long as the fragment.
    pub fn fresh(&self, local: &[f32], out: &mut [f32]) {
        assert_eq!(out.len(), self.outer.len(), "one value for each parameter");
        self.fresh_part(local, 0, out);
    }

    fn fresh_part(&self, local: &[f32], start: usize, out: &mut [f32]) {
        assert_eq!(local.len(), self.outer.len(), "local parameters of this fragment");
        let range = start..start + out.len();
        let held = self.outer[range.clone()].iter().zip(&self.pending[range.clone()]);
        for ((fresh, local), (outer, pending)) in out.iter_mut().zip(&local[range]).zip(held) {
            *fresh = (local - outer) - pending;
        }
    }
}

/// What an adoption does to the progress `local - outer`, which is pending plus fresh.
struct Transfer<'a> {
    /// The new list of captured payloads.
    captured: Vec<ContentId>,
    /// The payloads of that list, if it is not the old one.
    replaced: Option<Vec<Payload<'a>>>,
    /// Whether something that was pending is merged now, so that pending leaves the progress.
    merged: bool,
    /// Payloads whose content is added to the progress: those that come back, and, when pending
    /// leaves it, those that were part of pending and stay with the island.
    added: Vec<Payload<'a>>,
}

impl<'a> Transfer<'a> {
    fn new(
        account: &Account,
        pending: &[&'a [u8]],
        reissued: &[&'a [u8]],
        codec: Codec,
        pool: &dyn Pool,
    ) -> Result<Self, PayloadError> {
        let mut unnamed = account.captured.clone();
        let mut captured = Vec::new();
        // Each payload, and whether it was part of pending.
        let mut own: Vec<(&'a [u8], bool)> = Vec::new();
        for (index, &payload) in pending.iter().chain(reissued).enumerate() {
            let id = content_id_with(payload, pool);
            let place = unnamed.iter().position(|held| *held == id);
            own.push((payload, place.map(|place| unnamed.remove(place)).is_some()));
            if index < pending.len() {
                captured.push(id);
            }
        }
        let merged = !unnamed.is_empty();
        let open = |payload: &'a [u8]| {
            let payload = Payload::open(payload, codec, account.outer.len())?;
            verify(&payload, account.outer.len(), pool)?;
            Ok(payload)
        };
        let replaced = if captured == account.captured {
            None
        } else {
            Some(pending.iter().map(|payload| open(payload)).collect::<Result<_, _>>()?)
        };
        let added = own
            .iter()
            .filter(|(_, held)| merged || !held)
            .map(|(payload, _)| open(payload))
            .collect::<Result<_, _>>()?;
        Ok(Self { captured, replaced, merged, added })
    }

    /// Carries the progress of one chunk from the old version to the new one.
    fn carry(&self, index: usize, local: &mut [f32], old: &[f32], new: &[f32], pending: &[f32]) {
        let values = local.iter_mut().zip(old.iter().zip(new));
        if !self.merged && self.added.is_empty() {
            values.for_each(|(local, (old, new))| *local = carried(*local, *old, *new, 0.0));
            return;
        }
        // What the progress gains: less all of pending if something of it is merged, and all
        // that comes back or stays.
        let mut gained = vec![0.0; pending.len()];
        if self.merged {
            gained.iter_mut().zip(pending).for_each(|(gained, pending)| *gained = -pending);
        }
        for payload in &self.added {
            payload.accumulate_chunk(index, CONTENT, &mut gained).expect("verified before");
        }
        values.zip(&gained).for_each(|((local, (old, new)), gained)| {
            *local = carried(*local, *old, *new, *gained);
        });
    }

    /// Sums pending anew where its list has changed.
    fn replace(&self, index: usize, pending: &mut [f32]) {
        if let Some(payloads) = &self.replaced {
            pending.fill(0.0);
            for payload in payloads {
                payload.accumulate_chunk(index, CONTENT, pending).expect("verified before");
            }
        }
    }
}

/// `new + (local - old + gained)`, rounded once: then a local that was its old version becomes the
/// new one, and an equal version leaves local as it is, bit for bit.
#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is meant")]
fn carried(local: f32, old: f32, new: f32, gained: f32) -> f32 {
    (f64::from(new) + (f64::from(local) - f64::from(old) + f64::from(gained))) as f32
}

/// Decodes everything once and keeps nothing: only rare adoptions need payloads at all, and none
/// may stop half-way.
fn verify(payload: &Payload<'_>, elements: usize, pool: &dyn Pool) -> Result<(), PayloadError> {
    let chunks = (0..payload.chunks()).collect();
    pool::map(pool, chunks, |index: usize| {
        payload.decode_chunk(index, &mut vec![0.0; CHUNK.min(elements - index * CHUNK)])
    })
    .into_iter()
    .collect()
}

/// The weight that turns a pseudo-gradient into the progress it stands for.
const CONTENT: f32 = -1.0;
