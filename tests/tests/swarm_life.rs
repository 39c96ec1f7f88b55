//! A swarm of real nodes: it trains, survives the death of a node and of the bootstrap, and takes
//! in a newcomer.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::Duration;

use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Status, Swarm, wait_for};

#[test]
fn a_swarm_lives() {
    let Some(lab) = Lab::new("life") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut nodes: Vec<Node> =
        ["a", "b", "c", "d"].iter().map(|name| Node::new(&lab.host(name), &NO_MDNS)).collect();
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    nodes[0].wait_until("rounds of its own", LONG, |status| status.version_min() > 2);
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }

    // They meet through the bootstrap and train.
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers", LONG, |status| {
        status.is_caught_up() && status.alive() == 3
    });
    let statuses = swarm.wait_for_rounds(5, LONG);
    // Three who come at once to one that trained alone go on from what it has.
    let given_up = nodes[0].events().into_iter().find(|event| event["event"] == "installed");
    assert_eq!(given_up, None, "who made the run took the newcomers' history");
    assert!(statuses.iter().all(|status| status.steps() > 0));
    // What people would type says the same.
    let printed = nodes[0].command(&["status", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["node"].as_str(), Some(statuses[0].text("/node")));
    add_up(&swarm.agree(LONG));

    // One is killed at full speed; the others go on, and it comes back to where it was.
    let before = nodes[1].wait_until("a checkpoint", LONG, |it| it.number("/disk/checkpoint") > 0);
    nodes[1].process().kill9();
    Swarm(vec![&nodes[0], &nodes[2], &nodes[3]]).wait_for_rounds(5, LONG);
    nodes[1].start();
    let after = nodes[1]
        .wait_until("caught up again", LONG, |status| status.is_caught_up() && status.alive() == 3);
    assert_eq!(after.text("/node"), before.text("/node"));
    assert_eq!(after.number("/incarnation"), before.number("/incarnation") + 1);
    assert!(nodes[1].process().log().contains("checkpoint"), "it does not say that it resumed");
    let steps = after.steps();
    nodes[1].wait_until("new steps", LONG, |status| status.steps() > steps);
    Swarm(nodes.iter().collect()).wait_for_rounds(3, LONG);
    add_up(&Swarm(nodes.iter().collect()).agree(LONG));

    // The bootstrap dies, and nothing stops.
    meeting.process().kill9();
    Swarm(nodes.iter().collect()).wait_for_rounds(5, LONG);

    // A newcomer finds the swarm through a node's own ticket, and all merge what it gives first.
    let ticket = wait_for("the ticket of a running node", LONG, || {
        nodes[0].ticket().ok_or_else(|| nodes[0].process().output())
    });
    nodes.push(Node::new(&lab.host("e"), &NO_MDNS));
    nodes[4].join(&ticket);
    let first = nodes[4].wait_until("a contribution", LONG, |it| !it.receipts().is_empty());
    let (round, ..) = first.receipts()[0].clone();
    nodes[4].wait_until("all peers to merge its first contribution", LONG, |status| {
        let receipts = status.receipts();
        receipts.iter().any(|(of, merged_by, _)| *of == round && *merged_by == 4)
    });
    add_up(&Swarm(nodes.iter().collect()).quiesce_and_agree(LONG));

    // Whoever is asked to leave does so at once.
    nodes[2].process().terminate();
    assert!(nodes[2].process().wait(LONG).unwrap().success(), "{}", nodes[2].process().log());
}

fn add_up(statuses: &[Status]) {
    for status in statuses {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
    }
}

/// Only the bootstrap and tickets lead to others.
const NO_MDNS: [&str; 2] = ["--mdns", "false"];
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
