//! Nodes on one local network that nobody tells of each other.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::Duration;

use lab::{GENESIS, Lab, Node, Swarm};

#[test]
fn nodes_of_one_network_find_each_other() {
    let Some(lab) = Lab::new("mdns") else { return };
    let host = lab.host("a");
    // Two on one machine, and one next door.
    let mut nodes =
        [Node::named(&host, "one"), Node::named(&host, "two"), Node::new(&lab.host("b"), &[])];
    // There is no bootstrap, and the ticket of a run that nobody has started leads nowhere.
    let ticket = nodes[0].make_run(GENESIS, &[]);
    nodes[0].start();
    nodes[1].join(&ticket);
    nodes[2].join(&ticket);
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("two peers", LONG, |status| status.is_caught_up() && status.alive() == 2);
    // One that both others dialled first has nobody left to find.
    let says_how = |node: &Node| {
        node.events().into_iter().any(|event| {
            event["notice"].as_str().is_some_and(|notice| notice.contains("on the local network"))
        })
    };
    assert!(nodes.iter().any(says_how), "nobody says how: {}", nodes[0].process().log());
    swarm.wait_for_rounds(2, LONG);
    swarm.quiesce_and_agree(LONG);
}

/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
