//! A node of a running swarm that is killed again and again, at any instant: it always starts
//! again, never signs twice for one slot, and nothing of it that was merged is lost.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use atoll_protocol::rng::Rng;
use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Swarm};
use serde_json::Value;

#[test]
fn a_node_that_is_killed_at_any_instant_loses_nothing() {
    let Some(lab) = Lab::new("kills") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut peers = ["one", "two"].map(|name| Node::new(&lab.host(name), &OPTIONS));
    let mut victim = Node::new(&lab.host("victim"), &OPTIONS);
    let ticket = peers[0].make_run(GENESIS, meeting.addresses());
    peers[0].start();
    peers[1].join(&ticket);
    victim.join(&ticket);
    let [one, two] = &peers;
    let together = |status: &lab::Status| status.is_caught_up() && status.alive() == 2;
    Swarm(vec![one, two, &victim]).wait_until("caught up with two peers", LONG, together);
    let name = victim.status().unwrap().text("/node").to_owned();
    victim.wait_until("a contribution", LONG, |status| !status.receipts().is_empty());

    let over = AtomicBool::new(false);
    let mut seen = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(one, &name, &over));
        kill_at_random(&mut victim);
        // Its last life goes on.
        let swarm = Swarm(vec![one, two, &victim]);
        swarm.wait_until("caught up with two peers again", LONG, together);
        swarm.wait_for_rounds(3, LONG);
        over.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    let swarm = Swarm(vec![one, two, &victim]);
    let statuses = swarm.quiesce_and_agree(LONG);
    assert!(statuses[2].number("/incarnation") > u64::from(KILLS), "{}", statuses[2]);
    for status in &statuses {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
    }

    never_twice(&victim, &[one, two, &victim], &name);
    // What the peers took from it is what it counts as merged, no token less or more.
    note(&mut seen, one, &name);
    let admitted = admitted(&[one, two], &name);
    assert!(admitted.len() > 20, "it contributed only {} times", admitted.len());
    let unseen: Vec<_> = admitted.keys().filter(|round| !seen.contains_key(*round)).collect();
    assert!(unseen.is_empty(), "the peers' rounds were not looked at often enough: {unseen:?}");
    let given: u64 = admitted.keys().map(|round| seen[round]).sum();
    let Fates { merged, orphaned, .. } = statuses[2].fates()[0];
    assert_eq!((merged, orphaned), (given, 0), "{}", statuses[2]);
}

/// Starts the node and kills it, many times; it is started once more at the end.
fn kill_at_random(victim: &mut Node) {
    let mut rng = Rng::new(SEED);
    for kill in 0..KILLS {
        victim.process().kill9();
        victim.start();
        let instant = Instant::now() + FIRST + Duration::from_millis(rng.below(LAST_MS));
        sleep(instant.saturating_duration_since(Instant::now()));
        let ended = victim.process().ended();
        assert_eq!(ended, None, "start {kill} failed: {}", victim.process().log());
    }
    victim.process().kill9();
    victim.start();
}

/// Tokens of the victim's contributions, as a peer holds them, by round.
fn watch(peer: &Node, victim: &str, over: &AtomicBool) -> BTreeMap<String, u64> {
    let mut seen = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        note(&mut seen, peer, victim);
        sleep(Duration::from_millis(150));
    }
    seen
}

fn note(seen: &mut BTreeMap<String, u64>, peer: &Node, victim: &str) {
    let Ok(rounds) = peer.inspect("rounds") else { return };
    for round in rounds.as_array().unwrap() {
        for contribution in round["contributions"].as_array().unwrap() {
            if contribution["author"] == victim {
                let name = round["round"].as_str().unwrap().to_owned();
                seen.insert(name, contribution["tokens"].as_u64().unwrap());
            }
        }
    }
}

/// The victim's contributions that these nodes have admitted, by round.
fn admitted(peers: &[&Node], victim: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut admitted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in peers.iter().flat_map(|peer| peer.events()) {
        if event["event"] == "admitted" && event["author"] == victim {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            admitted.entry(text("round")).or_default().insert(text("contribution"));
        }
    }
    admitted
}

/// Neither its own list of what it signed, nor anybody's ledger or log, has two for one slot.
fn never_twice(victim: &Node, all: &[&Node], name: &str) {
    let list = fs::read_to_string(victim.folder().unwrap().join("signed")).unwrap();
    let mut signed: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in list.lines() {
        if let ["signed", fragment, round, id, _] = line.split(' ').collect::<Vec<_>>()[..] {
            signed.entry((fragment, round)).or_default().insert(id);
        }
    }
    assert!(signed.len() > 20, "{list}");
    let twice: Vec<_> = signed.iter().filter(|(_, ids)| ids.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let twice: Vec<_> = admitted(all, name).into_iter().filter(|(_, ids)| ids.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for node in all {
        assert_eq!(node.inspect("evidence").unwrap(), Value::Array(Vec::new()), "{}", node.name());
        let accused = |event: &&Value| {
            ["equivocated", "same_key", "bits_differ", "fault"]
                .iter()
                .any(|it| event["event"] == *it)
        };
        let events = node.events();
        assert_eq!(events.iter().find(accused), None, "{}", node.name());
    }
}

/// Steps as quick as three islands on two cores take them.
const OPTIONS: [&str; 2] = ["--mdns", "false"];
const KILLS: u32 = 50;
const SEED: u64 = 11;
/// The first instant at which it may be killed after a start, and how much later the last is.
const FIRST: Duration = Duration::from_millis(200);
const LAST_MS: u64 = 2800;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
