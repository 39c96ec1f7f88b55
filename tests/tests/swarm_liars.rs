//! Liars over the real network, one for each attack of the simulator's list: honest nodes go on,
//! agree, stay small, stay together, and break with whoever can be found out.
//!
//! What a peer's content stream can do wrong is tested in `node/tests/net/liar.rs`: the server
//! that these liars use checks what it sends.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;
#[path = "support/liar.rs"]
mod liar;

use std::time::Duration;

use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::NodeId;
use atoll_protocol::limits::{GOSSIP_BYTES_MAX, PEER_BURST, PEER_MESSAGES_PER_SECOND};
use atoll_testnet::sim::byzantine::Attack;
use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Swarm, wait_for};
use liar::{Liar, Prey};

#[test]
fn liars_harm_nobody() {
    let Some(lab) = Lab::new("liars") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let nodes = start(&lab, &meeting);
    let swarm = Swarm(nodes.iter().collect());
    let statuses = swarm.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() >= 3
    });
    swarm.wait_for_rounds(3, LONG);
    let prey = Prey {
        genesis: Genesis::from_toml(GENESIS).unwrap(),
        bootstrap: meeting.addresses().to_vec(),
        honest: statuses.iter().map(|status| node_id(status.text("/node"))).collect(),
    };
    let before: Vec<u64> = nodes.iter().map(|node| node.process().resident_bytes()).collect();

    // A flood needs what cores there are for itself.
    let (floods, others): (Vec<_>, Vec<_>) =
        Attack::ALL.into_iter().partition(|attack| *attack == Attack::Flood);
    for wave in others.chunks(WAVE).chain([floods.as_slice()]) {
        let liar = |attack: &Attack| {
            let host = lab.host(&format!("liar{}", *attack as u8));
            Liar::start(&host, *attack, &prey)
        };
        let liars: Vec<Liar> = wave.iter().map(liar).collect();
        for liar in &liars {
            wait_for(&format!("an end of {}", liar.attack.name()), LONG, || {
                ends(liar, &nodes, &prey.honest)
                    .map_err(|why| format!("{why}: {:?}", liar.encounter()))
            });
            eprintln!("{}: {:?}", liar.attack.name(), liar.encounter());
        }
        swarm.wait_for_rounds(1, LONG);
        for (node, before) in nodes.iter().zip(&before) {
            let grown = node.process().resident_bytes().saturating_sub(*before);
            eprintln!("{} has {} KiB and {} KiB more", node.name(), before >> 10, grown >> 10);
            assert!(grown < GROWTH_MAX, "{} grew by {grown} bytes", node.name());
        }
    }

    for node in &nodes {
        for honest in &prey.honest {
            assert_eq!(points(node, honest), 0, "{} holds against {honest}", node.name());
        }
    }
    swarm.wait_until("heard by all", LONG, |status| status.alive() >= 3);
    // Liars may have made the history of whoever began the run another. It takes that of those who
    // joined once they make rounds stable, too.
    let forget = Duration::from_millis(prey.genesis.rounds.forget_ms);
    for status in swarm.quiesce_and_agree(forget + LONG) {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
    }
}

fn start(lab: &Lab, meeting: &Bootstrap) -> Vec<Node> {
    let hosts = ["a", "b", "c", "d"].map(|name| lab.host(name));
    Node::together(&hosts, &["--mdns", "false"], GENESIS, meeting.addresses()).0
}

/// Whether a liar has lied enough: all have broken with it, or nobody has to. One that copies the
/// work of another liar answers for that, to whoever saw it, and maybe before they have met.
fn ends(liar: &Liar, nodes: &[Node], ids: &[NodeId]) -> Result<(), String> {
    let encounter = liar.encounter();
    let judged = |node: &Node| points(node, &liar.node) >= POINTS;
    let known = |(node, id): (&Node, &NodeId)| encounter.met.contains(id) || judged(node);
    let enough = encounter.said >= WORDS && nodes.iter().zip(ids).all(known);
    if enough && !is_found_out(liar.attack) {
        return Ok(());
    }
    if liar.attack == Attack::Flood && is_trickle(encounter.said, liar.age()) {
        eprintln!("this machine is too slow for a flood: {} in {:?}", encounter.said, liar.age());
        return Ok(());
    }
    let broken = |node: &Node| judged(node) && !is_connected(node, &liar.node);
    if liar.attack == Attack::Flood && liar.age() > DROPS && nodes.iter().any(broken) {
        eprintln!("not all of them are quick enough to hear too much of a flood");
        return Ok(());
    }
    if let Some(patient) = nodes.iter().find(|node| !broken(node)) {
        return Err(format!("{} has not broken with it", patient.name()));
    }
    if encounter.up.is_empty() { Ok(()) } else { Err("it has not noticed".to_owned()) }
}

/// Whether an attack proves itself to whoever it is tried on. The others are made harmless by
/// caps, clips and votes, or are no lie in a run that is open to all.
fn is_found_out(attack: Attack) -> bool {
    matches!(
        attack,
        Attack::BadSignature
            | Attack::OtherRun
            | Attack::Equivocation
            | Attack::NotFinite
            | Attack::WrongLength
            | Attack::Bomb
            | Attack::Flood
            | Attack::Garbage
            | Attack::FalseHistory
            | Attack::BadEvidence
    )
}

/// Whether so many messages, a part of which comes through others, may be no more than a peer may
/// send.
fn is_trickle(said: u64, age: Duration) -> bool {
    age > TRICKLE && said < 2 * PEER_MESSAGES_PER_SECOND * age.as_secs()
}

/// Points that a node ever gave to another.
fn points(node: &Node, other: &NodeId) -> u64 {
    let hex = other.to_hex();
    let faults = node.events().into_iter().filter(|it| it["event"] == "fault" && it["node"] == hex);
    faults.map(|fault| fault["penalty"].as_u64().unwrap()).sum()
}

/// Whether a node is connected to another, as it says itself.
fn is_connected(node: &Node, other: &NodeId) -> bool {
    let hex = other.to_hex();
    let mut events = node.events().into_iter().filter(|it| it["node"] == hex);
    let last = events.rfind(|it| it["event"] == "peer_up" || it["event"] == "peer_down");
    last.is_some_and(|it| it["event"] == "peer_up")
}

fn node_id(hex: &str) -> NodeId {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    NodeId(std::array::from_fn(|index| byte(index * 2)))
}

/// Liars at once: four honest nodes are most of seven, so no round waits for a liar.
const WAVE: usize = 3;
/// Messages of a liar that nobody can find out, over a few rounds.
const WORDS: u64 = 20;
/// What it takes to be broken with.
const POINTS: u64 = 80;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(180);
/// How long a liar that says little must have been connected to be called a trickle.
const TRICKLE: Duration = Duration::from_secs(30);
/// How long a flood must have lasted to say that a node without a core to itself, at which most of
/// it never arrives, is not flooded.
const DROPS: Duration = Duration::from_secs(90);
/// What liars may cost a node: all that a peer may say in the half minute for which gossip keeps
/// messages, each as long as it may be; and as much again for copies, ids and the node itself.
const GROWTH_MAX: u64 = 2 * (PEER_BURST + 30 * PEER_MESSAGES_PER_SECOND) * GOSSIP_BYTES_MAX as u64;
