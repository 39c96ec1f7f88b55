//! What becomes of own contributions when another history survives.

use crate::chain::Chain;
use crate::contribution::Header;
use crate::crypto::Signed;
use crate::engine::course::{Course, Own, Return};
use crate::id::{ContributionId, Trail, Version};

/// What an installed snapshot replaced.
pub(super) struct Old {
    pub(super) chain: Chain,
    /// Trails of the rounds that were closed and not stable.
    pub(super) trails: Vec<Trail>,
    pub(super) version: Version,
}

/// What a change of history did to own contributions.
pub(super) struct Reclaimed {
    /// How many are to be captured again.
    pub(super) reissued: u32,
    /// Tokens that are lost unless yet another history holds them.
    pub(super) orphaned: u64,
    /// Those whose rounds are open again.
    pub(super) offered: Vec<Signed<Header>>,
}

impl Course {
    /// Sorts own contributions by what the surviving history, which `chain` is now, says of them.
    pub(super) fn reclaim(&mut self, old: &Old, no_reissue: bool) -> Reclaimed {
        let (base, before) = (self.chain.base(), self.tokens.settled.orphaned);
        let root = self.chain.root();
        let shared = old.chain.trail_with(&old.trails, root) == self.chain.trail_at(root);
        let mut reclaimed = Reclaimed { reissued: 0, orphaned: 0, offered: Vec::new() };
        let waiting = std::mem::take(&mut self.returns);
        let orphans = std::mem::take(&mut self.orphans);
        for (round, mut own) in std::mem::take(&mut self.own) {
            let was_settled = round <= old.chain.base();
            if was_settled {
                self.tokens.settled.merged -= own.tokens();
            }
            // Unknown means older than the survivor's memory: merged exactly if that far back
            // both histories are one.
            let merged = match self.chain.contains(round, &own.id) {
                None if round <= base => Some(shared && (was_settled || round <= old.version)),
                known => known,
            };
            match merged {
                Some(true) => self.settle_own(own),
                Some(false) => {
                    own.kept &= !no_reissue;
                    reclaimed.reissued += u32::from(own.kept);
                    self.reissue(own);
                }
                // Its round is open again, but its content is gone.
                None if !own.kept => self.reissue(own),
                None => {
                    if was_settled {
                        reclaimed.offered.push(own.signed.clone());
                    }
                    self.own.insert(round, own);
                }
            }
        }
        for waits in waiting {
            match waits.own.as_ref().map_or(Revived::No, |own| self.revive(own)) {
                Revived::Merged => {}
                Revived::Offered => {
                    reclaimed.offered.extend(waits.own.map(|own| own.signed));
                }
                Revived::No => self.returns.push(waits),
            }
        }
        for own in orphans {
            match self.revive(&own) {
                Revived::Merged | Revived::Offered => {
                    self.tokens.settled.orphaned -= own.tokens();
                }
                Revived::No => self.orphans.push(own),
            }
        }
        reclaimed.orphaned = self.tokens.settled.orphaned.saturating_sub(before);
        reclaimed
    }

    /// Own contributions that wait to be captured again, or are just being captured.
    pub(super) fn waiting(&self) -> Vec<ContributionId> {
        let waiting = self.returning.iter().chain(&self.returns);
        waiting.filter_map(|it| Some(it.own.as_ref()?.id)).collect()
    }

    /// An own contribution that no history holds: its content and tokens return.
    pub(super) fn reissue(&mut self, own: Own) {
        let (payload, tokens) = (own.payload(), own.tokens());
        self.excluded.retain(|excluded| *excluded != payload);
        if own.kept {
            self.returns.push(Return { payload, tokens, own: Some(own) });
        } else {
            self.tokens.settled.orphaned += tokens;
            self.orphans.push(own);
        }
    }

    /// A round became stable: an own contribution that was given up may be in it, because a peer
    /// still had it.
    pub(super) fn recover(&mut self, cut: &[ContributionId]) {
        let (found, lost) = std::mem::take(&mut self.orphans)
            .into_iter()
            .partition::<Vec<Own>, _>(|own| cut.contains(&own.id));
        self.orphans = lost;
        for own in found {
            self.tokens.settled.orphaned -= own.tokens();
            self.settle_own(own);
        }
    }

    /// Takes back an own contribution that was given up, if this history holds it, or if its
    /// round is open again and its payload is here. Without the payload nobody can be offered it:
    /// only [`Self::recover`] brings it back then.
    fn revive(&mut self, own: &Own) -> Revived {
        let round = own.round();
        if self.chain.contains(round, &own.id) == Some(true) {
            self.settle_own(own.clone());
            Revived::Merged
        } else if round > self.chain.base() && own.kept {
            self.own.insert(round, own.clone());
            Revived::Offered
        } else {
            Revived::No
        }
    }

    fn settle_own(&mut self, own: Own) {
        self.tokens.settled.merged += own.tokens();
        self.own.insert(own.round(), own);
    }
}

/// What became of an own contribution that was given up.
enum Revived {
    /// The history holds it.
    Merged,
    /// Its round is open again, and it is to be offered again.
    Offered,
    /// It stays given up.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::HistoryEntry;
    use crate::id::{ContentId, FragmentId, RunId};
    use crate::testkit;

    const TOKENS: u64 = 10;

    fn own(round: Version, kept: bool) -> Own {
        let (fragment, payload) = (FragmentId(0), ContentId([7; 32]));
        let (author, base) = (testkit::key(1).node(), 0);
        let (tokens, steps, payload_bytes) = (TOKENS, 1, 1);
        let header =
            Header { author, fragment, round, base, tokens, steps, payload, payload_bytes };
        let signed = testkit::key(1).sign(RunId([0; 32]), header);
        Own { id: header.id(), signed, kept }
    }

    fn chain(cuts: &[Vec<ContributionId>]) -> Chain {
        let mut chain = Chain::new(FragmentId(0), ContentId([0; 32]));
        for cut in cuts {
            let digest = ContentId([1; 32]);
            chain.push(HistoryEntry { cut: cut.clone(), weight: 1, digest });
        }
        chain
    }

    /// A course that gave up `own` when round 1 became stable without it.
    fn given_up(own: Own) -> Course {
        let mut course = Course::new(FragmentId(0), chain(&[Vec::new()]));
        course.reissue(own);
        course
    }

    fn install(course: &mut Course, chain: Chain) -> Reclaimed {
        let old = Old { chain: course.chain.clone(), trails: Vec::new(), version: course.version };
        course.version = chain.base();
        course.chain = chain;
        course.reclaim(&old, false)
    }

    #[test]
    fn an_orphan_without_its_payload_stays_one_when_its_round_is_open_again() {
        let mut course = given_up(own(1, false));
        let reclaimed = install(&mut course, chain(&[]));
        assert!(reclaimed.offered.is_empty() && course.own.is_empty());
        let fates = course.fates(|_, _| false);
        assert_eq!((fates.pending, fates.orphaned), (0, TOKENS));
        // A peer still had it, and the round that became stable holds it.
        course.recover(&[own(1, false).id]);
        assert_eq!((course.tokens.settled.merged, course.tokens.settled.orphaned), (TOKENS, 0));
    }

    #[test]
    fn what_waits_is_offered_again_when_its_round_is_open_again() {
        let mut course = given_up(own(1, true));
        let reclaimed = install(&mut course, chain(&[]));
        assert_eq!(reclaimed.offered, [own(1, true).signed]);
        let fates = course.fates(|_, _| false);
        assert_eq!((fates.pending, fates.reissued), (TOKENS, 0));
    }

    #[test]
    fn what_was_given_up_is_merged_by_a_history_that_holds_it() {
        for kept in [true, false] {
            let mut course = given_up(own(1, kept));
            let reclaimed = install(&mut course, chain(&[vec![own(1, kept).id]]));
            assert!(reclaimed.offered.is_empty());
            let fates = course.fates(|_, _| false);
            assert_eq!((fates.merged, fates.reissued, fates.orphaned), (TOKENS, 0, 0));
        }
    }

    #[test]
    fn what_was_given_up_stays_so_in_a_history_without_it() {
        let mut course = given_up(own(1, true));
        install(&mut course, chain(&[Vec::new(), Vec::new()]));
        assert_eq!(course.fates(|_, _| false).reissued, TOKENS);
    }
}
