//! Real nodes that are killed again and again, at instants drawn by lot: whatever they were
//! doing, they sign nothing twice, lose nothing that was merged, and come back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use atoll_protocol::rng::Rng;
use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Status, Swarm};
use serde_json::Value;

#[test]
fn fifty_kills_lose_nothing() {
    let Some(lab) = Lab::new("kills") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut nodes = ["steady", "calm", "one", "two"]
        .map(|name| Node::new(&lab.host(name), &["--mdns", "false"]));
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    nodes[1..].iter_mut().for_each(|node| node.join(&ticket));
    let together = |status: &Status| status.is_caught_up() && status.alive() == 3;
    Swarm(nodes.iter().collect()).wait_until("caught up with three peers", LONG, together);

    kill_again_and_again(&mut nodes[2..]);
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("all to be together again", LONG, together);
    swarm.wait_for_rounds(2, LONG);
    let statuses = swarm.quiesce_and_agree(LONG);

    // On a slow machine two may have begun, each for itself; who follows has not seen all.
    let steady = nodes[..2].iter().find(|node| !node.events().iter().any(is_installed)).unwrap();
    let witness = Witness::of(steady);
    for node in &nodes {
        let started: Vec<u64> = node
            .events()
            .iter()
            .filter(|event| event["event"] == "started")
            .filter_map(|event| event["incarnation"].as_u64())
            .collect();
        assert!(
            started.is_sorted_by(|one, next| one < next),
            "a life was lived twice: {started:?}"
        );
        assert_eq!(node.inspect("evidence").unwrap(), Value::Array(Vec::new()), "{}", node.name());
    }
    for status in &statuses[2..] {
        // On a slow machine a short life may be over before it has begun to count.
        let lives = status.number("/incarnation");
        assert!((KILLS / 4..=KILLS / 2 + 1).contains(&lives), "{lives} lives");
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
        let given = witness.compare(status);
        eprintln!("{} kills, {given} contributions merged", KILLS / 2);
        assert!(given > 10, "only {given}: these lives were too short to contribute");
    }
}

/// Kills both, each when the time has come that was drawn for it, and starts them again.
fn kill_again_and_again(victims: &mut [Node]) {
    let mut rng = Rng::new(50);
    for _ in 0..KILLS / 2 {
        let began = Instant::now();
        let mut deaths: Vec<(Duration, &mut Node)> = victims
            .iter_mut()
            .map(|victim| (Duration::from_millis(rng.below(LIFE_MS_MAX)), victim))
            .collect();
        deaths.sort_by_key(|(time, _)| *time);
        for (time, victim) in &mut deaths {
            sleep(time.saturating_sub(began.elapsed()));
            victim.process().kill9();
        }
        deaths.into_iter().for_each(|(_, victim)| victim.start());
    }
}

/// Whether a node took a history of others.
fn is_installed(event: &Value) -> bool {
    event["event"] == "installed"
}

/// What a node that was never killed has admitted: by author and round, the contribution's id and
/// tokens.
struct Witness(BTreeMap<(String, String), (String, u64)>);

impl Witness {
    fn of(node: &Node) -> Self {
        let mut slots = BTreeMap::new();
        for event in node.events().iter().filter(|event| event["event"] == "admitted") {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            let slot = (text("author"), text("round"));
            let signed = (text("contribution"), event["tokens"].as_u64().unwrap());
            let known = slots.entry(slot.clone()).or_insert_with(|| signed.clone());
            assert_eq!(*known, signed, "two signatures for {slot:?}");
        }
        Self(slots)
    }

    /// Checks that an author knows as much of its work to be merged as the witness does, now that
    /// all agree; returns how many contributions that is.
    fn compare(&self, status: &Status) -> usize {
        let mut count = 0;
        for (fragment, fates) in status.fates()[1..].iter().enumerate() {
            let rounds = format!("f{fragment}/");
            let ours = self.0.iter().filter(|((author, round), _)| {
                author == status.text("/node") && round.starts_with(&rounds)
            });
            let tokens: Vec<u64> = ours.map(|(_, (_, tokens))| *tokens).collect();
            assert_eq!(tokens.iter().sum::<u64>(), fates.merged, "fragment {fragment}: {status}");
            count += tokens.len();
        }
        count
    }
}

/// Of two nodes together.
const KILLS: u64 = 50;
/// The longest life: enough to come back, catch up, train and contribute.
const LIFE_MS_MAX: u64 = 6000;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
