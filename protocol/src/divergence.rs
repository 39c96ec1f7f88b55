//! Which stable history survives when nodes hold different ones.
//!
//! Inside the horizon histories heal by union and this is not asked. Past it, per fragment, the
//! history with more merged weight wins and the trail breaks ties: a max-register, also a join.
//! A history counts only if enough nodes hold it, so that one liar cannot invent a heavy one;
//! and being told that one is behind is believed only from that many.

use crate::chain::Chain;
use crate::id::{ContentId, NodeId, Trail, Version};

/// What a node should do about its peers' histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Its own history stands, or nobody's is believable yet.
    Keep,
    /// Another history survives; these peers hold its snapshot.
    Adopt {
        /// The surviving history, up to the donors' base.
        chain: Chain,
        /// Who can serve its snapshot.
        donors: Vec<NodeId>,
    },
}

/// What is known of everyone's histories of one fragment.
#[derive(Debug)]
pub struct Claims<'a> {
    /// Our own stable history.
    pub own: &'a Chain,
    /// Our trails at the versions above the base: rounds that are closed but not stable.
    pub own_trails: &'a [Trail],
    /// What peers on the roster sent, newest of each.
    pub peers: &'a [(NodeId, &'a Chain)],
    /// Nodes heard of lately, this one included.
    pub live: usize,
    /// Peers among them that are caught up, so that they would send a history.
    pub donors: usize,
    /// A peer whose word is enough for somebody who has no history at all.
    pub sponsor: Option<NodeId>,
}

/// Decides.
pub fn choose(claims: &Claims<'_>) -> Choice {
    let need = support_need(claims.live, claims.peers.len() + 1);
    let own = Candidate::of(claims.own);
    let own_support = 1 + support(claims.peers, &own);
    let others: Vec<(Candidate, usize, &Chain)> = claims
        .peers
        .iter()
        .map(|(_, chain)| (Candidate::of(chain), *chain))
        .filter(|(candidate, _)| candidate.version > 0 && !reaches(claims, candidate))
        .map(|(candidate, chain)| (candidate, support(claims.peers, &candidate), chain))
        .collect();
    let most = others.iter().map(|(_, support, _)| *support).chain([own_support]).max();
    // If nobody has enough support, those with most of it must do: the rule is total. But one
    // node alone convinces others only when nearly everyone has spoken and all stand alone.
    let spoken = claims.peers.len() * 3 >= claims.donors * 2;
    let least = if spoken { 1 } else { support_need(claims.live, 1) };
    let enough = need.min(most.unwrap_or(need)).max(least);
    let vouched = claims.peers.iter().find(|(node, _)| claims.sponsor == Some(*node));
    let vouched = vouched.map(|(_, chain)| Candidate::of(chain));
    let best = others
        .into_iter()
        .filter(|(candidate, support, chain)| {
            let behind = claims.own.base() == 0
                || chain.trail_at(claims.own.base()) == Some(claims.own.base_trail());
            let vouched = claims.own.base() == 0 && vouched == Some(*candidate);
            let believed = vouched || *support >= if behind { need } else { enough };
            let outweighs = behind || own_support < enough || candidate.rank() > own.rank();
            believed && outweighs
        })
        .max_by_key(|(candidate, _, _)| candidate.rank());
    best.map_or(Choice::Keep, |(candidate, _, chain)| {
        let donors = claims
            .peers
            .iter()
            .filter(|(_, chain)| Candidate::of(chain) == candidate)
            .map(|(node, _)| *node)
            .collect();
        Choice::Adopt { chain: chain.clone(), donors }
    })
}

/// How many nodes must hold a history for it to count: a third of those that speak, and at
/// least two once four nodes are about.
pub fn support_need(live: usize, voters: usize) -> usize {
    voters.div_ceil(3).max(if live >= 4 { 2 } else { 1 })
}

/// The end of a stable history: what a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    version: Version,
    trail: Trail,
    weight: u64,
    digest: ContentId,
}

impl Candidate {
    fn of(chain: &Chain) -> Self {
        Self {
            version: chain.base(),
            trail: chain.base_trail(),
            weight: chain.base_weight(),
            digest: chain.base_digest(),
        }
    }

    fn rank(&self) -> (u64, Trail) {
        (self.weight, self.trail)
    }
}

fn support(peers: &[(NodeId, &Chain)], candidate: &Candidate) -> usize {
    peers
        .iter()
        .filter(|(_, chain)| {
            let Candidate { version, trail, digest, weight } = *candidate;
            chain.holds(version, trail, digest, weight)
        })
        .count()
}

/// Whether our own rounds lead to the candidate: then there is nothing to adopt.
fn reaches(claims: &Claims<'_>, candidate: &Candidate) -> bool {
    claims.own.trail_with(claims.own_trails, candidate.version) == Some(candidate.trail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::HistoryEntry;
    use crate::id::{ContributionId, FragmentId};

    fn grow(mut chain: Chain, rounds: &[(u8, u64)]) -> Chain {
        for &(n, weight) in rounds {
            let cut = vec![ContributionId([n; 32])];
            chain.push(HistoryEntry { cut, weight, digest: ContentId([n; 32]) });
        }
        chain
    }

    fn root() -> Chain {
        Chain::new(FragmentId(0), ContentId([0; 32]))
    }

    fn decide(own: &Chain, peers: &[&Chain], live: usize) -> Choice {
        decide_with(None, own, peers, live)
    }

    /// With the peer of this place as the sponsor.
    fn decide_with(sponsor: Option<u8>, own: &Chain, peers: &[&Chain], live: usize) -> Choice {
        let sponsor = sponsor.map(|n| NodeId([n; 32]));
        let peers: Vec<(NodeId, &Chain)> = peers
            .iter()
            .enumerate()
            .map(|(n, chain)| (NodeId([u8::try_from(n).unwrap(); 32]), *chain))
            .collect();
        choose(&Claims { own, own_trails: &[], peers: &peers, live, donors: live - 1, sponsor })
    }

    #[test]
    fn the_heavier_history_wins_on_both_sides() {
        let light = grow(root(), &[(1, 10), (2, 10)]);
        let heavy = grow(root(), &[(1, 10), (3, 30)]);
        assert!(matches!(decide(&light, &[&light, &heavy, &heavy], 4), Choice::Adopt { .. }));
        assert_eq!(decide(&heavy, &[&heavy, &light, &light], 4), Choice::Keep);
    }

    #[test]
    fn a_tie_is_broken_the_same_way_on_both_sides() {
        let one = grow(root(), &[(1, 10), (2, 10)]);
        let other = grow(root(), &[(1, 10), (3, 10)]);
        let adopts = |choice: Choice| matches!(choice, Choice::Adopt { .. });
        let first = adopts(decide(&one, &[&one, &other, &other], 4));
        let second = adopts(decide(&other, &[&other, &one, &one], 4));
        assert!(first != second);
    }

    #[test]
    fn one_liar_cannot_invent_a_heavy_history() {
        let honest = grow(root(), &[(1, 10), (2, 10)]);
        let forged = grow(root(), &[(1, 10), (9, 1 << 40)]);
        let peers = [&honest, &honest, &honest, &honest, &honest, &honest, &forged];
        assert_eq!(decide(&honest, &peers, 8), Choice::Keep);
        // Nor tell a joiner that the honest history goes on in its own way.
        let extended = grow(honest.clone(), &[(9, 1 << 40)]);
        let peers = [&honest, &honest, &honest, &honest, &honest, &honest, &extended];
        assert_eq!(decide(&honest, &peers, 8), Choice::Keep);
    }

    #[test]
    fn a_claimed_root_weight_gains_no_support() {
        let heavy = grow(root(), &[(1, 10), (2, 30)]);
        let light = grow(root(), &[(1, 10), (3, 10)]);
        let mut history = light.to_history();
        history.root_weight = 1 << 40;
        let lied = Chain::from_history(&history).unwrap();
        assert_eq!(decide(&heavy, &[&heavy, &light, &light, &lied], 5), Choice::Keep);
    }

    #[test]
    fn a_sponsor_alone_convinces_whoever_has_nothing_and_nobody_else() {
        let ahead = grow(root(), &[(1, 10), (2, 10), (3, 10)]);
        assert_eq!(decide(&root(), &[&ahead], 4), Choice::Keep);
        assert_eq!(decide_with(Some(7), &root(), &[&ahead], 4), Choice::Keep);
        let taken = decide_with(Some(0), &root(), &[&ahead], 4);
        assert!(matches!(taken, Choice::Adopt { chain, .. } if chain == ahead));
        let own = grow(root(), &[(1, 10)]);
        assert_eq!(decide_with(Some(0), &own, &[&ahead], 4), Choice::Keep);
        let forged = grow(root(), &[(9, 1 << 40)]);
        assert_eq!(decide_with(Some(0), &own, &[&forged, &own, &own], 4), Choice::Keep);
    }

    #[test]
    fn a_joiner_takes_what_enough_peers_attest() {
        let ahead = grow(root(), &[(1, 10), (2, 10), (3, 10)]);
        let further = grow(ahead.clone(), &[(4, 10)]);
        let Choice::Adopt { chain, donors } = decide(&root(), &[&ahead, &ahead, &further], 4)
        else {
            panic!("two peers attest version 3")
        };
        assert_eq!((chain.base(), donors.len()), (3, 2));
        assert_eq!(decide(&root(), &[&further], 4), Choice::Keep);
        assert!(matches!(decide(&root(), &[&further], 2), Choice::Adopt { .. }));
    }

    #[test]
    fn a_lone_heavier_minority_yields_to_an_attested_majority() {
        let lone = grow(root(), &[(1, 10), (2, 99)]);
        let many = grow(root(), &[(1, 10), (3, 10)]);
        assert!(matches!(decide(&lone, &[&many, &many, &many], 4), Choice::Adopt { .. }));
        assert_eq!(decide(&many, &[&many, &many, &lone], 4), Choice::Keep);
    }
}
