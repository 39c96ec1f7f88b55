//! Running the system's tools, each for a bounded time.

use std::process::Command;

/// Runs a line of words without quoting and returns its output.
pub(super) fn run(line: &str) -> String {
    attempt(line).unwrap_or_else(|error| panic!("{error}"))
}

/// [`run`] for a line that may fail.
pub(super) fn attempt(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new("timeout")
        .args(["-k", "1", SECONDS_MAX])
        .args(&words)
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{line}` ended with {}: {}", output.status, said.trim()))
}

/// Writes one of the kernel's settings as `namespace` sees it.
pub(super) fn write(namespace: &str, setting: &str, value: &str) {
    try_write(namespace, setting, value).unwrap_or_else(|error| panic!("{error}"));
}

/// [`write`] for a setting that this kernel may not have.
pub(super) fn try_write(namespace: &str, setting: &str, value: &str) -> Result<(), String> {
    let script = format!("echo {value} > {setting}");
    let output = Command::new("timeout")
        .args(["-k", "1", SECONDS_MAX, "ip", "netns", "exec", namespace, "sh", "-c", &script])
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{script}: {}", said.trim())) }
}

/// No tool of this kind takes a second, even on a busy machine.
const SECONDS_MAX: &str = "30";
