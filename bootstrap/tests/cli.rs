//! The command line of `atoll-bootstrap`, as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::process::{Command, Output};

#[test]
fn help_says_what_it_is() {
    let output = bootstrap(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("bootstrap server") && text.contains("no network yet"), "{text}");
}

#[test]
fn any_other_use_is_refused_with_a_hint() {
    for arguments in [&[][..], &["serve"]] {
        let output = bootstrap(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
    }
    let text = String::from_utf8(bootstrap(&[]).stderr).unwrap();
    assert!(text.contains("cargo testnet up"), "{text}");
}

fn bootstrap(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll-bootstrap")).args(arguments).output().unwrap()
}
