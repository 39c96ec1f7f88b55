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
use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Swarm};
use serde_json::Value;

#[test]
fn fifty_kills_lose_nothing() {
    let Some(lab) = Lab::new("kills") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut nodes: Vec<Node> = ["steady", "calm", "one", "two"]
        .iter()
        .map(|name| Node::new(&lab.host(name), &["--mdns", "false"]))
        .collect();
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }
    let together = |status: &lab::Status| status.is_caught_up() && status.alive() == 3;
    let statuses =
        Swarm(nodes.iter().collect()).wait_until("caught up with three peers", LONG, together);
    let victims: Vec<String> = statuses[2..].iter().map(|it| it.text("/node").to_owned()).collect();
    Swarm(nodes.iter().collect()).wait_for_rounds(3, LONG);

    let mut rng = Rng::new(50);
    let mut books = [Book::default(), Book::default()];
    let mut lives_that_gave = 0;
    for _ in 0..KILLS / 2 {
        let before: Vec<usize> = books.iter().map(Book::len).collect();
        let pauses = [0, 1].map(|_| Duration::from_millis(rng.below(LIFE_MS_MAX)));
        let (witnesses, struck) = nodes.split_at_mut(2);
        kill_both(witnesses, struck, pauses, &mut books, &victims);
        for node in struck {
            node.start();
        }
        lives_that_gave += books.iter().zip(before).filter(|(book, was)| book.len() > *was).count();
    }

    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("all to be together again", LONG, together);
    for _ in 0..3 {
        swarm.wait_for_rounds(1, LONG);
        note_all(&nodes[..2], &mut books, &victims);
    }
    let statuses = swarm.quiesce_and_agree(LONG);
    note_all(&nodes[..2], &mut books, &victims);
    eprintln!(
        "{KILLS} kills; merged of the victims: {} and {} contributions; lives that gave: {lives_that_gave}",
        books[0].len(),
        books[1].len()
    );
    for node in &nodes {
        assert_eq!(node.inspect("evidence").unwrap(), Value::Array(Vec::new()), "{}", node.name());
    }
    for (book, status) in books.iter().zip(&statuses[2..]) {
        assert_eq!(status.number("/incarnation"), KILLS / 2 + 1);
        let fates = status.fates();
        assert!(fates.iter().all(Fates::add_up), "{status}");
        // What each fragment's witnesses saw merged is what the author knows to be merged.
        for (fragment, fates) in fates[1..].iter().enumerate() {
            assert_eq!(book.tokens(fragment), fates.merged, "fragment {fragment}: {status}");
        }
    }
    assert!(lives_that_gave > 10, "only {lives_that_gave} lives were long enough to contribute");
}

/// Kills both victims, each when its time has come, and looks at the witnesses meanwhile.
fn kill_both(
    witnesses: &[Node],
    struck: &[Node],
    pauses: [Duration; 2],
    books: &mut [Book; 2],
    victims: &[String],
) {
    let began = Instant::now();
    let mut alive = [true, true];
    while alive.contains(&true) {
        for (index, node) in struck.iter().enumerate() {
            if alive[index] && began.elapsed() >= pauses[index] {
                node.process().kill9();
                alive[index] = false;
            }
        }
        note_all(witnesses, books, victims);
        let next = pauses.iter().zip(alive).filter(|(_, alive)| *alive).map(|(pause, _)| *pause);
        let left = next.min().unwrap_or_default().saturating_sub(began.elapsed());
        sleep(left.min(LOOK_EVERY));
    }
}

/// The slots of one author in closed rounds: what was signed for each of them.
#[derive(Default)]
struct Book(BTreeMap<String, Value>);

impl Book {
    fn note(&mut self, round: &str, contribution: &Value) {
        let known = self.0.entry(round.to_owned()).or_insert_with(|| contribution.clone());
        assert_eq!(known, contribution, "two signatures for {round}");
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Tokens of a fragment; rounds are called `f0/r12`.
    fn tokens(&self, fragment: usize) -> u64 {
        let of = format!("f{fragment}/");
        let slots = self.0.iter().filter(|(round, _)| round.starts_with(&of));
        slots.map(|(_, contribution)| contribution["tokens"].as_u64().unwrap()).sum()
    }
}

/// Notes what the witnesses' closed rounds hold of the victims.
fn note_all(witnesses: &[Node], books: &mut [Book; 2], victims: &[String]) {
    for witness in witnesses {
        // A busy witness is looked at the next time; rounds stay for many looks.
        let Ok(rounds) = witness.inspect("rounds") else { continue };
        let closed = rounds.as_array().into_iter().flatten().filter(|it| it["closed"] == true);
        for round in closed {
            let name = round["round"].as_str().unwrap();
            for contribution in round["contributions"].as_array().unwrap() {
                let author = contribution["author"].as_str().unwrap();
                if let Some(index) = victims.iter().position(|it| it == author) {
                    books[index].note(name, contribution);
                }
            }
        }
    }
}

/// Of two nodes together.
const KILLS: u64 = 50;
/// The longest life: enough to come back, catch up, train and contribute.
const LIFE_MS_MAX: u64 = 6000;
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
