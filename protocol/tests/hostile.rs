//! An engine that is told anything at all: it never panics, judges each message once, keeps its
//! structures within their limits and its account of tokens balanced.
//!
//! All of that is asserted by the stranger after every input; these tests only write scripts.

#[path = "support/stranger.rs"]
mod stranger;

use atoll_protocol::chain::{History, HistoryEntry};
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, Signed};
use atoll_protocol::engine::Input;
use atoll_protocol::fault::Verdict;
use atoll_protocol::frontier::{Frontier, FrontierEntry, Standing};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, RunId, Short, Trail};
use atoll_protocol::ledger::Evidence;
use atoll_protocol::limits::PEER_BURST;
use atoll_protocol::message::{Message, RosterRecords, Summary};
use atoll_protocol::rng::Rng;
use atoll_protocol::testkit;
use proptest::prelude::*;

use stranger::Stranger;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_bytes_are_judged_and_change_nothing(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
    ) {
        let mut stranger = Stranger::new(&[0]);
        for bytes in messages {
            prop_assert_eq!(stranger.receive(bytes), Verdict::Reject);
        }
    }

    /// Any inputs in any order: real messages, changed ones, repeated ones, answers that nobody
    /// asked for, answers that somebody did, restarts, the passing of time.
    #[test]
    fn any_inputs_in_any_order(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        Stranger::new(&script).play();
    }

    /// The same with low bytes only, which the stranger does sensible things for.
    #[test]
    fn mostly_sensible_inputs_in_any_order(script in prop::collection::vec(0u8..32, 0..1500)) {
        Stranger::new(&script).play();
    }
}

/// The scripts above would prove little if they never led anywhere.
#[test]
fn scripts_lead_to_stable_rounds() {
    let mut rng = Rng::new(5);
    let (mut versions, mut bases) = (0, 0);
    for n in 0..40 {
        let limit = if n % 2 == 0 { 32 } else { 256 };
        let script: Vec<u8> = (0..1500).map(|_| u8::try_from(rng.below(limit)).unwrap()).collect();
        let mut stranger = Stranger::new(&script);
        stranger.play();
        let statuses = stranger.statuses();
        versions += statuses.iter().filter(|status| status.version > 0).count();
        bases += statuses.iter().filter(|status| status.base > 0).count();
    }
    assert!(versions > 60 && bases > 10, "of 80: {versions} with a closed round, {bases} stable");
}

#[test]
fn a_summary_from_the_last_version_is_no_overflow() {
    let mut stranger = Stranger::new(&[0]);
    for base in [u32::MAX, u32::MAX - 1] {
        let rounds = vec![Short([1; 8]); 3];
        let summary = Summary { fragment: FragmentId(0), base, rounds };
        let verdict = stranger.receive(Message::Summary(summary).encode());
        assert_ne!(verdict, Verdict::Accept);
    }
}

#[test]
fn a_history_without_room_for_another_round_is_refused() {
    let entry =
        |n| HistoryEntry { cut: vec![ContributionId([n; 32])], weight: 9, digest: content(n) };
    let history = |root| History {
        fragment: FragmentId(0),
        root,
        root_trail: Trail([3; 32]),
        root_weight: 1 << 40,
        root_digest: content(9),
        entries: vec![entry(1), entry(2)],
    };
    let mut stranger = Stranger::new(&[0]);
    for root in [u32::MAX, u32::MAX - 1, u32::MAX - 2, u32::MAX - 3] {
        let verdict = stranger.receive(Message::History(history(root)).encode());
        assert_eq!(verdict, Verdict::Reject, "{root}");
    }
    assert_eq!(stranger.receive(Message::History(history(7)).encode()), Verdict::Ignore);
}

#[test]
fn steps_with_more_tokens_than_can_be_counted_still_add_up() {
    let mut stranger = Stranger::new(&[0]);
    for _ in 0..3 {
        stranger.handle(Input::Stepped { tokens: u64::MAX, step_ms: u32::MAX });
    }
    assert!(stranger.statuses().iter().all(|status| status.fates.fresh > 0));
}

#[test]
fn a_page_with_one_bad_header_changes_nothing() {
    let mut stranger = Stranger::new(&[0]);
    let run = stranger.run();
    let mut bad = header(run, &testkit::key(3), 9);
    bad.body.tokens += 1;
    let good = header(run, &testkit::key(2), 5);
    let verdict = stranger.receive(Message::Headers(vec![good.clone(), bad]).encode());
    assert_eq!(verdict, Verdict::Reject);
    assert_eq!(stranger.size_of("candidates"), 0);
    assert_eq!(stranger.receive(Message::Headers(vec![good]).encode()), Verdict::Ignore);
    assert_eq!(stranger.size_of("candidates"), 1);
}

#[test]
fn a_roster_with_bad_evidence_convicts_nobody() {
    let mut stranger = Stranger::new(&[0]);
    let run = stranger.run();
    let evidence = |run, n| {
        let key = testkit::key(n);
        Evidence::between(&header(run, &key, 5), &header(run, &key, 6)).unwrap()
    };
    let (good, bad) = (evidence(run, 2), evidence(RunId([1; 32]), 3));
    let roster = |evidence| Message::Roster(RosterRecords { evidence, ..Default::default() });
    let verdict = stranger.receive(roster(vec![good.clone(), bad]).encode());
    assert_eq!(verdict, Verdict::Reject);
    // Known evidence would be ignored; this is still news.
    assert_eq!(stranger.receive(Message::Evidence(good).encode()), Verdict::Accept);
}

#[test]
fn a_flood_is_rejected_and_costs_nothing() {
    let mut stranger = Stranger::new(&[0]);
    let ask = Message::AskRoster.encode();
    let verdicts: Vec<Verdict> =
        (0..PEER_BURST + 9).map(|_| stranger.receive(ask.clone())).collect();
    let rejected = verdicts.iter().filter(|verdict| **verdict == Verdict::Reject).count();
    assert_eq!(rejected, 9);
}

#[test]
fn a_frontier_at_the_end_of_all_versions_is_harmless() {
    let mut stranger = Stranger::new(&[0]);
    let key = testkit::key(2);
    let (version, trail) = (u32::MAX, Short([1; 8]));
    let entry = FrontierEntry {
        base: version,
        version,
        base_trail: trail,
        mark_trail: trail,
        trail,
        digest: trail,
    };
    let frontier = Frontier {
        node: key.node(),
        incarnation: 1,
        sequence: 1,
        standing: Standing::CaughtUp,
        trains: true,
        step_ms: u32::MAX,
        roster: trail,
        first: FragmentId(0),
        entries: vec![entry; 2],
    };
    let run = stranger.run();
    let verdict = stranger.receive(Message::Frontier(key.sign(run, frontier)).encode());
    assert_eq!(verdict, Verdict::Accept);
    stranger.handle(Input::PeerUp(NodeId([9; 32])));
    stranger.pass(60_000);
}

fn header(run: RunId, key: &Key, tokens: u64) -> Signed<Header> {
    let header = Header {
        author: key.node(),
        fragment: FragmentId(0),
        round: 1,
        base: 0,
        tokens,
        steps: 8,
        payload: content(5),
        payload_bytes: 64,
    };
    key.sign(run, header)
}

fn content(n: u8) -> ContentId {
    ContentId([n; 32])
}
