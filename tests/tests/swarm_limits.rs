//! What the owner of a line allows is what goes over it, headers and all.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::time::{Duration, Instant};

use lab::{Bootstrap, GENESIS, Lab, Node, Swarm};

#[test]
fn a_cap_on_uploads_holds_at_the_device() {
    let Some(lab) = Lab::new("limits") else { return };
    let meeting = Bootstrap::start(&lab.host("meeting"));
    let mut capped = Node::new(&lab.host("capped"), &["--mdns", "false", "--max-upload", CAP]);
    // One more that trains, so that the capped one receives, too; and two that only watch, because
    // what everybody wants of the capped one is what matters here.
    let mut trains = Node::new(&lab.host("trains"), &["--mdns", "false"]);
    let mut watch =
        ["c", "d"].map(|name| Node::new(&lab.host(name), &["--mdns", "false", "--watch-only"]));
    let ticket = capped.make_run(&genesis(), meeting.addresses());
    capped.start();
    for node in std::iter::once(&mut trains).chain(&mut watch) {
        node.join(&ticket);
    }
    let all = Swarm([&capped, &trains].into_iter().chain(&watch).collect());
    all.wait_until("three peers", LONG, |status| {
        status.0["peers"].as_array().is_some_and(|peers| peers.len() == 3)
    });
    // Saturated, and past whatever a beginning brings.
    let wanted = CAP_BYTES * WARM_UP.as_secs();
    let content = |what: &str| format!("/bytes/content/{what}");
    capped
        .wait_until("more to send than may be", LONG, |it| it.number(&content("up")) > wanted / 2);

    // A machine that is busy trains more slowly, and then there may be less to send for a while.
    let shares: Vec<f64> = (0..WINDOWS).map(|_| share_of_cap(&capped)).collect();
    assert!(shares.iter().all(|share| *share <= 1.1), "more than is allowed was sent: {shares:?}");
    assert!(shares.iter().any(|share| *share >= 0.7), "what is allowed was not used: {shares:?}");
}

/// What goes over the device in a while, as a share of what is allowed.
fn share_of_cap(capped: &Node) -> f64 {
    let before = capped.status().unwrap();
    let ((received, sent), began) = (capped.host().bytes(), Instant::now());
    std::thread::sleep(WINDOW);
    let ((received_then, sent_then), time) = (capped.host().bytes(), began.elapsed());
    let after = capped.status().unwrap();
    let rate = |count: u64| count as f64 / time.as_secs_f64();
    let share = rate(sent_then - sent) / CAP_BYTES as f64;
    let count = |at: &str| rate(after.number(at) - before.number(at));
    eprintln!(
        "{share:.3} of the cap: {:.0} B/s sent, {:.0} B/s received at the device; \
         contents {:.0} up and {:.0} down, the rest {:.0} up and {:.0} down",
        rate(sent_then - sent),
        rate(received_then - received),
        count("/bytes/content/up"),
        count("/bytes/content/down"),
        count("/bytes/control/up"),
        count("/bytes/control/down"),
    );
    share
}

/// The lab's run with a model whose payloads are more than the cap lets through.
fn genesis() -> String {
    let larger = [
        ("width = 32", "width = 256"),
        ("layers = 1", "layers = 3"),
        ("hidden = 64", "hidden = 512"),
        // Few rounds, or what nodes say about those that are late would be more than the cap.
        ("steps = 8", "steps = 32"),
        ("heartbeat_ms = 500", "heartbeat_ms = 4000"),
        ("alive_ms = 8000", "alive_ms = 32000"),
    ];
    larger.into_iter().fold(GENESIS.to_owned(), |genesis, (from, to)| {
        assert!(genesis.contains(from), "{from}");
        genesis.replace(from, to)
    })
}

const CAP: &str = "1mbit";
const CAP_BYTES: u64 = 125_000;
/// How long it takes at the cap to send what is waited for.
const WARM_UP: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(12);
const WINDOWS: usize = 3;
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);
