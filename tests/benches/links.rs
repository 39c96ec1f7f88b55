//! What the network costs a swarm of real nodes on thin links: `cargo bench -p atoll-tests`.
//!
//! Four nodes of a million parameters, each on a cable of 20 Mbit/s, in network namespaces: the
//! share of the time that goes into steps, tokens beside those of islands without a network, bytes
//! on the wire against bytes of contents, and what a fifth node takes to join. `-- join` and `-- core`
//! take only the last of these, and only a node that has a core for itself.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails like a test")]

#[path = "../tests/support/lab.rs"]
mod lab;

use std::num::NonZero;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use atoll_protocol::genesis::Genesis;
use lab::{Bootstrap, Host, Lab, Node, Status, Swarm};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

fn main() {
    let Some(lab) = Lab::new("links") else { return };
    let only = |what: &str| std::env::args().any(|word| word == what);
    println!("\n| what | found | goal |\n|---|---|---|");
    if !only("join") {
        on_a_core_of_its_own(&lab);
    }
    if only("core") {
        return;
    }
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let hosts = ["a", "b", "c", "d"].map(|name| thin(&lab, name));
    let (nodes, ticket) = Node::together(&hosts, &OPTIONS, GENESIS, meeting.addresses());
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 3
    });
    swarm.wait_for_rounds(2, LONG);
    if !only("join") {
        measure(&swarm, &hosts).print();
        beside_those_apart(&lab, &swarm);
    }
    join(&lab, &ticket);
}

struct Measured {
    shares: Vec<f64>,
    wire: u64,
    contents: u64,
    control: u64,
}

impl Measured {
    fn print(&self) {
        let Self { shares, wire, contents, control } = self;
        let shares: Vec<String> = shares.iter().map(|it| format!("{it:.3}")).collect();
        println!("| training share of each node, 20 Mbit/s | {} | 0.97 |", shares.join(" "));
        let ratio = *wire as f64 / *contents as f64;
        println!(
            "| bytes on the wire / bytes of contents | {wire} / {contents} = {ratio:.3} | 1.1 |"
        );
        println!("| bytes of everything but contents, before headers | {control} | |");
    }
}

/// Steps of a node that has a core for itself, as on a machine of its own, and of one without a
/// network, in turns. Three others, its peers or none of its peers, share the other core.
fn on_a_core_of_its_own(lab: &Lab) {
    let cores = available_parallelism().map_or(1, NonZero::get);
    if cores < 2 {
        println!("| steps of a node that has a core for itself | needs two cores | |");
        return;
    }
    let host = |name| thin(lab, name);
    let meeting = Bootstrap::start(&lab.host("crossing"));
    let near = ["near-a", "near-b", "near-c", "near-d"].map(host);
    let mut together = near.each_ref().map(|host| Node::new(host, &OPTIONS));
    let ticket = together[0].make_run(GENESIS, meeting.addresses());
    let mut apart =
        ["far-a", "far-b", "far-c", "far-d"].map(|name| Node::new(&lab.host(name), &OPTIONS));
    for index in 0..together.len() {
        apart[index].make_run(GENESIS, &[]);
        on_core(index.min(1), || match index {
            0 => together[index].start(),
            _ => together[index].join(&ticket),
        });
        on_core(index.min(1), || apart[index].start());
    }
    let (together, apart) = (Swarm(together.iter().collect()), Swarm(apart.iter().collect()));
    apart.wait_until("a version of its own", LONG, |status| status.version_min() > 0);
    apart.quiesce();
    together.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 3
    });
    in_turns("a core for itself", &apart, &together, |swarm| swarm.0[0].status().unwrap().steps());
    // What is measured next has the machine for itself.
    for node in together.0.iter().chain(&apart.0) {
        node.process().kill9();
    }
}

/// Starts something on one core.
fn on_core<T>(core: usize, start: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    let nth = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).nth(core);
    one.set(nth.unwrap());
    sched_setaffinity(None, &one).unwrap();
    let started = start();
    sched_setaffinity(None, &before).unwrap();
    started
}

/// Steps of the swarm beside those of four islands that have no network, in turns: what else goes
/// on on the machine changes within minutes.
fn beside_those_apart(lab: &Lab, swarm: &Swarm<'_>) {
    let hosts = ["lone-a", "lone-b", "lone-c", "lone-d"].map(|name| lab.host(name));
    let mut nodes = hosts.each_ref().map(|host| Node::new(host, &OPTIONS));
    for node in &mut nodes {
        node.make_run(GENESIS, &[]);
        node.start();
    }
    let apart = Swarm(nodes.iter().collect());
    apart.wait_until("a version of its own", LONG, |status| status.version_min() > 0);
    apart.quiesce();
    in_turns("all on these cores", &apart, swarm, |swarm| total(swarm, Status::steps));
    swarm.resume();
}

/// Holds what `steps` counts in one swarm against what it counts in the other, while that one rests.
fn in_turns(
    place: &str,
    apart: &Swarm<'_>,
    together: &Swarm<'_>,
    steps: impl Fn(&Swarm<'_>) -> u64,
) {
    together.quiesce();
    let turn = |swarm: &Swarm<'_>| {
        swarm.resume();
        // Until rounds are on their way again.
        sleep(TURN / 4);
        let before = steps(swarm);
        sleep(TURN);
        let taken = steps(swarm) - before;
        swarm.quiesce();
        taken
    };
    let mut ratios: Vec<f64> = (0..TURNS)
        .map(|_| {
            let (without, with) = (turn(apart), turn(together));
            println!("| steps with the network / without, {place} | {with} / {without} | |");
            with as f64 / without as f64
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("| {place}, median of {TURNS} turns | {:.3} | 0.97 |", ratios[TURNS / 2]);
}

fn measure(swarm: &Swarm<'_>, hosts: &[Host]) -> Measured {
    let wire = || hosts.iter().map(|host| host.bytes().1).sum::<u64>();
    let contents = |status: &Status| status.number("/bytes/content/up");
    let control = |status: &Status| status.number("/bytes/control/up");
    let counted = || (wire(), total(swarm, contents), total(swarm, control));
    let before = counted();
    sleep(TIME);
    let after = counted();
    let statuses = swarm.statuses().unwrap();
    let share = |status: &Status| status.0["training"]["training_share"].as_f64().unwrap();
    Measured {
        shares: statuses.iter().map(share).collect(),
        wire: after.0 - before.0,
        contents: after.1 - before.1,
        control: after.2 - before.2,
    }
}

/// A fifth comes on a thin cable of its own, while the others go on.
fn join(lab: &Lab, ticket: &str) {
    let host = thin(lab, "e");
    let mut node = Node::new(&host, &OPTIONS);
    let began = Instant::now();
    node.join(ticket);
    node.wait_until("caught up", LONG, Status::is_caught_up);
    let took = began.elapsed().as_secs_f64();
    let genesis = Genesis::from_toml(GENESIS).unwrap();
    // Parameters and momentum, four bytes each.
    let snapshot = genesis.fragment_map().elements() as f64 * 8.0;
    let bound = 1.3 * snapshot * 8.0 / 20e6 + 3.0;
    println!("| seconds from start to caught up, four donors | {took:.1} | {bound:.1} |");
    println!("\nits way there:");
    let told = ["started", "notice", "diverged", "installed", "standing"];
    for event in node.events() {
        if event["event"].as_str().is_some_and(|kind| told.contains(&kind)) {
            println!("  {event}");
        }
    }
}

fn thin(lab: &Lab, name: &str) -> Host {
    let host = lab.host(name);
    host.shape("20mbit");
    host
}

fn total(swarm: &Swarm<'_>, number: impl Fn(&Status) -> u64) -> u64 {
    swarm.statuses().unwrap().iter().map(number).sum()
}

/// Islands take what they can get, so that whatever the network takes is missing.
const OPTIONS: [&str; 4] = ["--mdns", "false", "--effort", "1"];
const TIME: Duration = Duration::from_secs(60);
/// Each lasts so long, and so many are held against each other.
const TURN: Duration = Duration::from_secs(20);
const TURNS: usize = 5;
const LONG: Duration = Duration::from_secs(180);
const GENESIS: &str = "name = \"links\"\nroster = \"open\"\nmodel = \"nano\"\n\
                       [data]\ncorpus = \"generated\"\n";
