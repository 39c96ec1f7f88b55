//! A process that ends with its owner, at the latest.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::UpError;
use super::keeper::{Keeper, end_group};

/// Where goes what a process prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Into its log, or to where ours goes if it has none.
    Log,
    /// To whoever takes [`Process::output`].
    Pipe,
}

/// A process in a group of its own. Dropped, it and all it started are ended.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    log: Option<PathBuf>,
    keeper: Arc<Keeper>,
}

impl Process {
    /// Starts `command`, with what it says about itself in the file `log`, or shown here.
    pub(crate) fn start(
        mut command: Command,
        name: &str,
        log: Option<&Path>,
        output: Output,
        keeper: &Arc<Keeper>,
    ) -> Result<Self, UpError> {
        // Its own group: Ctrl-C is for us, and we end the others in order.
        command.stdin(Stdio::null()).process_group(0);
        keeper.mark(&mut command);
        if let Some(log) = log {
            command.stderr(append(log).map_err(UpError::file(log))?);
            command.stdout(append(log).map_err(UpError::file(log))?);
        }
        if output == Output::Pipe {
            command.stdout(Stdio::piped());
        }
        let program = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(UpError::file(&program))?;
        keeper.watch(child.id());
        let log = log.map(Path::to_owned);
        Ok(Self { name: name.to_owned(), child, ended: None, log, keeper: Arc::clone(keeper) })
    }

    /// What it prints, if that was asked for.
    pub(crate) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
            self.keeper.forget(self.child.id());
        }
        self.ended
    }

    /// Waits for its end, but not for long. False if it goes on.
    pub(crate) fn wait(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.ended().is_none() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// Sends a signal to it and all it started.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none()
            && let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // It may have ended just now.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends it and all it started, at once.
    pub(crate) fn end(&mut self) {
        if self.ended().is_some() {
            return;
        }
        end_group(self.child.id());
        self.ended = self.child.wait().ok();
        self.keeper.forget(self.child.id());
    }

    /// An error about it, with the end of its log.
    pub(crate) fn failure(&self, what: impl Into<String>) -> UpError {
        let log = self.log.as_deref().map(tail).unwrap_or_default();
        UpError::Process { who: self.name.clone(), what: what.into(), log }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command without what the caller's environment says about other nodes.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("ATOLL_") || name_text == "RUST_LOG" {
            command.env_remove(&name);
        }
    }
    command
}

/// How a process ended, in words.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn append(log: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log)
}

/// The last lines of a file, indented.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    last.iter().map(|line| format!("  {line}\n")).collect()
}

const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOG_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A keeper that needs no second program.
    fn keeper() -> Arc<Keeper> {
        Arc::new(Keeper::none())
    }

    fn shell(script: &str) -> Command {
        let mut command = command(Path::new("/bin/sh"));
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn an_error_shows_the_end_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = "for n in 1 2 3 4 5 6 7 8 9; do echo line $n >&2; done; exit 3";
        let mut process =
            Process::start(shell(script), "island 1", Some(&log), Output::Log, &keeper()).unwrap();
        assert!(process.wait(Duration::from_secs(60)));
        let status = process.ended().unwrap();
        let error = process.failure(describe(status)).to_string();
        assert!(error.starts_with("island 1 ended with exit code 3\n  line 2\n"), "{error}");
        assert!(error.contains("line 9\nhint: "), "{error}");
    }

    #[test]
    fn what_a_process_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = "sleep 600 & echo $! >&2; wait";
        let process =
            Process::start(shell(script), "parent", Some(&log), Output::Log, &keeper()).unwrap();
        let child = loop {
            if let Ok(child) = fs::read_to_string(&log).unwrap().trim().parse::<i32>() {
                break child;
            }
            std::thread::yield_now();
        };
        drop(process);
        // Whoever adopted it reaps it in its own time; until then it is dead but listed.
        let state = || {
            let text = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
            text.rsplit_once(") ")?.1.chars().next()
        };
        while !matches!(state(), None | Some('Z')) {
            std::thread::yield_now();
        }
    }
}
