//! Races of the synchronous rivals: how many steps they need, and how long a step takes them.

use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::options::{Options, Trouble};
use super::rival::{Kind, Line};
use super::track::Track;
use crate::up::UpError;
use crate::up::process::{self, Output, Process, describe};

/// What a rival does on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Seconds and bytes of all members for each step, exchanges included.
    pub(super) step_s: f64,
    pub(super) step_bytes: f64,
    /// Seconds of each step that the members only exchange.
    pub(super) wire_s: f64,
    /// Steps that were really taken.
    pub(super) steps: u64,
}

/// The members of a ring. Dropped, they are ended.
struct Members {
    processes: Vec<Process>,
    lines: Receiver<Line>,
}

/// Steps that a rival needs to the target, on links as fast as the machine and without waiting:
/// the arithmetic is the same. None if it does not get there in time.
pub(super) fn steps_to_target(
    track: &Track,
    options: &Options,
    kind: Kind,
    say: &mut dyn FnMut(String) -> Result<(), UpError>,
) -> Result<Option<u64>, UpError> {
    track.limit(None)?;
    let mut members = start(track, options, kind, Trouble::Calm, Pace::Free)?;
    let until = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    while Instant::now() < until {
        let Some(line) = members.next(track)? else { break };
        let Some(loss) = line.loss else { continue };
        say(format!("  step {}: {loss:.3}", line.steps))?;
        if loss <= options.target() {
            return Ok(Some(line.steps));
        }
    }
    Ok(None)
}

/// How long a step takes on a link of this rate; none if the rival stops for good.
pub(super) fn measure(
    track: &Track,
    options: &Options,
    kind: Kind,
    rate: f64,
    trouble: Trouble,
) -> Result<Option<Measured>, UpError> {
    track.limit(Some(rate))?;
    let rounds = match kind {
        Kind::Parallel => options.steps,
        Kind::Diloco => options.steps.div_ceil(options.span.into()).max(ROUNDS_MIN),
    };
    let every = if kind == Kind::Parallel { 1 } else { u64::from(options.span) };
    let mut members = start(track, options, kind, trouble, Pace::Timed)?;
    // The first exchange finds cold connections: it does not count.
    let Some(_) = members.next(track)? else { return Ok(None) };
    let bytes = track.bytes()?;
    let (mut seconds, mut wire) = (0.0, 0.0);
    for _ in 0..rounds {
        if matches!(trouble, Trouble::Killed | Trouble::Restarted) {
            members.kill_last();
        }
        let Some(line) = members.next(track)? else { return Ok(None) };
        seconds += line.seconds;
        wire += line.wire;
    }
    let bytes = track.bytes()?.saturating_sub(bytes) as f64;
    let steps = rounds * every;
    let each = |all: f64| all / steps as f64;
    Ok(Some(Measured { step_s: each(seconds), step_bytes: each(bytes), wire_s: each(wire), steps }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As fast as the machine, and measured.
    Free,
    /// A step takes its emulated time.
    Timed,
}

fn start(
    track: &Track,
    options: &Options,
    kind: Kind,
    trouble: Trouble,
    pace: Pace,
) -> Result<Members, UpError> {
    let count = usize::from(options.islands);
    let program = std::env::current_exe()?;
    let (word, every) = match kind {
        Kind::Parallel => ("parallel", EVALUATE_STEPS),
        Kind::Diloco => ("diloco", u64::from(options.span)),
    };
    let (mut processes, mut lines) = (Vec::new(), None);
    for number in 0..count {
        let slow = trouble == Trouble::Slow && number + 1 == count;
        let step_ms = if slow { SLOW * options.step_ms } else { options.step_ms };
        let mut command = process::command(&program);
        command.arg(COMMAND).arg("--genesis").arg(track.folder.join(super::GENESIS));
        let place = |number: usize| format!("{}:{PORT}", track.address(number % count));
        command.args(["--kind", word, "--listen", &place(number), "--next", &place(number + 1)]);
        command.args(["--number", &number.to_string(), "--members", &count.to_string()]);
        command.args(["--steps", &u32::MAX.to_string()]);
        if kind == Kind::Parallel {
            command.args(["--peak", &options.parallel_peak.to_string()]);
        }
        match pace {
            Pace::Free => command.args(["--evaluate-steps", &every.to_string()]),
            Pace::Timed => command.args(["--step-ms", &step_ms.to_string()]),
        };
        let output = if number == 0 { Output::Pipe } else { Output::Log };
        let mut process = track.start(Some(number), command, &format!("rival {number}"), output)?;
        lines = lines.or(process.output().map(read));
        processes.push(process);
    }
    let lines = lines.ok_or_else(|| UpError::usage("a rival without a voice", ""))?;
    Ok(Members { processes, lines })
}

impl Members {
    /// The next line of member 0; none if the ring has come to its end.
    fn next(&mut self, track: &Track) -> Result<Option<Line>, UpError> {
        let until = Instant::now() + PATIENCE;
        loop {
            track.interrupt.check()?;
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    let [first, ..] = &mut self.processes[..] else { return Ok(None) };
                    let what = first.ended().map_or("said nothing".into(), describe);
                    return Err(first.failure(what));
                }
            }
        }
    }

    fn kill_last(&mut self) {
        if let Some(last) = self.processes.last_mut() {
            last.end();
        }
    }
}

/// The lines that a process prints, until it ends.
fn read(output: ChildStdout) -> Receiver<Line> {
    let (sender, lines) = sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Ok(line) = serde_json::from_str(&line) else { continue };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The hidden command that makes a process a member.
pub(crate) const COMMAND: &str = "rival";
/// Every member has an address of its own, and all the same port.
const PORT: u16 = 7000;
/// How many times as long the slow island's steps take.
pub(super) const SLOW: u64 = 4;
/// Rounds of DiLoCo that are measured, at least.
const ROUNDS_MIN: u64 = 2;
/// Steps of data-parallel between measurements of the held-out loss.
const EVALUATE_STEPS: u64 = 8;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than any exchange over a link that somebody would wait for.
const PATIENCE: Duration = Duration::from_secs(600);
const LINES_MAX: usize = 1024;
