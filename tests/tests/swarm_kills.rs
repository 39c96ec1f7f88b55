//! Real nodes that are killed again and again, at instants drawn by lot: whatever they were
//! doing, they sign nothing twice, lose nothing that was merged, and come back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers", LONG, together);
    swarm.wait_for_rounds(1, LONG);
    // From here on everything is counted.
    let before = swarm.quiesce_and_agree(LONG);

    let (witnesses, victims) = nodes.split_at_mut(2);
    let over = AtomicBool::new(false);
    let (seen, after) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| Seen::watch(witnesses, &over));
        witnesses.iter().chain(&*victims).for_each(Node::resume);
        kill_again_and_again(victims);
        let swarm = Swarm(witnesses.iter().chain(&*victims).collect());
        swarm.wait_until("all to be together again", LONG, together);
        swarm.wait_for_rounds(2, LONG);
        let after = swarm.quiesce_and_agree(LONG);
        over.store(true, Ordering::Relaxed);
        (watch.join().unwrap(), after)
    });

    for node in &nodes {
        assert_eq!(node.inspect("evidence").unwrap(), Value::Array(Vec::new()), "{}", node.name());
    }
    for (before, after) in before.iter().zip(&after).skip(2) {
        let lives = after.number("/incarnation") - before.number("/incarnation");
        assert_eq!(lives, KILLS / 2, "it came back every time");
        assert!(after.fates().iter().all(Fates::add_up), "{after}");
        let given = seen.compare(before, after);
        eprintln!("{lives} kills, {given} contributions merged meanwhile");
        assert!(given > 25, "only {given}: these lives were too short to contribute");
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

/// What witnesses saw in closed rounds: by author and round, what was signed.
#[derive(Default)]
struct Seen(BTreeMap<(String, String), Value>);

impl Seen {
    /// Looks until told that it is over, and once more.
    fn watch(witnesses: &[Node], over: &AtomicBool) -> Self {
        let mut seen = Self::default();
        loop {
            let last = over.load(Ordering::Relaxed);
            for witness in witnesses {
                // Rounds stay for many looks, so one that fails does no harm.
                let rounds = witness.inspect("rounds").unwrap_or_default();
                rounds.as_array().into_iter().flatten().for_each(|round| seen.note(round));
            }
            if last {
                return seen;
            }
            sleep(LOOK_EVERY);
        }
    }

    fn note(&mut self, round: &Value) {
        if round["closed"] != true {
            return;
        }
        for contribution in round["contributions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let slot = (text(&contribution["author"]), text(&round["round"]));
            let known = self.0.entry(slot.clone()).or_insert_with(|| contribution.clone());
            assert_eq!(known, contribution, "two signatures for {slot:?}");
        }
    }

    /// Checks that an author knows as much of its work to be merged as was seen since `before`;
    /// returns how many contributions that is.
    fn compare(&self, before: &Status, after: &Status) -> usize {
        let mut count = 0;
        let fates = before.fates().into_iter().zip(after.fates()).skip(1);
        for ((fragment, version), (fates_before, fates_after)) in
            before.versions().into_iter().enumerate().zip(fates)
        {
            let slots = self.0.iter().filter(|((author, round), _)| {
                let number = round.strip_prefix(&format!("f{fragment}/r"));
                let newer = number.is_some_and(|it| it.parse::<u64>().unwrap() > version);
                newer && author == after.text("/node")
            });
            let tokens: Vec<u64> = slots.map(|(_, it)| it["tokens"].as_u64().unwrap()).collect();
            let merged = fates_after.merged - fates_before.merged;
            assert_eq!(tokens.iter().sum::<u64>(), merged, "fragment {fragment} of {after}");
            count += tokens.len();
        }
        count
    }
}

/// Of two nodes together.
const KILLS: u64 = 50;
/// The longest life: enough to come back, catch up, train and contribute.
const LIFE_MS_MAX: u64 = 6000;
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
