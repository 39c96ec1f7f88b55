//! What becomes of own contributions when another history survives.

use crate::chain::Chain;
use crate::contribution::Header;
use crate::crypto::Signed;
use crate::engine::course::{Course, Own, Return};
use crate::id::{ContributionId, Trail, Version};

/// What an installed snapshot replaced.
pub(super) struct Old {
    pub(super) chain: Chain,
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
        let shared = old.trail_at(self.chain.root()) == self.chain.trail_at(self.chain.root());
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
            match waits.own.clone().and_then(|own| self.revive(own)) {
                Some(signed) => reclaimed.offered.extend(signed),
                None => self.returns.push(waits),
            }
        }
        for own in orphans {
            let tokens = own.tokens();
            match self.revive(own.clone()) {
                Some(_) => self.tokens.settled.orphaned -= tokens,
                None => self.orphans.push(own),
            }
        }
        reclaimed.orphaned = self.tokens.settled.orphaned.saturating_sub(before);
        reclaimed
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

    /// Takes back an own contribution that was given up, if this history holds it or its round
    /// is open again; in the latter case what to offer, if its payload is here.
    fn revive(&mut self, own: Own) -> Option<Option<Signed<Header>>> {
        let round = own.round();
        if self.chain.contains(round, &own.id) == Some(true) {
            self.settle_own(own);
            return Some(None);
        }
        if round <= self.chain.base() {
            return None;
        }
        let offered = own.kept.then(|| own.signed.clone());
        self.own.insert(round, own);
        Some(offered)
    }

    fn settle_own(&mut self, own: Own) {
        self.tokens.settled.merged += own.tokens();
        self.own.insert(own.round(), own);
    }
}

impl Old {
    fn trail_at(&self, version: Version) -> Option<Trail> {
        match version.checked_sub(self.chain.base() + 1) {
            Some(index) => self.trails.get(usize::try_from(index).ok()?).copied(),
            None => self.chain.trail_at(version),
        }
    }
}
