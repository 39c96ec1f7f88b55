//! What a node may take of its machine: its upload cap as the wire sees it, and how readily its
//! training leaves the processor to others.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Lab, Node, wait_for};

#[test]
fn the_cap_on_uploads_holds_on_the_wire() {
    let Some(lab) = Lab::new("limits") else { return };
    let options = ["--mdns", "false", "--max-upload", "1mbit", "--nice", "7"];
    let mut giver = Node::new(&lab.host("giver"), &options);
    giver.make_run(GENESIS, &[]);
    giver.start();
    let ticket = wait_for("the ticket of a running node", LONG, || {
        giver.ticket().ok_or_else(|| giver.process().output())
    });
    assert_eq!(nice_of_threads(&giver, "island"), [7], "training is to be nice");
    assert_eq!(nice_of_threads(&giver, "atoll"), [0], "what peers wait for is not");

    let mut taker = Node::new(&lab.host("taker"), &["--mdns", "false", "--watch-only"]);
    taker.join(&ticket);
    let sent = || giver.status().unwrap().number("/bytes/content/up");
    // Each round is as many bytes as the cap lets through in several seconds.
    let begun = sent();
    wait_for("contents to flow", LONG, || {
        if sent() > begun + CAP { Ok(()) } else { Err(giver.status().unwrap().to_string()) }
    });
    let (began, before) = (Instant::now(), giver.host().bytes().1);
    sleep(MEASURED);
    let (seconds, after) = (began.elapsed().as_secs_f64(), giver.host().bytes().1);
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let share = (after - before) as f64 / seconds / CAP as f64;
    eprintln!("{share:.3} of the cap at the veth over {seconds:.1} s");
    assert!((0.9..=1.1).contains(&share), "{share:.3} of the cap in {seconds:.1} s");
}

/// The levels of a node's threads of that name, each once.
fn nice_of_threads(node: &Node, name: &str) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.process().id())).unwrap();
    let stats =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let mut levels: Vec<i32> = stats
        .filter_map(|stat| {
            // `12 (name of the thread) S 1 ...`, and the 19th is the level.
            let (head, tail) = stat.rsplit_once(") ")?;
            let (_, thread) = head.split_once(" (")?;
            (thread == name).then(|| tail.split(' ').nth(16).unwrap().parse().unwrap())
        })
        .collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Rounds of about half a megabyte, several in a second.
const GENESIS: &str = r#"
name = "large"
roster = "open"
fragments = 2
codec = "int8"

[model]
vocab = 256
width = 128
layers = 4
heads = 4
kv_heads = 4
hidden = 256
context = 32
tied = true

[data]
corpus = "generated"
sequence = 32
batch = 1

[rounds]
steps = 2
steps_min = 1
quorum_min = 1
quorum_percent = 50
grace_ms_min = 50
grace_ms_max = 500
horizon = 512
heartbeat_ms = 500
alive_ms = 4000
forget_ms = 300000
"#;
/// Bytes in a second.
const CAP: u64 = 1_000_000 / 8;
const MEASURED: Duration = Duration::from_secs(15);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
