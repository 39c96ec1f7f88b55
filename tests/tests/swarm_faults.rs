//! A swarm of real nodes to which everything happens that happens to machines: one is stopped,
//! one loses its network, one its disk's room, one finds its files damaged. Each recovers by
//! itself and says what happened.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Bootstrap, Disk, Fates, GENESIS, Lab, Node, Swarm, wait_for};
use serde_json::Value;

#[test]
fn every_fault_is_survived_and_said() {
    let Some(lab) = Lab::new("faults") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let hosts = ["stopped", "unplugged", "full", "damaged"].map(|name| lab.host(name));
    let disk = Disk::mount(&hosts[2].home("atoll"), "32m");
    let mut nodes = hosts.each_ref().map(|host| Node::new(host, &["--mdns", "false"]));
    let ticket = nodes[0].make_run(GENESIS, meeting.addresses());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&ticket);
    }
    let together = |status: &lab::Status| status.is_caught_up() && status.alive() == 3;
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers", LONG, together);
    swarm.wait_for_rounds(3, LONG);

    strike(&nodes, &disk);
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("caught up with three peers again", LONG, together);
    swarm.wait_for_rounds(3, LONG);
    agree(&swarm);

    let [stopped, unplugged, full, damaged] = &nodes;
    says(stopped, "recovered", "this node stood still for ");
    says(unplugged, "warning", "no peer is heard any more");
    says(unplugged, "recovered", "peers are heard again");
    // Its own log of events was on the disk that was full.
    assert!(full.process().log().contains("the disk is full"), "{}", full.process().log());
    says(full, "recovered", "the disk takes what it is given again");
    // The last page of its event log may have had room for all there was to tell meanwhile.
    if full.process().log().contains("events are not logged") {
        says(full, "dropped", "");
    }
    says(damaged, "recovered", "was damaged");

    // A bit flips while nobody looks.
    let run = swarm.statuses().unwrap()[3].text("/run").to_owned();
    damaged.process().terminate();
    assert!(damaged.process().wait(LONG).unwrap().success(), "{}", damaged.process().log());
    flip_bits(&damaged.folder().unwrap().join("records.redb"), &run);
    nodes[3].start();
    let swarm = Swarm(nodes.iter().collect());
    swarm.wait_until("all to be together again", LONG, together);
    swarm.wait_for_rounds(3, LONG);
    says(&nodes[3], "recovered", "records.redb: the database is damaged");
    agree(&swarm);
}

/// All at once: what happens to one node is no concern of the others.
fn strike([stopped, unplugged, full, damaged]: &[Node; 4], disk: &Disk) {
    let began = Instant::now();
    stopped.process().stop();
    unplugged.host().link_down();
    let go_on_until = |seconds| {
        while began.elapsed() < Duration::from_secs(seconds) {
            if seconds <= UNPLUGGED {
                disk.fill();
            }
            sleep(Duration::from_millis(100));
        }
    };
    go_on_until(UNPLUGGED);
    wait_for("the full disk to be noticed", LONG, || {
        disk.fill();
        let log = full.process().log();
        if log.contains("the disk is full") { Ok(()) } else { Err(log) }
    });
    disk.free();
    unplugged.host().link_up();
    go_on_until(STOPPED);
    // Whoever was stopped lacks all of these, and asks the others for them.
    let payloads = damage_payloads(&damaged.folder().unwrap().join("contents"));
    assert!(payloads > 3, "only {payloads} payloads since a node was stopped");
    stopped.process().cont();
}

fn agree(swarm: &Swarm<'_>) {
    for status in swarm.agree(LONG) {
        assert!(status.fates().iter().all(Fates::add_up), "{status}");
    }
}

/// Waits for a line in a node's log of events.
fn says(node: &Node, event: &str, words: &str) {
    let mut last = Vec::new();
    wait_for(&format!("{} to say {words:?}", node.name()), LONG, || {
        last = node.events().into_iter().filter(|it| it["event"] == event).collect();
        let found = last.iter().any(|it: &Value| it.to_string().contains(words));
        if found { Ok(()) } else { Err(format!("{last:?}")) }
    });
}

/// Changes a byte of every payload there is, and says how many.
fn damage_payloads(folder: &Path) -> usize {
    let files = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect()
    };
    let payloads: Vec<PathBuf> = files(folder).iter().flat_map(|it| files(it)).collect();
    // One that the node removes meanwhile is none.
    let damaged = payloads.iter().filter(|path| {
        let Ok(mut bytes) = fs::read(path) else { return false };
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        path.exists() && fs::write(path, bytes).is_ok()
    });
    damaged.count()
}

/// Flips a bit where the database says whose records it holds, and in older copies of that page.
fn flip_bits(file: &Path, run: &str) {
    let run: Vec<u8> = (0..run.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&run[at..at + 2], 16).unwrap())
        .collect();
    let mut bytes = fs::read(file).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - run.len()).filter(|at| bytes[*at..].starts_with(&run)).collect();
    assert!(!places.is_empty(), "the database does not hold its run's id");
    places.into_iter().for_each(|at| bytes[at + 5] ^= 0b100);
    fs::write(file, bytes).unwrap();
}

/// Seconds without a network, and without room on a disk.
const UNPLUGGED: u64 = 20;
/// Seconds that a process is stopped.
const STOPPED: u64 = 30;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
