//! Runs one simulated swarm and says how it ended, whatever it did.

use std::cell::RefCell;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};

use crate::check::{Kind, kind_of};
use crate::scenario;
use crate::sim::{self, Outcome, Setup};

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Every invariant held.
    Passed(Box<Outcome>),
    /// One did not.
    Violated(Box<Outcome>),
    /// The code panicked, with these words.
    Crashed(String),
    /// The same seed did something else the second time.
    NotRepeated(String),
}

impl Verdict {
    /// What it means for whoever called: the exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Passed(_) => EXIT_OK,
            Self::Violated(outcome) => {
                let checker = outcome.violation.as_ref().map_or("", |violation| violation.checker);
                match kind_of(checker) {
                    Kind::Safety => EXIT_SAFETY,
                    Kind::Liveness => EXIT_LIVENESS,
                }
            }
            Self::Crashed(_) => EXIT_CRASH,
            Self::NotRepeated(_) => EXIT_SAFETY,
        }
    }

    /// What was seen, if the run came to an end.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Passed(outcome) | Self::Violated(outcome) => Some(outcome),
            Self::Crashed(_) | Self::NotRepeated(_) => None,
        }
    }
}

/// Runs `setup` under every checker. A panic is a verdict, too.
pub fn run(setup: Setup, trace: Option<&mut dyn Write>) -> Verdict {
    let checkers = scenario::checkers(&setup);
    let ended = panic::catch_unwind(AssertUnwindSafe(|| sim::run(setup, checkers, trace)));
    match ended {
        Ok(outcome) if outcome.violation.is_some() => Verdict::Violated(Box::new(outcome)),
        Ok(outcome) => Verdict::Passed(Box::new(outcome)),
        Err(_) => Verdict::Crashed(PANIC.with_borrow_mut(std::mem::take)),
    }
}

/// Runs `setup` twice, and once more with another number of threads.
pub fn run_twice(setup: &Setup) -> Verdict {
    let first = run(setup.clone(), None);
    let second = run(setup.clone(), None);
    let mut threaded = setup.clone();
    threaded.threads = if setup.threads == 1 { 2 } else { 1 };
    let threads = threaded.threads;
    let third = run(threaded, None);
    let (Some(one), Some(two), Some(three)) = (first.outcome(), second.outcome(), third.outcome())
    else {
        return first;
    };
    if one.trace_hash != two.trace_hash {
        return Verdict::NotRepeated(format!(
            "trace hashes {} and {} of two equal runs",
            hex(&one.trace_hash),
            hex(&two.trace_hash)
        ));
    }
    if one.digests != three.digests || one.trace_hash != three.trace_hash {
        return Verdict::NotRepeated(format!("other digests with {threads} threads"));
    }
    first
}

/// Keeps what a panic says for its verdict, instead of printing it.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|text| *text = info.to_string())));
}

/// The first bytes of a hash, for people.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Everything held.
pub const EXIT_OK: u8 = 0;
/// The harness itself failed: a bug survived, a fault never happened.
pub const EXIT_HARNESS: u8 = 1;
/// The command line makes no sense.
pub const EXIT_USAGE: u8 = 2;
/// Something happened that must never happen.
pub const EXIT_SAFETY: u8 = 10;
/// Something did not happen that must.
pub const EXIT_LIVENESS: u8 = 11;
/// The code panicked.
pub const EXIT_CRASH: u8 = 12;
