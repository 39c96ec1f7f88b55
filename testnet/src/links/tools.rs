//! The system's tools, each for a bounded time.

use std::process::{Command, Stdio};

/// Runs a line of words without quoting; gives what the tool said where it failed.
pub(super) fn run(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    run_words(&words)
}

/// The same for words that may hold spaces.
pub(super) fn run_words(words: &[&str]) -> Result<(), String> {
    let output = Command::new("timeout")
        .args(["-k", "1", SECONDS_MAX])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it failed");
    Err(format!("{}: {said}", words.first().unwrap_or(&"")))
}

/// No tool of this kind takes a second, even on a busy machine.
const SECONDS_MAX: &str = "30";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_says_why() {
        assert_eq!(run("true"), Ok(()));
        let said = run_words(&["sh", "-c", "echo; echo no such device >&2; exit 1"]).unwrap_err();
        assert_eq!(said, "sh: no such device");
        assert!(run("no-such-tool-at-all").is_err());
    }
}
