//! What a swarm at rest costs its lines: `cargo bench -p atoll-tests --bench idle`.
//!
//! Eight nodes in network namespaces meet, train a little, stand still and agree; then the bytes at
//! every node's device are counted, headers and all.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails like a test")]

#[path = "../tests/support/lab.rs"]
mod lab;

use std::thread::sleep;
use std::time::Duration;

use lab::{Bootstrap, Lab, Node, Swarm};

fn main() {
    let Some(lab) = Lab::new("idle") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let hosts = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| lab.host(name));
    let options = ["--mdns", "false"];
    let (nodes, _) = Node::together(&hosts, &options, GENESIS, meeting.addresses());
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with seven peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 7
    });
    swarm.wait_for_rounds(2, LONG);
    swarm.quiesce_and_agree(LONG);
    // What addresses and meshes still have to say to each other is not what rest costs.
    sleep(SETTLE);
    let before = hosts.each_ref().map(|host| host.bytes());
    sleep(TIME);
    let after = hosts.each_ref().map(|host| host.bytes());
    println!("\n| node | bytes/s received | bytes/s sent |\n|---|---|---|");
    let (mut most, rate) = (0.0_f64, |bytes: u64| bytes as f64 / TIME.as_secs_f64());
    for (host, (before, after)) in hosts.iter().zip(before.into_iter().zip(after)) {
        let (received, sent) = (rate(after.0 - before.0), rate(after.1 - before.1));
        most = most.max(received).max(sent);
        println!("| {} | {received:.0} | {sent:.0} |", host.name());
    }
    println!("\nmost in one direction: {most:.0} bytes/s (goal 2048)");
    assert!(swarm.statuses().unwrap().iter().all(|status| status.alive() == 7));
}

const SETTLE: Duration = Duration::from_secs(45);
const TIME: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(180);
const GENESIS: &str = "name = \"idle\"\nroster = \"open\"\nmodel = \"nano\"\n\
                       [data]\ncorpus = \"generated\"\n";
