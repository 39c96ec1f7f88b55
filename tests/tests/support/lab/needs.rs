//! What a machine must have for a lab.

use std::io::Write;

/// What this machine lacks, in words, if it lacks anything.
pub(super) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("root".into());
    }
    let lacking: Vec<&str> = TOOLS.into_iter().filter(|tool| !is_there(tool)).collect();
    (!lacking.is_empty()).then(|| lacking.join(", "))
}

/// Says that a test did not run, also where the output of tests that pass is held back.
pub(super) fn tell_skipped(name: &str, missing: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {name} needs {missing}");
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

const TOOLS: [&str; 8] = ["ip", "tc", "iptables", "ip6tables", "sh", "timeout", "mount", "umount"];
