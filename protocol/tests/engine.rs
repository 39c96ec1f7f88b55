//! Engines together, without weather: rounds, restarts, partitions, liars.

#[path = "support/nodes.rs"]
mod nodes;

use std::collections::BTreeSet;

use atoll_protocol::contribution::Header;
use atoll_protocol::engine::{Command, Fates, Input, Record, Report};
use atoll_protocol::frontier::{Frontier, FrontierEntry, Standing};
use atoll_protocol::genesis::{Genesis, Init, RosterPolicy, TensorKind, TensorSpec};
use atoll_protocol::id::{ContentId, FragmentId, NodeId};
use atoll_protocol::message::{Message, Summary};
use atoll_protocol::testkit;

use nodes::{Room, genesis};

#[test]
fn islands_close_rounds_and_hold_the_same_bits() {
    let mut room = Room::new(genesis(), 4);
    room.run(20_000);
    let digests = room.digests(0);
    assert!(digests.iter().all(|(version, _)| *version >= 10), "{digests:?}");
    for index in 1..4 {
        assert_eq!(room.digests(index), digests);
        assert_eq!(room.nodes[index].engine.standing(), Standing::CaughtUp);
    }
    for index in 0..4 {
        for fragment in 0..2 {
            let status = room.nodes[index].engine.status(FragmentId(fragment)).unwrap();
            let fates = status.fates;
            let sum = fates.merged + fates.pending + fates.fresh + fates.reissued + fates.orphaned;
            assert_eq!(sum, fates.trained);
            assert!(status.base + 3 >= status.version, "rounds become stable: {status:?}");
            assert!(fates.merged > fates.trained / 2);
        }
    }
}

#[test]
fn who_makes_a_run_waits_for_nobody() {
    for founds in [false, true] {
        let mut room = Room::founded(genesis(), 1, founds);
        let silence = genesis().rounds.alive_ms;
        room.run(silence / 2);
        let caught_up = room.nodes[0].engine.standing() == Standing::CaughtUp;
        assert_eq!(caught_up, founds);
        // Started again it might have missed something.
        room.restart(0);
        room.run(silence / 2);
        assert_eq!(room.nodes[0].engine.standing(), Standing::Joining);
        room.run(silence);
        assert_eq!(room.nodes[0].engine.standing(), Standing::CaughtUp);
    }
}

#[test]
fn what_was_folded_is_not_folded_again_when_it_becomes_stable() {
    let mut room = Room::new(genesis(), 4);
    room.run(20_000);
    for node in &room.nodes {
        let mut seen = BTreeSet::new();
        for report in &node.reports {
            if let Report::Materialised { fragment, version, digest } = report {
                assert!(seen.insert((*fragment, *version, *digest)), "{report:?} again");
            }
        }
        assert!(node.reports.iter().any(|it| matches!(it, Report::Stable { .. })));
        assert!(seen.len() >= 20);
    }
}

#[test]
fn a_swarm_at_rest_says_little_and_stays_together() {
    let mut room = Room::new(genesis(), 4);
    room.run(20_000);
    room.idle = true;
    room.run(20_000);
    let before = room.messages;
    room.run(80_000);
    let said = room.messages - before;
    // Of eight seconds in which silence is death, three and more pass in silence; each node then
    // says where it stands, and compares two fragments with somebody.
    assert!(said <= 4 * 3 * 80_000 / 3_200, "{said} messages");
    for node in &room.nodes {
        assert_eq!(node.engine.standing(), Standing::CaughtUp);
        assert_eq!(node.engine.peer_views().iter().filter(|peer| peer.alive).count(), 3);
    }
    let version = room.digests(0)[0].0;
    room.idle = false;
    room.run(5_000);
    assert!(room.digests(0)[0].0 > version + 1, "rounds go on at once");
}

#[test]
fn a_round_that_one_node_closed_alone_is_closed_by_islands_at_rest() {
    let mut room = Room::new(genesis(), 4);
    room.run(10_000);
    room.cut = vec![(0, 1), (0, 2), (0, 3)];
    let version =
        |room: &Room, index: usize| room.nodes[index].engine.status(FragmentId(0)).unwrap().version;
    room.run(room.genesis.rounds.alive_ms + 500);
    room.idle = true;
    for _ in 0..100 {
        if version(&room, 0) < version(&room, 1) + 2 {
            room.input(0, Input::Stepped { tokens: 32, step_ms: 100 });
        }
    }
    room.cut.clear();
    room.connect();
    room.run(room.genesis.rounds.alive_ms / 2);
    assert!(version(&room, 0) > version(&room, 1), "they might still contribute");
    room.run(2 * room.genesis.rounds.alive_ms);
    for index in 1..4 {
        assert_eq!(room.digests(index), room.digests(0), "node {index}");
    }
}

#[test]
fn a_round_does_not_wait_for_an_island_that_has_closed_it_without_contributing() {
    let mut genesis = Genesis { fragments: 1, ..genesis() };
    genesis.rounds.quorum_percent = 100;
    for past in [false, true] {
        let mut room = Room::new(genesis.clone(), 3);
        room.run(20_000);
        room.nodes[2].up = false;
        let (key, from) = (testkit::key(3), room.nodes[2].engine.node());
        let version = |room: &Room| room.nodes[0].engine.status(FragmentId(0)).unwrap().version;
        let status = room.nodes[0].engine.status(FragmentId(0)).unwrap();
        let before = status.version;
        let entry = FrontierEntry {
            base: status.base,
            version: before + if past { 2 } else { 0 },
            base_trail: status.base_trail.short(),
            mark_trail: status.base_trail.short(),
            trail: status.head_trail.short(),
            digest: status.digest.short(),
        };
        let frontier = Frontier {
            node: from,
            incarnation: 9,
            sequence: 1,
            standing: Standing::CaughtUp,
            trains: true,
            step_ms: 100,
            roster: status.base_trail.short(),
            first: FragmentId(0),
            entries: vec![entry],
        };
        let bytes = Message::Frontier(key.sign(genesis.run_id(), frontier)).encode();
        for index in 0..2 {
            room.input(index, Input::Received { from, bytes: bytes.clone(), receipt: 0 });
        }
        room.run(genesis.rounds.alive_ms / 2);
        assert_eq!(version(&room) >= before + 2, past, "version {} of {before}", version(&room));
    }
}

#[test]
fn a_restarted_node_goes_on_where_it_stopped() {
    let mut room = Room::new(genesis(), 4);
    room.run(10_000);
    let before = room.nodes[1].engine.status(FragmentId(0)).unwrap();
    room.restart(1);
    let after = room.nodes[1].engine.status(FragmentId(0)).unwrap();
    assert!(after.version >= before.version);
    room.run(20_000);
    assert_eq!(room.digests(1), room.digests(0));
    assert_eq!(room.nodes[1].engine.standing(), Standing::CaughtUp);
}

#[test]
fn what_an_engine_does_not_need_may_go_from_the_disk() {
    let mut room = Room::new(genesis(), 4);
    room.run(10_000);
    let mut gone = 0;
    for round in 0..40 {
        // A partition now and then, so that there is work that may come back.
        room.cut = if round % 8 < 3 { vec![(0, 2), (0, 3), (1, 2), (1, 3)] } else { Vec::new() };
        room.connect();
        room.run(1_500);
        gone += room.clear(round % 4);
        if round % 10 == 9 {
            room.restart(round % 4);
        }
    }
    room.run(20_000);
    assert!(gone > 20, "{gone}");
    for index in 1..4 {
        assert_eq!(room.digests(index), room.digests(0), "node {index}");
    }
}

#[test]
fn a_partition_inside_the_horizon_heals_by_union() {
    let mut room = Room::new(genesis(), 4);
    room.run(10_000);
    room.cut = vec![(0, 2), (0, 3), (1, 2), (1, 3)];
    room.run(9_000);
    assert_ne!(room.digests(0), room.digests(3));
    room.cut.clear();
    room.connect();
    room.run(15_000);
    assert_eq!(room.digests(0), room.digests(3));
    let installed = room.nodes.iter().flat_map(|node| &node.reports);
    assert!(!installed.into_iter().any(|report| matches!(report, Report::Installed { .. })));
}

#[test]
fn past_the_horizon_the_heavier_history_survives_and_the_rest_is_issued_again() {
    let mut genesis = genesis();
    genesis.rounds.horizon = 4;
    let mut room = Room::new(genesis, 5);
    room.run(10_000);
    room.cut = [0, 1, 2].iter().flat_map(|one| [(*one, 3), (*one, 4)]).collect();
    room.run(60_000);
    room.cut.clear();
    room.connect();
    room.run(30_000);
    for index in 1..5 {
        assert_eq!(room.digests(index), room.digests(0), "node {index}");
    }
    let reissued: u32 = room
        .nodes
        .iter()
        .flat_map(|node| &node.reports)
        .map(|report| match report {
            Report::Installed { reissued, .. } => *reissued,
            _ => 0,
        })
        .sum();
    assert!(reissued > 0);
}

#[test]
fn who_never_sends_its_history_does_not_keep_others_from_agreeing() {
    let mut genesis = genesis();
    genesis.rounds.horizon = 4;
    let mut room = Room::new(genesis, 4);
    room.run(10_000);
    room.cut = vec![(0, 1)];
    (2..4).for_each(|index| room.nodes[index].up = false);
    room.run(60_000);
    room.cut.clear();
    room.silent = vec![2, 3];
    (2..4).for_each(|index| room.nodes[index].up = true);
    room.connect();
    room.run(30_000);
    assert!(installed(&room.nodes[0]) + installed(&room.nodes[1]) > 0);
}

#[test]
fn a_founder_that_made_another_history_stable_yields_to_those_who_came_later() {
    let mut genesis = genesis();
    genesis.rounds.horizon = 512;
    let mut room = Room::new(genesis, 1);
    // They come after the founder took part and before its first round was closed.
    room.run(room.genesis.rounds.alive_ms);
    (2..=5).for_each(|n| room.join(n));
    room.run(8_000);
    // One goes, and cannot say any more what it thinks of what comes late.
    room.nodes[4].up = false;
    let status =
        |room: &Room, index: usize| room.nodes[index].engine.status(FragmentId(0)).unwrap();
    let stable = status(&room, 0).base;
    assert!(stable > status(&room, 1).base, "who came later follows, and nobody leads but one");
    // To what the founder calls stable somebody contributes late, with bytes that all have.
    let contribution = room.nodes[1].records.iter().find_map(|record| match record {
        Record::Contribution(signed) if signed.body.round_id().number == stable => {
            (signed.body.fragment == FragmentId(0)).then_some(signed.body)
        }
        _ => None,
    });
    let late = testkit::key(9);
    let header = Header { author: late.node(), ..contribution.unwrap() };
    let bytes = Message::Announce(late.sign(room.genesis.run_id(), header)).encode();
    for index in 0..4 {
        let bytes = bytes.clone();
        room.input(index, Input::Received { from: late.node(), bytes, receipt: 0 });
    }
    assert_ne!(room.digests(0), room.digests(1));
    room.run(room.genesis.rounds.forget_ms + 10 * room.genesis.rounds.heartbeat_ms);
    for index in 1..4 {
        assert_eq!(room.digests(index), room.digests(0), "node {index}");
    }
    assert!(installed(&room.nodes[0]) > 0);
}

#[test]
fn a_fresh_node_cannot_overwrite_the_swarm() {
    let mut room = Room::new(genesis(), 5);
    room.nodes[4].up = false;
    room.run(30_000);
    let version = room.digests(0)[0].0;
    // It starts with nothing, out of reach, and trains on its own for a while.
    room.cut = (0..4).map(|one| (one, 4)).collect();
    room.nodes[4].up = true;
    room.connect();
    room.run(30_000);
    room.cut.clear();
    room.connect();
    room.run(30_000);
    assert!(room.digests(0)[0].0 > version);
    assert_eq!(room.digests(4), room.digests(0));
    let donors = room.nodes[..4].iter().flat_map(|node| &node.reports);
    assert!(!donors.into_iter().any(|report| matches!(report, Report::Installed { .. })));
}

#[test]
fn those_who_join_whoever_made_the_run_all_at_once_go_on_from_its_state() {
    let mut room = Room::founded(genesis(), 1, true);
    room.run(60_000);
    let alone = room.digests(0)[0].0;
    assert!(alone > 50);
    room.founds = false;
    room.sponsor = Some(room.nodes[0].engine.node());
    // None of them has heard of any other before all are there.
    room.cut = (0..4).flat_map(|one| (0..one).map(move |other| (other, one))).collect();
    (2..=4).for_each(|n| room.join(n));
    room.cut.clear();
    room.connect();
    room.run(30_000);
    for index in 1..4 {
        assert_eq!(room.digests(index), room.digests(0), "node {index}");
    }
    assert!(room.digests(0)[0].0 > alone);
    assert_eq!(installed(&room.nodes[0]), 0, "its history stands");
}

#[test]
fn a_newcomer_hears_its_sponsor_before_it_takes_anybodys_state() {
    let mut room = Room::founded(genesis(), 1, true);
    room.run(2_000);
    room.founds = false;
    room.sponsor = Some(room.nodes[0].engine.node());
    (2..=4).for_each(|n| room.join(n));
    room.run(20_000);
    let asks = |room: &mut Room| {
        room.join(u8::try_from(room.nodes.len()).unwrap() + 1);
        room.run(1_500);
        room.nodes.last().unwrap().fetched.len()
    };
    assert!(asks(&mut room) > 0, "its sponsor has spoken");
    room.silent = vec![0];
    assert_eq!(asks(&mut room), 0, "the others' states are older in a moment");
    room.run(5_000);
    assert!(room.nodes.last().unwrap().engine.standing() == Standing::CaughtUp, "nor for ever");
}

#[test]
fn payloads_wait_until_a_newcomer_has_all_of_its_bases() {
    let tensor = |name: &str, elements| {
        TensorSpec::new(name, &[elements, 64], TensorKind::Matrix, Init::Zeros)
    };
    let mut genesis = Genesis { tensors: vec![tensor("a", 256), tensor("b", 4)], ..genesis() };
    genesis.rounds.horizon = 64;
    let mut room = Room::founded(genesis, 1, true);
    room.run(10_000);
    room.founds = false;
    room.sponsor = Some(room.nodes[0].engine.node());
    // The large base takes its time, the small one and all payloads of its fragment do not.
    room.thin = Some((1, 5_000));
    room.join(2);
    room.run(4_000);
    assert_eq!(installed(&room.nodes[1]), 1);
    assert_eq!(room.nodes[1].fetched.len(), 2, "nothing but the two bases");
    room.thin = None;
    room.run(10_000);
    assert_eq!(room.nodes[1].engine.standing(), Standing::CaughtUp);
    assert_eq!(installed(&room.nodes[1]), 2, "each base once");
}

#[test]
fn who_came_with_a_ticket_calls_stable_what_its_sponsor_does() {
    let mut room = Room::founded(genesis(), 1, true);
    room.run(10_000);
    room.founds = false;
    room.sponsor = Some(room.nodes[0].engine.node());
    (2..=3).for_each(|n| room.join(n));
    room.run(2_000);
    // The next two have a ticket of somebody whom nobody hears.
    room.sponsor = Some(testkit::key(9).node());
    (4..=5).for_each(|n| room.join(n));
    room.run(30_000);
    let base =
        |room: &Room, index: usize| room.nodes[index].engine.status(FragmentId(0)).unwrap().base;
    assert!(base(&room, 0) > 40, "the founder was there from the beginning");
    for index in 1..3 {
        assert!(base(&room, index) + 2 >= base(&room, 0), "node {index} has a sponsor");
    }
    // Those follow as soon as three call it stable, who are enough.
    for index in 3..5 {
        assert!(base(&room, index) + 4 >= base(&room, 0), "node {index} follows");
    }
    // Without the founder nobody is left who knows everyone.
    let before = base(&room, 1);
    room.nodes[0].up = false;
    room.run(10_000);
    assert!(base(&room, 1) <= before + 1, "rounds go on, and none becomes stable");
}

#[test]
fn who_hears_only_strangers_waits_for_their_invitations() {
    let roster = RosterPolicy::Invite { stewards: vec![testkit::key(1).node()] };
    let mut room = Room::new(Genesis { roster, ..genesis() }, 3);
    for n in 1..=4 {
        let node = testkit::key(n).node();
        room.input(0, Input::Command(Command::Invite { node, last_round: 1000 }));
    }
    room.run(30_000);
    room.untold = Some(3);
    room.join(4);
    room.run(2 * room.genesis.rounds.alive_ms);
    assert_eq!(room.nodes[3].engine.standing(), Standing::Joining);
    room.untold = None;
    room.run(10_000);
    assert_eq!(room.digests(3), room.digests(0));
    let founded =
        |report: &Report| matches!(report, Report::Closed { round, .. } if round.number == 1);
    assert!(!room.nodes[3].reports.iter().any(founded), "it began a history of its own");
}

#[test]
fn a_newcomer_asks_those_it_meets_later_at_once() {
    let mut room = Room::new(genesis(), 4);
    room.run(30_000);
    room.join(5);
    // It hears all, but can ask one only.
    let donors: Vec<NodeId> = room.nodes[1..4].iter().map(|node| node.engine.node()).collect();
    for donor in &donors {
        room.input(4, Input::PeerDown(*donor));
    }
    for _ in 0..1000 {
        if room.nodes[4].asked > 0 {
            break;
        }
        room.run(10);
    }
    assert!(room.nodes[4].asked > 0 && installed(&room.nodes[4]) == 0);
    room.connect();
    room.run(room.genesis.rounds.heartbeat_ms * 3 / 4);
    assert!(installed(&room.nodes[4]) > 0);
    let diverged = |report: &Report| matches!(report, Report::Diverged { .. });
    assert!(!room.nodes[4].reports.iter().any(diverged), "it has nothing that could differ");
}

#[test]
fn a_newcomer_fetches_its_bases_before_anything_else() {
    let matrix = |name| TensorSpec::new(name, &[512, 256], TensorKind::Matrix, Init::Zeros);
    let genesis = Genesis { tensors: vec![matrix("a"), matrix("b")], ..genesis() };
    let fragments = genesis.fragments as usize;
    let mut room = Room::new(genesis, 4);
    room.run(6_000);
    room.thin = Some((4, 3 * room.genesis.rounds.heartbeat_ms));
    room.join(5);
    let mut known: BTreeSet<ContentId> = room.bases(0);
    for _ in 0..3000 {
        if installed(&room.nodes[4]) == fragments {
            break;
        }
        let early: Vec<&ContentId> =
            room.nodes[4].fetched.iter().filter(|content| !known.contains(content)).collect();
        assert!(early.is_empty(), "{early:?} will be in the bases, or wait for them");
        room.run(10);
        known.extend(room.bases(0));
    }
    assert_eq!(installed(&room.nodes[4]), fragments);
    room.run(10_000);
    assert!(room.nodes[4].fetched.len() > known.len(), "now it takes part");
}

#[test]
fn what_is_merged_and_what_is_under_way_is_about_what_all_have_trained() {
    let mut room = Room::new(genesis(), 4);
    let fates = |room: &Room, index: usize| -> Vec<Fates> {
        let fragments = (0..room.genesis.fragments).map(FragmentId);
        fragments.map(|it| room.nodes[index].engine.status(it).unwrap().fates).collect()
    };
    // Until they know of each other.
    room.run(6_000);
    for _ in 0..100 {
        room.run(110);
        let all: Vec<Fates> = (0..4).flat_map(|index| fates(&room, index)).collect();
        let mean = |part: fn(&Fates) -> u64| all.iter().map(part).sum::<u64>() / 2;
        let (trained, merged) = (mean(|it| it.trained), mean(|it| it.merged));
        for node in &room.nodes {
            let about = merged + node.engine.tokens_under_way();
            // Half a step of each island between one look and the next, and captures at other steps.
            assert!(about.abs_diff(trained) <= 4 * 4 * 32, "{about} of {trained}");
        }
    }
    let alone = Room::new(genesis(), 1);
    assert_eq!(alone.nodes[0].engine.tokens_under_way(), 0);
}

fn installed(node: &nodes::Node) -> usize {
    node.reports.iter().filter(|it| matches!(it, Report::Installed { .. })).count()
}

#[test]
fn who_asks_all_the_time_is_answered_now_and_then() {
    let mut room = Room::new(genesis(), 3);
    room.run(10_000);
    let fragment = FragmentId(0);
    let unsettled = |room: &Room| {
        let status = room.nodes[0].engine.status(fragment).unwrap();
        status.version > status.base
    };
    for _ in 0..1000 {
        if unsettled(&room) {
            break;
        }
        room.run(10);
    }
    assert!(unsettled(&room), "there are headers to send");
    let from = testkit::key(9).node();
    room.input(0, Input::PeerUp(from));
    let summary = Summary { fragment, base: 0, rounds: Vec::new() };
    for question in [Message::Summary(summary), Message::AskHistory(fragment), Message::AskRoster] {
        let before = room.messages;
        for _ in 0..100 {
            let bytes = question.encode();
            room.input(0, Input::Received { from, bytes, receipt: 0 });
        }
        let answers = room.messages - before;
        // To a summary, headers and a summary.
        assert!((1..=2).contains(&answers), "{answers} to {question:?}");
    }
}

#[test]
fn a_snapshot_that_takes_longer_than_a_few_heartbeats_still_arrives() {
    let matrix = TensorSpec::new("a", &[512, 256], TensorKind::Matrix, Init::Zeros);
    let rounds = genesis().rounds;
    let mut room = Room::new(Genesis { tensors: vec![matrix], fragments: 1, ..genesis() }, 4);
    room.nodes[3].up = false;
    room.thin = Some((3, 8 * rounds.heartbeat_ms));
    room.run(30_000);
    room.nodes[3].up = true;
    room.connect();
    room.run(60 * rounds.heartbeat_ms);
    let installed = |report: &Report| matches!(report, Report::Installed { .. });
    assert!(room.nodes[3].reports.iter().any(installed));
    assert_eq!(room.nodes[3].engine.standing(), Standing::CaughtUp);
}

#[test]
fn where_as_many_lag_as_take_part_captures_are_rarer_until_they_have_caught_up() {
    let matrix = TensorSpec::new("a", &[512, 256], TensorKind::Matrix, Init::Zeros);
    let genesis = Genesis { tensors: vec![matrix], fragments: 1, ..genesis() };
    let usual = genesis.rounds.steps;
    let mut room = Room::founded(genesis, 1, true);
    let steps = |room: &Room, index: usize| {
        room.nodes[index].reports.iter().rev().find_map(|report| match report {
            Report::Contributed { steps, .. } => Some(*steps),
            _ => None,
        })
    };
    room.run(30_000);
    assert_eq!(steps(&room, 0), Some(usual), "nobody lags");
    room.founds = false;
    room.join(2);
    room.thin = Some((1, 20_000));
    room.run(19_000);
    assert_eq!(steps(&room, 0), Some(4 * usual), "what it sends is more than arrives");
    room.thin = None;
    room.run(20_000);
    assert!(steps(&room, 0) <= Some(usual), "both contribute");
    assert!(steps(&room, 1).is_some());
}

#[test]
fn every_stable_contribution_has_a_receipt_of_all() {
    let mut room = Room::new(genesis(), 4);
    room.run(20_000);
    for node in &room.nodes {
        let stable = node.engine.status(FragmentId(0)).unwrap().base;
        for number in 1..=stable {
            let last = node.reports.iter().rev().find_map(|report| match report {
                Report::Receipt { round, merged_by, of }
                    if round.fragment == FragmentId(0) && round.number == number =>
                {
                    Some((*merged_by, *of))
                }
                _ => None,
            });
            assert!(last.is_none_or(|it| it == (3, 3)), "round {number}: {last:?}");
        }
    }
}

#[test]
fn who_was_merged_still_is_when_the_round_is_stable() {
    let mut room = Room::new(genesis(), 3);
    room.run(20_000);
    room.idle = true;
    room.run(20_000);
    room.join(4);
    room.run(20_000);
    for (index, node) in room.nodes.iter().enumerate() {
        let status = node.engine.status(FragmentId(0)).unwrap();
        assert_eq!(status.base, status.version, "nothing but stable rounds is left");
        assert!(status.version > 0);
        assert_eq!(node.engine.merged_last(FragmentId(0)), index < 3, "node {index}");
    }
}
