//! What a swarm says to itself while nobody trains.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::{Duration, Instant};

use lab::{Bootstrap, GENESIS, Lab, Node, Swarm};

#[test]
fn an_idle_swarm_is_quiet() {
    let Some(lab) = Lab::new("idle") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut nodes = names.map(|name| Node::new(&lab.host(name), &["--mdns", "false"]));
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with seven peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 7
    });
    swarm.quiesce_and_agree(LONG);

    let before = nodes.each_ref().map(|node| node.host().bytes());
    let statuses = swarm.statuses().unwrap();
    let began = Instant::now();
    std::thread::sleep(WINDOW);
    let (after, time) = (nodes.each_ref().map(|node| node.host().bytes()), began.elapsed());
    let later = swarm.statuses().unwrap();
    let rate = |count: u64| count as f64 / time.as_secs_f64();
    let sent: Vec<f64> = before.iter().zip(&after).map(|((_, b), (_, a))| rate(a - b)).collect();
    let received: Vec<f64> =
        before.iter().zip(&after).map(|((b, _), (a, _))| rate(a - b)).collect();
    for (index, name) in names.iter().enumerate() {
        let count = |at: &str| rate(later[index].number(at) - statuses[index].number(at));
        eprintln!(
            "{name}: {:.0} B/s sent, {:.0} B/s received at the device; in streams {:.0} and {:.0}",
            sent[index],
            received[index],
            count("/bytes/control/up"),
            count("/bytes/control/down"),
        );
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    eprintln!("mean: {:.0} B/s sent, {:.0} B/s received", mean(&sent), mean(&received));
}

const WINDOW: Duration = Duration::from_secs(20);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(180);
