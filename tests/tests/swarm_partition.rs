//! A swarm of real nodes that is cut in two for many rounds, and becomes one again.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::Duration;

use lab::{Bootstrap, Fates, GENESIS, Lab, Node, Swarm};

#[test]
fn two_halves_become_one_again() {
    let Some(lab) = Lab::new("halves") else { return };
    let place = lab.host("meeting");
    let meeting = Bootstrap::start(&place);
    let hosts = ["a", "b", "c", "d"].map(|name| lab.host(name));
    let mut nodes: Vec<Node> =
        hosts.iter().map(|host| Node::new(host, &["--mdns", "false"])).collect();
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }
    let swarm = Swarm(nodes.iter().collect());
    let together = |statuses: &lab::Status| statuses.is_caught_up() && statuses.alive() == 3;
    swarm.wait_until("caught up with three peers", LONG, together);
    swarm.wait_for_rounds(3, LONG);

    let [a, b, c, d] = &hosts;
    lab.partition(&[a, b, &place], &[c, d]);
    let halves = [Swarm(vec![&nodes[0], &nodes[1]]), Swarm(vec![&nodes[2], &nodes[3]])];
    swarm.wait_until("nobody but the own side", LONG, |status| status.alive() == 1);
    let apart = halves.each_ref().map(|half| half.wait_for_rounds(ROUNDS_APART, LONG));
    // They did not hear of each other: both went on, each with a state of its own.
    assert_ne!(apart[0][0].digests(), apart[1][0].digests());
    for status in swarm.statuses().unwrap() {
        assert!(status.alive() <= 1, "{status}");
    }

    lab.heal();
    swarm.wait_until("all to be heard again", LONG, together);
    swarm.wait_for_rounds(3, LONG);
    let statuses = swarm.quiesce_and_agree(LONG);
    let furthest = apart.iter().flatten().map(lab::Status::version_min).max().unwrap();
    for status in &statuses {
        assert!(status.version_min() >= furthest, "{status}");
        for fates in status.fates() {
            assert!(fates.add_up(), "{fates:?} of {status}");
            assert_eq!(fates.orphaned, 0, "the partition was inside the horizon: {status}");
        }
        let Fates { merged, .. } = status.fates()[0];
        assert!(merged > 0, "{status}");
    }
}

/// Several, and far fewer than the lab's horizon.
const ROUNDS_APART: u64 = 8;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(180);
