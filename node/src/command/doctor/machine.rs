//! The machine: key, folder, disk, memory.

use atoll_node::config::Config;
use atoll_node::identity::{Identity, IdentityError};
use atoll_node::units::{bytes, span};

use super::check::Check;
use super::{Findings, Subject};
use crate::command::needs::{Needs, free_disk};

pub(super) fn key(config: &Config, identity: &Result<Option<Identity>, IdentityError>) -> Check {
    match identity {
        Ok(Some(identity)) => {
            Check::ok("key", format!("node {}, only you can read its key", identity.node()))
        }
        Ok(None) => Check::ok(
            "key",
            format!("none in {} yet; the first start makes one", config.home.display()),
        ),
        Err(error) => {
            let (finding, hint) = split(&error.to_string());
            Check::fail("key", finding, hint)
        }
    }
}

pub(super) fn folder(subject: &Subject, findings: &Findings) -> Check {
    match (&findings.status, &findings.folder, &subject.folder) {
        (Some(status), ..) => {
            let up = span(std::time::Duration::from_secs(status.uptime_s));
            Check::ok("folder", format!("{}, its node runs for {up}", subject.title()))
        }
        (None, Some((finding, hint)), _) => Check::fail("folder", finding, hint),
        (None, None, Some(_)) => Check::ok("folder", format!("{}, undamaged", subject.title())),
        (None, None, None) => Check::warn(
            "folder",
            "no run on this machine yet",
            "`atoll join TICKET` joins one, `atoll new` makes one",
        ),
    }
}

pub(super) fn disk(config: &Config, subject: &Subject, findings: &Findings) -> Check {
    let path = subject.folder.as_ref().map_or(config.home.as_path(), |folder| &folder.path);
    let Some(free) = free_disk(path) else {
        let hint = format!("does {} exist, and may you write there?", path.display());
        return Check::warn("disk", "nobody knows how much is free", hint);
    };
    let Some(genesis) = &findings.genesis else {
        return Check::ok("disk", format!("{} free", bytes(free)));
    };
    let need = Needs::new(genesis).disk;
    let status = findings.status.as_ref();
    let used = status.map_or(0, |status| status.disk.used);
    let budget = status.and_then(|it| it.disk.budget).or(config.max_disk.map(|it| it.bytes()));
    let allowed = budget.map(|it| format!(", {} allowed", bytes(it))).unwrap_or_default();
    let finding = format!(
        "{} free{allowed}; the run needs about {} and has {}",
        bytes(free),
        bytes(need),
        bytes(used)
    );
    let missing = need.saturating_sub(used);
    if free < missing {
        Check::fail("disk", finding, "make room, or put --home on another disk")
    } else if budget.is_some_and(|budget| budget < need) {
        Check::warn("disk", finding, "allow more with --max-disk, or rounds may have to wait")
    } else if free < 2 * missing {
        Check::warn("disk", finding, "it fits, but not much else will")
    } else {
        Check::ok("disk", finding)
    }
}

pub(super) fn memory(findings: &Findings) -> Check {
    let need = findings.genesis.as_ref().map(|genesis| Needs::new(genesis).memory);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    judge_memory(need, memory_of(&text), findings.status.is_some())
}

/// Total and available bytes, as the kernel tells them.
fn memory_of(text: &str) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    };
    Some((of("MemTotal:")?, of("MemAvailable:")?))
}

fn judge_memory(need: Option<u64>, memory: Option<(u64, u64)>, running: bool) -> Check {
    let needed = need.map(|need| format!("; the run needs about {}", bytes(need)));
    let needed = needed.unwrap_or_default();
    let Some((total, available)) = memory else {
        return Check::ok("memory", format!("this system does not tell{needed}"));
    };
    let need = need.unwrap_or(0);
    let finding = format!("{} of {} free{needed}", bytes(available), bytes(total));
    if need > total {
        Check::fail("memory", finding, "this run needs a larger machine")
    } else if need > available && !running {
        Check::warn("memory", finding, "close what else runs here, or the system will swap")
    } else {
        Check::ok("memory", finding)
    }
}

/// A message and the hint in it.
pub(super) fn split(message: &str) -> (String, String) {
    let (finding, hint) = message.split_once("\nhint: ").unwrap_or((message, ""));
    (finding.to_owned(), hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::*;

    #[test]
    fn memory_is_read_and_judged() {
        let text = "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:   2000000 kB\n";
        let memory = memory_of(text);
        assert_eq!(memory, Some((8_000_000 << 10, 2_000_000 << 10)));
        assert_eq!(memory_of("MemTotal: lots"), None);
        let verdict = |need, running| judge_memory(need, memory, running).verdict;
        assert_eq!(verdict(None, false), Verdict::Ok);
        assert_eq!(verdict(Some(1 << 30), false), Verdict::Ok);
        assert_eq!(verdict(Some(4 << 30), false), Verdict::Warn);
        assert_eq!(verdict(Some(4 << 30), true), Verdict::Ok);
        assert_eq!(verdict(Some(40 << 30), true), Verdict::Fail);
        assert_eq!(judge_memory(Some(1), None, false).verdict, Verdict::Ok);
    }
}
