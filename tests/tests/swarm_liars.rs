//! Liars over the real network, one for each attack of the simulator's list: honest nodes go on,
//! agree, stay small, and break with whoever can be found out.
//!
//! What a peer's content stream can do wrong is tested in `node/tests/net/liar.rs`: the server
//! that this liar uses checks what it sends.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;
#[path = "support/liar.rs"]
mod liar;

use std::fs;
use std::time::Duration;

use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::NodeId;
use atoll_testnet::sim::byzantine::Attack;
use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Swarm};
use liar::Liar;

#[test]
fn liars_harm_nobody() {
    let Some(lab) = Lab::new("liars") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut nodes: Vec<Node> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| Node::new(&lab.host(name), &["--mdns", "false"]))
        .collect();
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }
    let swarm = Swarm(nodes.iter().collect());
    let statuses = swarm.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() >= 3
    });
    swarm.wait_for_rounds(3, LONG);
    let honest: Vec<NodeId> = statuses.iter().map(|status| node_id(status.text("/node"))).collect();
    let before: Vec<u64> = nodes.iter().map(resident_bytes).collect();

    for (number, attack) in (100u8..).zip(Attack::ALL) {
        let host = lab.host(&format!("liar{number}"));
        let liar = Liar {
            host: &host,
            attack,
            genesis: Genesis::from_toml(GENESIS).unwrap(),
            bootstrap: meeting.addresses().to_vec(),
            honest: honest.clone(),
            seed: number,
        };
        let time = if is_found_out(attack) { LONG } else { SHORT };
        let encounter = liar.lie(time);
        eprintln!("{}: {encounter:?}", attack.name());
        assert!(encounter.met > 0, "{} met nobody: {encounter:?}", attack.name());
        let found_out = encounter.cut_off || !is_found_out(attack);
        assert!(found_out, "{} was not found out: {encounter:?}", attack.name());
        swarm.wait_for_rounds(1, LONG);
    }

    for (node, before) in nodes.iter().zip(before) {
        let grown = resident_bytes(node).saturating_sub(before);
        eprintln!("{} grew by {} KiB", node.name(), grown / 1024);
        assert!(grown < GROWTH_MAX, "{} grew by {grown} bytes", node.name());
    }
    for status in swarm.quiesce_and_agree(LONG) {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
    }
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
            | Attack::BadEvidence
    )
}

fn node_id(hex: &str) -> NodeId {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    NodeId(std::array::from_fn(|index| byte(index * 2)))
}

fn resident_bytes(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.process().id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// How long a liar stays that nobody can find out.
const SHORT: Duration = Duration::from_secs(6);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);
/// What twenty liars may cost a node, with its own growth over that time.
const GROWTH_MAX: u64 = 48 << 20;
