//! Whether the islands have the same outer state.

use std::collections::BTreeMap;

use super::{Recording, Seen, mean};

/// What most islands say of one fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::up) struct Agreement {
    pub(in crate::up) version: u32,
    pub(in crate::up) digest: String,
    /// Islands that say so.
    pub(in crate::up) count: usize,
    /// Islands that take part, or will again.
    pub(in crate::up) of: usize,
}

impl Recording {
    /// For each fragment the version and digest that most islands have; the newer where two are
    /// as many.
    pub(in crate::up) fn agreement(&self) -> Vec<Agreement> {
        let of = self.islands.iter().filter(|it| it.belongs()).count();
        let fragment = |index: usize| {
            let mut counts: BTreeMap<(u32, &str), usize> = BTreeMap::new();
            let live = self.islands.iter().filter_map(Seen::live);
            for fragment in live.filter_map(|it| it.fragments.get(index)) {
                *counts.entry((fragment.version, &fragment.digest)).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|((version, _), count)| (*count, *version));
            let ((version, digest), count) = most.unwrap_or(((0, ""), 0));
            Agreement { version, digest: digest.to_owned(), count, of }
        };
        (0..self.fragments()).map(fragment).collect()
    }

    /// Whether every island that takes part has the same version and digest of every fragment.
    pub(in crate::up) fn agrees(&self) -> bool {
        let agreement = self.agreement();
        !agreement.is_empty() && agreement.iter().all(|it| it.count == it.of)
    }

    /// Whether no round of an island that takes part can change any more.
    pub(in crate::up) fn is_stable(&self) -> bool {
        let mut fragments = self.islands.iter().filter_map(Seen::live).flat_map(|it| &it.fragments);
        fragments.all(|it| it.base == it.version)
    }

    /// The islands that have this, of every fragment.
    pub(in crate::up) fn islands_with(&self, agreement: &[Agreement]) -> Vec<usize> {
        let has = |index: &usize| {
            self.islands[*index].live().is_some_and(|status| {
                let mut same = status.fragments.iter().zip(agreement);
                same.all(|(one, most)| (one.version, &one.digest) == (most.version, &most.digest))
            })
        };
        (0..self.islands.len()).filter(has).collect()
    }

    /// The mean over the fragments of the share of islands that agree.
    pub(in crate::up) fn agreement_share(&self) -> f64 {
        let shares = self.agreement().into_iter().map(|it| it.count as f64 / it.of.max(1) as f64);
        mean(shares).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::status::example::status;
    use super::super::Presence;
    use super::*;

    #[test]
    fn all_must_have_the_same_bits() {
        let mut recording = Recording::new([1.0; 3], 60.0);
        assert!(!recording.agrees(), "nobody has said anything");
        recording.status(0.0, 0, status(1, 3, 2.0));
        recording.status(0.0, 1, status(2, 3, 2.0));
        recording.turns(0.0, 2, Presence::Here);
        assert!(!recording.agrees(), "the third is silent");
        recording.status(0.0, 2, status(3, 3, 2.0));
        assert!(recording.agrees());
        assert_eq!(recording.agreement_share(), 1.0);
        recording.turns(1.0, 1, Presence::Away);
        assert!(!recording.agrees(), "the second will come back");
        recording.turns(2.0, 1, Presence::Left);
        assert!(recording.agrees(), "the second has left");
        recording.turns(3.0, 1, Presence::Here);
        assert!(!recording.agrees(), "whoever comes back must speak first");
        let again = crate::up::status::Status { incarnation: 1, ..status(2, 3, 2.0) };
        recording.status(3.0, 1, again);
        assert!(recording.agrees() && !recording.is_stable());
        let mut other = status(3, 3, 2.0);
        other.fragments[1].digest = "ff".repeat(32);
        recording.status(0.0, 2, other);
        assert!(!recording.agrees());
        let agreement = recording.agreement();
        assert_eq!((agreement[0].count, agreement[1].count, agreement[1].of), (3, 2, 3));
        assert_eq!((agreement[1].version, agreement[1].digest.as_str()), (4, &*"04".repeat(32)));
    }
}
