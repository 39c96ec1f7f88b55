//! What a node needs beside its model over half an hour on a thin cable:
//! `cargo bench -p atoll-tests --bench memory -- [MINUTES]`.
//!
//! Four nodes of a million parameters, each on a cable of 5 Mbit/s. Every two minutes a line with
//! the resident memory of each; at the end the most beyond model and optimiser against the bound,
//! and what the second half added to the first.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails like a test")]

#[path = "../tests/support/lab.rs"]
mod lab;

use std::thread::sleep;
use std::time::Duration;

use atoll_protocol::genesis::Genesis;
use lab::{Bootstrap, Lab, Node, Swarm};

fn main() {
    let Some(lab) = Lab::new("memory") else { return };
    let minutes: usize = std::env::args().find_map(|it| it.parse().ok()).unwrap_or(30);
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let hosts = ["a", "b", "c", "d"].map(|name| lab.host(name));
    hosts.iter().for_each(|host| host.shape("5mbit"));
    let options = ["--mdns", "false"];
    let (nodes, _) = Node::together(&hosts, &options, GENESIS, meeting.addresses());
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 3
    });
    swarm.wait_for_rounds(2, LONG);

    println!("\n| minute | version | MiB of each node |\n|---|---|---|");
    let mut series = Vec::new();
    for look in 0..=minutes / LOOK_MINUTES {
        if look > 0 {
            sleep(Duration::from_secs(60) * u32::try_from(LOOK_MINUTES).unwrap());
        }
        let resident: Vec<u64> = nodes.iter().map(|node| node.process().resident_bytes()).collect();
        let version = swarm.statuses().unwrap()[0].version_min();
        let shown: Vec<String> =
            resident.iter().map(|bytes| format!("{:.1}", mebibytes(*bytes))).collect();
        println!("| {} | {version} | {} |", look * LOOK_MINUTES, shown.join(" "));
        series.push(resident.into_iter().max().unwrap());
    }
    tell(&series);
}

/// Holds what was seen against what is allowed.
fn tell(series: &[u64]) {
    let genesis = Genesis::from_toml(GENESIS).unwrap();
    let map = genesis.fragment_map();
    let parameters: usize = map.fragments().iter().map(|fragment| fragment.elements).sum();
    // Four bytes for each parameter of the model and each of AdamW's moments; the outer state has
    // parameters and momentum.
    let (own, outer) = (12 * parameters as u64, 8 * parameters as u64);
    let bound = 3 * outer + (150 << 20);
    let most = series.iter().copied().max().unwrap().saturating_sub(own);
    let (first, second) = series.split_at(series.len().div_ceil(2));
    let later = second.iter().max().or(first.last()).unwrap();
    let earlier = first.iter().max().unwrap();
    println!("\nmost beyond model and optimiser: {:.1} MiB", mebibytes(most));
    println!("bound, 3 x outer state + 150 MiB: {:.1} MiB", mebibytes(bound));
    println!("second half against first: {:.3}", *later as f64 / *earlier as f64);
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

const LOOK_MINUTES: usize = 2;
const LONG: Duration = Duration::from_secs(180);
const GENESIS: &str = "name = \"memory\"\nroster = \"open\"\nmodel = \"nano\"\n\
                       [data]\ncorpus = \"generated\"\n";
