//! Which events people are told, and in what words.

use std::collections::BTreeSet;

use atoll_protocol::fault::Fault;
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{FragmentId, NodeId, RoundId};
use tracing::Level;

use super::event::{Because, Event};
use super::status::Status;
use super::written::Written;
use crate::units;

/// Tells people about events, each thing once.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Own contributions that most peers are known to have merged.
    receipts: BTreeSet<RoundId>,
    /// What peers did wrong: a peer that floods us must not flood our terminal.
    faults: BTreeSet<(NodeId, Fault)>,
    /// Who has another history of what: it is noticed again at every heartbeat until one wins.
    diverged: BTreeSet<(FragmentId, NodeId)>,
}

impl Telling {
    /// How loud to say what about an event.
    pub(super) fn words(&mut self, event: &Event, latest: Option<&Status>) -> (Level, String) {
        let level = self.level(event);
        (level, words(event, latest))
    }

    fn level(&mut self, event: &Event) -> Level {
        match event {
            Event::BitsDiffer { .. }
            | Event::SameKey
            | Event::Standing { standing: Standing::Muted } => Level::ERROR,
            Event::Equivocated { .. } | Event::Warning { .. } | Event::Dropped { .. } => {
                Level::WARN
            }
            Event::Diverged { fragment, peer } => self.diverged_level(*fragment, *peer),
            Event::Installed { fragment, orphaned, .. } => {
                self.diverged.retain(|(of, _)| of != fragment);
                if *orphaned > 0 { Level::WARN } else { Level::INFO }
            }
            Event::Fault { node, fault, .. } => self.fault_level(*node, *fault),
            Event::Receipt { round, merged_by, of } => self.receipt_level(*round, *merged_by, *of),
            Event::Started { .. }
            | Event::Stopped { .. }
            | Event::Standing { .. }
            | Event::Closed { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::Network { .. }
            | Event::HeldOut { .. }
            | Event::Recovered { .. } => Level::INFO,
            Event::Opened { .. }
            | Event::Contributed { .. }
            | Event::Admitted { .. }
            | Event::Materialised { .. }
            | Event::Stable { .. }
            | Event::Withheld { .. }
            | Event::Steps { .. } => Level::DEBUG,
        }
    }

    /// Loud when most peers have merged it, which is what an author waits for.
    fn receipt_level(&mut self, round: RoundId, merged_by: u32, of: u32) -> Level {
        let most = u64::from(merged_by) * 2 > u64::from(of);
        if !most || !remember(&mut self.receipts, round) {
            return Level::DEBUG;
        }
        Level::INFO
    }

    fn fault_level(&mut self, node: NodeId, fault: Fault) -> Level {
        if fault.penalty() == 0 || !remember(&mut self.faults, (node, fault)) {
            return Level::DEBUG;
        }
        Level::WARN
    }

    fn diverged_level(&mut self, fragment: FragmentId, peer: NodeId) -> Level {
        if remember(&mut self.diverged, (fragment, peer)) { Level::WARN } else { Level::DEBUG }
    }
}

/// True if it was not known. What is lowest is forgotten first: the oldest rounds of a fragment.
fn remember<T: Ord>(known: &mut BTreeSet<T>, what: T) -> bool {
    let new = known.insert(what);
    if known.len() > REMEMBERED_MAX {
        known.pop_first();
    }
    new
}

fn words(event: &Event, latest: Option<&Status>) -> String {
    match event {
        Event::Started { program, node, incarnation, resumed } => {
            let how = if *resumed { "goes on" } else { "begins" };
            format!("node {node} {how}, start {incarnation}, atoll {program}")
        }
        Event::Stopped { reason } => format!("stopped: {reason}"),
        Event::Standing { standing } => standing_words(*standing, latest),
        Event::Opened { round, author } => format!("round {round} opened by {author}"),
        Event::Contributed { round, tokens, steps, .. } => {
            format!("contributed to {round}: {} tokens in {steps} steps", units::count(*tokens))
        }
        Event::Admitted { round, author, late, .. } => {
            let late = if *late { ", late: the round is folded again" } else { "" };
            format!("contribution {round} of {author} admitted{late}")
        }
        Event::Closed { round, have, need, because } => {
            let because = match because {
                Because::Everyone => "every live island was there".to_owned(),
                Because::Grace { .. } => "the grace window was over".to_owned(),
                Because::Peers { closed } => format!("{closed} peers had closed it"),
            };
            format!("round {round} closed with {have} contributions (quorum {need}): {because}")
        }
        Event::Materialised { fragment, version, digest } => {
            format!("{fragment} folded to version {version}, digest {digest}")
        }
        Event::Stable { fragment, version, .. } => format!("{fragment} is stable up to {version}"),
        Event::Diverged { fragment, peer } => {
            format!("peer {peer} has another history of {fragment}; the heavier one will win")
        }
        Event::BitsDiffer { fragment, version, peer } => format!(
            "peer {peer} has other bits at version {version} of {fragment}: please report this"
        ),
        Event::Installed { fragment, version, reissued, orphaned } => format!(
            "took version {version} of {fragment} from peers; {reissued} own contributions go \
             out again, {} tokens are lost",
            units::count(*orphaned)
        ),
        Event::Receipt { round, merged_by, of } => {
            format!("contribution {round} merged by {merged_by} of {of} peers")
        }
        Event::SameKey => "another node runs with this node's key (hint: stop one of the two, or \
                           give it a folder of its own with --home)"
            .to_owned(),
        other => words_about_peers(other),
    }
}

fn words_about_peers(event: &Event) -> String {
    match event {
        Event::Equivocated { node } => {
            format!("peer {node} signed twice for one slot and is refused from now on")
        }
        Event::Withheld { payload, author } => {
            format!("nobody serves payload {payload} that {author} announced")
        }
        Event::PeerUp { node } => format!("peer {node} is here"),
        Event::PeerDown { node } => format!("peer {node} left"),
        Event::Network { notice } => notice.clone(),
        Event::Fault { node, fault, penalty } => {
            let fault = fault.write().replace('_', " ");
            format!("peer {node} is at fault: {fault} ({penalty} points)")
        }
        Event::Steps { step, loss, tokens_per_s, .. } => {
            format!("step {step}, loss {}, {tokens_per_s:.0} tokens/s", number(*loss))
        }
        Event::HeldOut { step, loss } => {
            format!("held-out loss {} at step {step}", number(*loss))
        }
        Event::Recovered { what } => what.clone(),
        Event::Warning { message, hint } => format!("{message} (hint: {hint})"),
        Event::Dropped { events } => format!("{events} events are missing in the log"),
        other => format!("{other:?}"),
    }
}

fn standing_words(standing: Standing, latest: Option<&Status>) -> String {
    match standing {
        Standing::Joining => "joining: looking for where the swarm is".to_owned(),
        Standing::CaughtUp => {
            let versions = latest.map(|it| it.fragments.iter().map(|it| it.version));
            let bounds = versions.and_then(|it| Some((it.clone().min()?, it.max()?)));
            match bounds {
                Some((low, high)) if low == high => format!("caught up at version {low}"),
                Some((low, high)) => format!("caught up at versions {low} to {high}"),
                None => "caught up".to_owned(),
            }
        }
        Standing::Muted => "this node's key was revoked, or was seen to sign twice: it follows \
                            and stays silent"
            .to_owned(),
    }
}

fn number(loss: Option<f64>) -> String {
    loss.map_or_else(|| "unknown".to_owned(), |loss| format!("{loss:.4}"))
}

/// Rounds and faults that were told.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::status::example;

    fn told(telling: &mut Telling, event: Event) -> Option<String> {
        let (level, words) = telling.words(&event, Some(&example::status()));
        (level <= Level::INFO).then_some(words)
    }

    #[test]
    fn a_receipt_is_told_once_most_peers_have_merged() {
        let telling = &mut Telling::default();
        let round = |number| RoundId { fragment: FragmentId(3), number };
        let receipt =
            |number, merged_by, of| Event::Receipt { round: round(number), merged_by, of };
        assert_eq!(told(telling, receipt(41, 0, 0)), None);
        assert_eq!(told(telling, receipt(41, 4, 8)), None);
        let words = told(telling, receipt(41, 6, 8)).unwrap();
        assert_eq!(words, "contribution f3/r41 merged by 6 of 8 peers");
        assert_eq!(told(telling, receipt(41, 7, 8)), None);
        assert!(told(telling, receipt(42, 8, 8)).is_some());
    }

    #[test]
    fn a_peer_cannot_flood_the_terminal() {
        let telling = &mut Telling::default();
        let fault = |fault: Fault| {
            let node = NodeId([0x12; 32]);
            Event::Fault { node, fault, penalty: fault.penalty() }
        };
        let words = told(telling, fault(Fault::BadSignature)).unwrap();
        assert_eq!(words, "peer 12121212 is at fault: bad signature (50 points)");
        for _ in 0..10 {
            assert_eq!(told(telling, fault(Fault::BadSignature)), None);
        }
        assert_eq!(told(telling, fault(Fault::Withheld)), None, "that can happen to anyone");
        assert!(told(telling, fault(Fault::Flood)).is_some());
        for number in 0..2 * u32::try_from(REMEMBERED_MAX).unwrap() {
            let round = RoundId { fragment: FragmentId(0), number };
            telling.words(&Event::Receipt { round, merged_by: 1, of: 1 }, None);
        }
        assert_eq!(telling.receipts.len(), REMEMBERED_MAX);
    }

    #[test]
    fn another_history_is_told_again_only_after_one_was_taken() {
        let telling = &mut Telling::default();
        let diverged = || Event::Diverged { fragment: FragmentId(1), peer: NodeId([0x12; 32]) };
        assert!(told(telling, diverged()).is_some());
        assert_eq!(told(telling, diverged()), None);
        let installed =
            |fragment| Event::Installed { fragment, version: 7, reissued: 0, orphaned: 0 };
        assert!(told(telling, installed(FragmentId(0))).is_some());
        assert_eq!(told(telling, diverged()), None, "that was another fragment");
        assert!(told(telling, installed(FragmentId(1))).is_some());
        assert!(told(telling, diverged()).is_some());
    }

    #[test]
    fn words_are_short_and_plain() {
        let telling = &mut Telling::default();
        let round = RoundId { fragment: FragmentId(0), number: 12 };
        let closed = Event::Closed { round, have: 4, need: 3, because: Because::Everyone };
        for (event, words) in [
            (
                closed,
                "round f0/r12 closed with 4 contributions (quorum 3): every live island was there",
            ),
            (Event::Standing { standing: Standing::CaughtUp }, "caught up at versions 40 to 41"),
            (Event::PeerDown { node: NodeId([0x12; 32]) }, "peer 12121212 left"),
            (Event::HeldOut { step: 10, loss: Some(3.2) }, "held-out loss 3.2000 at step 10"),
            (Event::Network { notice: "listening on x".into() }, "listening on x"),
        ] {
            assert_eq!(told(telling, event).unwrap(), words);
        }
    }
}
