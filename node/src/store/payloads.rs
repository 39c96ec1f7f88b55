//! Where the fold finds payloads, and which of them it will not find.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::outer::{Norms, Payloads, check};
use atoll_protocol::pool::Inline;

use super::error::StoreError;
use super::{Inner, Store, locked};

impl Payloads for Store {
    fn payload(
        &self,
        id: &ContentId,
        fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)> {
        let bytes = match self.content(id) {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::warn!("payload {id}: {error}");
                return None;
            }
        };
        let norms = self.norms(id, fragment).or_else(|| again(self, id, fragment, &bytes))?;
        Some((Cow::Owned(bytes), Cow::Owned(norms)))
    }
}

/// Measures a payload whose norms were lost, as its check did.
fn again(store: &Store, id: &ContentId, fragment: FragmentId, bytes: &[u8]) -> Option<Norms> {
    let genesis = store.genesis();
    let map = genesis.fragment_map();
    let shape = map.fragment(fragment)?;
    let norms = check(bytes, genesis.codec, shape, genesis.merge.norm_max, &Inline).ok()?;
    store.measure(id, fragment, &norms);
    Some(norms)
}

impl Payloads for &Store {
    fn payload(
        &self,
        id: &ContentId,
        fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)> {
        Payloads::payload(*self, id, fragment)
    }
}

/// The payloads that contributions name, with their lengths.
pub(super) fn named(records: &[Record]) -> impl Iterator<Item = (ContentId, u64)> {
    records.iter().filter_map(|record| match record {
        Record::Contribution(signed) => {
            Some((signed.body.payload, u64::from(signed.body.payload_bytes)))
        }
        _ => None,
    })
}

/// The payloads that contributions name and that are not here whole.
pub(super) fn missing(store: &Store) -> Result<BTreeSet<ContentId>, StoreError> {
    let named: BTreeMap<ContentId, u64> = named(&store.records()?).collect();
    let Inner { contents, budget, incidents, .. } = &*store.inner;
    let left = Mutex::new(named.into_iter());
    let look = || {
        let mut missing = BTreeSet::new();
        loop {
            let next = locked(&left).next();
            let Some((id, length)) = next else { return Ok(missing) };
            if !contents.is_whole(&id, length, budget, incidents)? {
                missing.insert(id);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
    let found: Vec<Result<BTreeSet<ContentId>, StoreError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
        threads.into_iter().map(|it| it.join().expect("reading does not panic")).collect()
    });
    let mut missing = BTreeSet::new();
    for part in found {
        missing.extend(part?);
    }
    Ok(missing)
}

/// Beyond this a disk is what one waits for.
const THREADS_MAX: usize = 4;
