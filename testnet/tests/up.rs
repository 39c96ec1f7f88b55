//! `testnet up` around programs that only pretend: whatever happens, nothing is left behind.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[test]
fn a_node_that_cannot_start_is_explained() {
    let world = World::new("echo no such device >&2; exit 3");
    let output = world.up(&[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: island 1 ended with exit code 3\n  no such device\nhint: "),
        "{said}"
    );
    world.assert_empty();
}

#[test]
fn a_signal_ends_everything() {
    let world = World::new("exec sleep 600");
    let output = world.interrupted(&[], Signal::TERM);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    world.assert_empty();
}

#[test]
fn even_kill_9_leaves_nothing() {
    let world = World::new("exec sleep 600");
    assert_eq!(world.interrupted(&[], Signal::KILL).status.code(), None);
    world.assert_empty();
}

#[test]
fn a_process_of_which_the_keeper_was_never_told_is_ended_after_kill_9() {
    // In a session of its own it is in nobody's group, as one is that was started a moment ago.
    let script = "setsid sh -c 'echo $$ >> \"$PROCESSES\"; exec sleep 600' & exec sleep 600";
    let world = World::new(script);
    let child = world.up(&[]);
    wait_until(|| world.processes().len() == 3);
    send(&child, Signal::KILL);
    child.wait_with_output().unwrap();
    world.assert_empty();
}

#[test]
fn programs_that_are_not_there_are_named() {
    let world = World::new("exit 0");
    fs::remove_file(world.0.path().join("bin/atoll-bootstrap")).unwrap();
    let output = world.up(&[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("atoll-bootstrap\nhint: "), "{said}");
    world.assert_empty();
}

#[test]
fn links_have_a_network_of_their_own() {
    let world = World::noting("readlink /proc/self/ns/net >> \"$PROCESSES.net\"", "exec sleep 600");
    if !can_unshare() {
        eprintln!("skipped: needs network namespaces");
        return;
    }
    let output = world.interrupted(&["--link", "20mbit", "--delay", "5ms"], Signal::TERM);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let theirs = fs::read_to_string(world.0.path().join("processes.net")).unwrap();
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert!(theirs.starts_with("net:[") && theirs.trim() != ours.to_str().unwrap(), "{theirs}");
    world.assert_empty();
}

#[test]
fn without_namespaces_nodes_keep_to_the_rate_and_nothing_else_can_be_asked_for() {
    let world = World::noting("echo \"$@\" > \"$PROCESSES.words\"", "exec sleep 600");
    let refused = "#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n";
    world.program("unshare", refused);
    for options in [&["--delay", "40ms"][..], &["--chaos", "split"], &["--link=1mbit", "--loss=1%"]]
    {
        let output = world.up(options).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("needs network namespaces"), "{said}");
        assert!(said.contains("Operation not permitted\nhint: "), "{said}");
        world.assert_empty();
    }
    world.interrupted(&["--link", "20mbit"], Signal::TERM);
    let words = fs::read_to_string(world.0.path().join("processes.words")).unwrap();
    assert!(words.contains("--max-upload 20mbit --max-download 20mbit"), "{words}");
    world.assert_empty();
}

#[test]
fn a_typo_in_a_plan_ends_everything_before_it_begins() {
    let world = World::new("exit 0");
    let plan = world.0.path().join("plan.toml");
    fs::write(&plan, "[[event]]\ndo = \"kill\"\nat = \"3s\"\nislnd = 2\n").unwrap();
    let output = world.up(&["--chaos", plan.to_str().unwrap()]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("line 4: unknown field `islnd`\nhint: did you mean island?"), "{said}");
    assert!(world.processes().is_empty());
    world.assert_empty();
}

/// A folder with pretended programs, a place for temporary files, and a list of processes.
struct World(TempDir);

impl World {
    /// A world in which `atoll run` does this.
    fn new(run: &str) -> Self {
        Self::noting(":", run)
    }

    /// A world in which `atoll run` writes something down before it says that it runs.
    fn noting(note: &str, run: &str) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for folder in ["bin", "tmp"] {
            fs::create_dir(world.0.path().join(folder)).unwrap();
        }
        let atoll = format!(
            "case $1 in\n\
             train) echo '{{\"loss_last\":5.0,\"steps\":3,\"tokens\":3000,\"seconds\":3.0}}';;\n\
             new) echo atoll2ticket;;\n\
             run) {note}; echo $$ >> \"$PROCESSES\"; {run};;\n\
             esac\n"
        );
        let address = "/ip4/127.0.0.1/udp/1/quic-v1/p2p/x";
        let bootstrap = format!("echo $$ >> \"$PROCESSES\"\necho {address}\nexec sleep 600\n");
        for (name, script) in [("atoll", atoll), ("atoll-bootstrap", bootstrap)] {
            world.program(name, &format!("#!/bin/sh\n{script}"));
        }
        world
    }

    /// Puts a program where it is found before the system's own.
    fn program(&self, name: &str, script: &str) {
        let path = self.0.path().join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn up(&self, options: &[&str]) -> Child {
        let root = self.0.path();
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new(env!("CARGO_BIN_EXE_atoll-testnet"))
            .args(["up", "--minutes", "0.1", "--report"])
            .arg(root.join("report.html"))
            .args(options)
            .env("PATH", format!("{}:{path}", root.join("bin").display()))
            .env("ATOLL_BINARIES", root.join("bin"))
            .env("PROCESSES", root.join("processes"))
            .env("TMPDIR", root.join("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts it and sends it a signal when the first node runs.
    fn interrupted(&self, options: &[&str], signal: Signal) -> Output {
        let child = self.up(options);
        wait_until(|| self.processes().len() == 2);
        send(&child, signal);
        child.wait_with_output().unwrap()
    }

    fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.0.path().join("processes")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Nothing runs, and nothing is on the disk.
    fn assert_empty(&self) {
        for process in self.processes() {
            wait_until(|| !runs(process));
        }
        let temporary = self.0.path().join("tmp");
        wait_until(|| fs::read_dir(&temporary).unwrap().next().is_none());
        assert!(!self.0.path().join("report.html").exists());
    }
}

fn send(child: &Child, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// Whether this machine lets us have networks of our own.
fn can_unshare() -> bool {
    let script = "ip link add a type veth peer name b && tc qdisc add dev a root tbf rate 1mbit \
                  burst 16kb latency 50ms && iptables -t mangle -A INPUT -j NFQUEUE";
    let words = ["--user", "--map-root-user", "--net", "--", "sh", "-c", script];
    let output = Command::new("unshare").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

/// Whether a process runs; a dead one stays listed until somebody has asked how it ended.
fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    let state = |stat: String| Some(stat.rsplit_once(") ")?.1.starts_with('Z'));
    stat.ok().and_then(state) == Some(false)
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < until, "it takes too long");
        // Whoever is waited for needs the processor, too.
        std::thread::sleep(Duration::from_millis(20));
    }
}
