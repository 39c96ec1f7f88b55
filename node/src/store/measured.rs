//! What checks measured of contents, where nobody has to wait for the disk to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::outer::Norms;

use super::locked;

/// What was measured of one content, for each fragment it was checked for.
pub(super) type Measures = BTreeMap<FragmentId, Norms>;

/// All norms, those that are not in the database yet included.
#[derive(Debug)]
pub(super) struct Measured(Mutex<Known>);

#[derive(Debug)]
struct Known {
    norms: BTreeMap<ContentId, Measures>,
    unwritten: BTreeSet<ContentId>,
}

impl Measured {
    /// Those that the database has.
    pub(super) fn new(norms: BTreeMap<ContentId, Measures>) -> Self {
        Self(Mutex::new(Known { norms, unwritten: BTreeSet::new() }))
    }

    /// Notes one.
    pub(super) fn note(&self, id: ContentId, fragment: FragmentId, norms: &Norms) {
        let mut known = locked(&self.0);
        let measures = known.norms.entry(id).or_default();
        if measures.get(&fragment) != Some(norms) {
            measures.insert(fragment, norms.clone());
            known.unwritten.insert(id);
        }
    }

    /// What was measured of a content for a fragment.
    pub(super) fn norms(&self, id: &ContentId, fragment: FragmentId) -> Option<Norms> {
        locked(&self.0).norms.get(id)?.get(&fragment).cloned()
    }

    /// Whether a content was checked for any fragment.
    pub(super) fn has(&self, id: &ContentId) -> bool {
        locked(&self.0).norms.contains_key(id)
    }

    /// Everything that was measured.
    pub(super) fn ids(&self) -> Vec<ContentId> {
        locked(&self.0).norms.keys().copied().collect()
    }

    /// Those that are not in the database yet.
    pub(super) fn unwritten(&self) -> Vec<(ContentId, Measures)> {
        let known = locked(&self.0);
        let find = |id: &ContentId| Some((*id, known.norms.get(id)?.clone()));
        known.unwritten.iter().filter_map(find).collect()
    }

    /// Notes that these are in the database now.
    pub(super) fn written(&self, rows: &[(ContentId, Measures)]) {
        let mut known = locked(&self.0);
        for (id, norms) in rows {
            if known.norms.get(id) == Some(norms) {
                known.unwritten.remove(id);
            }
        }
    }

    /// Forgets some.
    pub(super) fn forget(&self, gone: &[ContentId]) {
        let mut known = locked(&self.0);
        for id in gone {
            known.norms.remove(id);
            known.unwritten.remove(id);
        }
    }
}
