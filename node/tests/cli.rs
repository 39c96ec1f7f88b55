//! The command line of `atoll`, as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::path::PathBuf;
use std::process::{Command, Output};

#[test]
fn version_and_help_say_what_it_is() {
    let version = atoll(&["--version"]);
    assert!(version.status.success());
    assert_eq!(stdout(&version), format!("atoll {}\n", env!("CARGO_PKG_VERSION")));
    let help = atoll(&["--help"]);
    assert!(help.status.success());
    for task in ["new", "run", "join", "status", "doctor", "invite", "train"] {
        assert!(stdout(&help).contains(&format!("\n  {task} ")), "{task}: {}", stdout(&help));
    }
}

#[test]
fn without_a_task_it_says_what_there_is() {
    let output = atoll(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("join"), "{}", stderr(&output));
}

#[test]
fn an_unknown_task_is_refused() {
    let output = atoll(&["dance"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("dance"));
}

#[test]
fn a_wrong_ticket_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("home");
    for (ticket, wrong) in [("hello", "is not a ticket"), ("atoll2abcdef", "checksum")] {
        let output = atoll(&["join", ticket, "--home", home.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(wrong), "{}", stderr(&output));
        assert!(stderr(&output).contains("\nhint: "), "{}", stderr(&output));
        assert!(!home.exists(), "a ticket that is none made a folder");
    }
}

#[test]
fn a_folder_without_a_run_is_named() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().to_str().unwrap();
    let output = atoll(&["run", "--home", folder]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(folder), "{}", stderr(&output));
    assert!(stderr(&output).contains("atoll new"), "{}", stderr(&output));
}

#[test]
fn a_damaged_genesis_is_named() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("runs/0123456789abcdef");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("genesis.bin"), b"nonsense").unwrap();
    let output = atoll(&["run", "--home", home.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("genesis.bin"), "{}", stderr(&output));
    assert_eq!(std::fs::read(run.join("genesis.bin")).unwrap(), b"nonsense");
}

#[test]
fn a_good_genesis_is_described() {
    let file = file("good", b"name = \"reef\"\nmodel = \"nano\"\n");
    let output = atoll(&["genesis", "check", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let genesis =
        atoll_protocol::genesis::Genesis::from_toml("name = \"reef\"\nmodel = \"nano\"").unwrap();
    let text = stdout(&output);
    assert!(text.contains(&genesis.run_id().to_hex()), "{text}");
    assert!(text.contains(&format!("tensors     {}\n", genesis.tensors.len())), "{text}");
    assert!(text.contains(&format!("({} bytes)", 4 * genesis.fragment_map().elements())));
    assert!(text.contains("fragments   4,"), "{text}");
    assert!(text.contains("inner       adamw, learning rate up to 0.001\n"), "{text}");
}

#[test]
fn a_wrong_value_is_named_with_its_range() {
    let text = b"name = \"reef\"\nmodel = \"nano\"\n[rounds]\nsteps = 0\n";
    let message = refused("range", text);
    assert!(message.contains("rounds.steps = 0"), "{message}");
    assert!(message.contains("allowed") && message.contains("100000"), "{message}");
}

#[test]
fn whatever_else_is_wrong_is_named_too() {
    assert!(refused("missing", b"model = \"nano\"\n").contains("name is missing"));
    let message = refused("key", b"name = \"reef\"\nmodel = \"nano\"\nflavour = 1\n");
    assert!(message.contains("flavour"), "{message}");
    assert!(refused("bytes", b"name = \"\xff\"").contains("byte 8 is not UTF-8"));
    assert!(refused("long", &vec![b'#'; (1 << 20) + 1]).contains("1048576 bytes"));
    let output = atoll(&["genesis", "check", "no/such/file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no/such/file.toml: cannot be read"));
}

/// The message about a file with these bytes.
fn refused(name: &str, bytes: &[u8]) -> String {
    let file = file(name, bytes);
    let output = atoll(&["genesis", "check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).starts_with("error: "));
    stderr(&output)
}

fn atoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll")).args(arguments).output().unwrap()
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
