//! One check: what was looked at, how it is, and what to do.

use serde::Serialize;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    /// The node works, though not as well as it could; or it is not known.
    Warn,
    /// The node cannot do its work.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) finding: String,
    pub(super) hint: Option<String>,
}

impl Check {
    pub(super) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, finding: finding.into(), hint: None }
    }

    pub(super) fn warn(
        check: &'static str,
        finding: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let hint = Some(hint.into());
        Self { check, verdict: Verdict::Warn, finding: finding.into(), hint }
    }

    pub(super) fn fail(
        check: &'static str,
        finding: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Fail, ..Self::warn(check, finding, hint) }
    }
}

/// All checks, for people: at most 79 columns, but for words that are longer.
pub(super) fn table(checks: &[Check]) -> String {
    let mut table = String::new();
    for Check { check, verdict, finding, hint } in checks {
        let verdict = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let hint = hint.as_ref().map(|hint| format!("hint: {hint}"));
        let lines = wrapped(finding).into_iter().chain(hint.iter().flat_map(|it| wrapped(it)));
        for (index, line) in lines.enumerate() {
            let (verdict, check) = if index == 0 { (verdict, *check) } else { ("", "") };
            table.push_str(format!("{verdict:<6}{check:<14}{line}").trim_end());
            table.push('\n');
        }
    }
    table
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > TEXT_COLUMNS {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

const TEXT_COLUMNS: usize = 79 - 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_a_terminal() {
        let words = "many words that say what is wrong and go on for longer than a line has room";
        let checks = [Check::ok("key", "fine"), Check::fail("reachability", words, words)];
        let table = table(&checks);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "ok    key           fine");
        assert!(lines[1].starts_with("FAIL  reachability  many words"), "{table}");
        assert!(table.contains("                    hint: many"), "{table}");
        assert!(lines.iter().all(|line| line.len() <= 79), "{table}");
    }

    #[test]
    fn scripts_find_these_names() {
        let check = serde_json::to_value(Check::warn("nat", "symmetric", "open a port")).unwrap();
        let wanted = serde_json::json!({
            "check": "nat", "verdict": "warn", "finding": "symmetric", "hint": "open a port",
        });
        assert_eq!(check, wanted);
    }
}
