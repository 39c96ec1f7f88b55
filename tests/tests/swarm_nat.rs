//! Nodes behind routers: how they reach each other, and that they train together either way.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::Duration;

use lab::{Bootstrap, Fates, GENESIS, Lab, Nat, Node, Status, Swarm};
use serde_json::Value;

#[test]
fn holes_are_punched_through_cones() {
    let Some(lab) = Lab::new("cones") else { return };
    let Party { nodes, .. } = &meet(&lab, [Nat::OtherPort, Nat::Cone], "hole_punched");
    train(nodes);
    for node in nodes {
        let doctor = Doctor::ask(node);
        assert_eq!(doctor.verdict("nat"), "ok", "{doctor:?}");
        assert!(doctor.finding("nat").contains("cone"), "{doctor:?}");
        assert!(doctor.finding("peers").contains("1 hole-punched"), "{doctor:?}");
    }
}

#[test]
fn what_cannot_be_punched_is_relayed() {
    let Some(lab) = Lab::new("symmetric") else { return };
    let Party { nodes, .. } = &meet(&lab, [Nat::Symmetric; 2], "relayed");
    train(nodes);
    for node in nodes {
        let status = node.status().unwrap();
        assert_eq!(ways(&status), ["relayed"], "{status}");
        let doctor = Doctor::ask(node);
        assert_eq!(doctor.verdict("nat"), "warn", "{doctor:?}");
        assert!(doctor.finding("nat").contains("symmetric"), "{doctor:?}");
        assert!(doctor.finding("peers").contains("1 relayed"), "{doctor:?}");
        assert_eq!(doctor.verdict("relay"), "ok", "{doctor:?}");
    }
}

/// Two nodes behind routers, and who brings them together.
struct Party {
    nodes: [Node; 2],
    _meetings: [Bootstrap; 2],
}

/// Lets two nodes that have no way to each other but what two bootstraps give find the way that
/// they are to keep.
fn meet(lab: &Lab, nats: [Nat; 2], way: &str) -> Party {
    // Only two observers can tell whether a router gives every peer another port.
    let meetings = ["meeting", "other"].map(|name| Bootstrap::start(&lab.host(name)));
    let addresses: Vec<String> =
        meetings.iter().flat_map(|meeting| meeting.addresses().to_vec()).collect();
    let [one, other] = nats;
    let mut nodes =
        [("a", one), ("b", other)].map(|(name, nat)| Node::new(&lab.behind_nat(name, nat), &[]));
    let ticket = nodes[0].make_run(GENESIS, &addresses);
    nodes[0].start();
    nodes[1].join(&ticket);
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until(&format!("a peer that is {way}"), LONG, |status| ways(status) == [way]);
    Party { nodes, _meetings: meetings }
}

/// Each merges what the other contributes, and they agree.
fn train(nodes: &[Node]) {
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("own contributions that the other merged", LONG, |status| {
        status.is_caught_up() && status.receipts().iter().any(|(_, merged_by, _)| *merged_by == 1)
    });
    for status in swarm.agree(LONG) {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
        assert!(status.fates()[0].merged > 0, "{status}");
    }
}

/// How each peer is connected.
fn ways(status: &Status) -> Vec<&str> {
    let peers = status.0["peers"].as_array().into_iter().flatten();
    peers.filter_map(|peer| peer["how"].as_str()).collect()
}

/// What `atoll doctor --json` says.
#[derive(Debug)]
struct Doctor(Value);

impl Doctor {
    fn ask(node: &Node) -> Self {
        Self(serde_json::from_str(&node.command(&["doctor", "--json"])).unwrap())
    }

    fn verdict(&self, check: &str) -> &str {
        self.find(check)["verdict"].as_str().unwrap()
    }

    fn finding(&self, check: &str) -> &str {
        self.find(check)["finding"].as_str().unwrap()
    }

    fn find(&self, check: &str) -> &Value {
        let checks = self.0["checks"].as_array().unwrap();
        checks.iter().find(|it| it["check"] == check).unwrap_or_else(|| panic!("{check}: {self:?}"))
    }
}

/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
