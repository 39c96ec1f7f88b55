//! `atoll doctor` without a running node, as a person meets it.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_machine_without_a_run_is_looked_at() {
    let home = tempfile::tempdir().unwrap();
    let output = atoll(&home, &["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    for check in ["ok    key", "warn  folder", "ok    disk", "ok    memory", "hint: `atoll join"] {
        assert!(table.contains(check), "no `{check}` in\n{table}");
    }
    // To look changes nothing.
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn what_fails_is_told() {
    let home = tempfile::tempdir().unwrap();
    let nobody =
        "/ip4/127.0.0.1/udp/9/quic-v1/p2p/12D3KooWF6FptGEgimCKpm7bqD9sLTS12P5ZT3TSPP1Fwy5MYg2E";
    let made = atoll(&home, &["new", "reef", "--bootstrap", nobody]);
    assert!(made.status.success(), "{made:?}");
    let ticket = String::from_utf8(made.stdout).unwrap();
    let other = tempfile::tempdir().unwrap();
    let wait = ["--json", "--wait", "1", "--mdns", "false", "--upnp", "false"];
    for (home, what) in [(&home, "reef"), (&other, ticket.trim())] {
        let output = atoll(home, &[&["doctor", what], &wait[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["ok"], &said["running"]), (&false.into(), &false.into()));
        let checks = said["checks"].as_array().unwrap();
        let bootstrap = checks.iter().find(|it| it["check"] == "bootstrap").unwrap();
        assert_eq!(bootstrap["verdict"], "fail");
        assert!(bootstrap["finding"].as_str().unwrap().contains(nobody));
        assert!(bootstrap["hint"].as_str().is_some());
    }
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for what in ["nothing", "atoll2nonsense"] {
        let output = atoll(&home, &["doctor", what]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("hint: "));
    }
}

fn atoll(home: &TempDir, arguments: &[&str]) -> Output {
    let home = home.path();
    Command::new(env!("CARGO_BIN_EXE_atoll"))
        .args(arguments)
        .args(["--home", home.to_str().unwrap()])
        .output()
        .unwrap()
}
