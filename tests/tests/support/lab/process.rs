//! A process on a host.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A process on a host; dropping it kills it.
pub(crate) struct Process {
    running: Arc<Running>,
}

impl Process {
    pub(super) fn new(running: Arc<Running>) -> Self {
        Self { running }
    }

    /// The process' id, which is the program's own: nothing stands between.
    pub(crate) fn id(&self) -> u32 {
        self.running.child.lock().unwrap().id()
    }

    /// Memory that it has now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    /// Ends it without a warning and waits until it is gone.
    pub(crate) fn kill9(&self) {
        self.running.kill();
    }

    /// Stops it where it stands.
    pub(crate) fn stop(&self) {
        self.running.signal(Signal::STOP);
    }

    /// Lets a stopped process go on.
    pub(crate) fn cont(&self) {
        self.running.signal(Signal::CONT);
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.running.signal(Signal::TERM);
    }

    /// How it ended, if it does before `timeout` is over.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() >= deadline {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.running.child.lock().unwrap().try_wait().unwrap()
    }

    /// What it has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        Running::read(&self.running.log)
    }

    /// What it has written to standard output so far.
    pub(crate) fn output(&self) -> String {
        Running::read(&self.running.output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.kill();
    }
}

/// What the lab keeps of a process.
pub(super) struct Running {
    title: String,
    child: Mutex<Child>,
    output: PathBuf,
    log: PathBuf,
}

impl Running {
    pub(super) fn start(
        title: String,
        command: &mut Command,
        output: PathBuf,
        log: PathBuf,
    ) -> Self {
        let child = Mutex::new(command.spawn().unwrap());
        Self { title, child, output, log }
    }

    /// Kills the process unless it has ended, and waits for it.
    pub(super) fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = child.kill();
        // Nothing survives this signal for long, except in a kernel that hangs.
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Its panics: one in a task ends neither the process nor, unless somebody looks, a test.
    pub(super) fn panics(&self) -> Vec<String> {
        let log = Self::read(&self.log);
        let panics = log.lines().filter(|line| line.contains(" panicked at "));
        panics.map(|line| format!("{}: {line}", self.title)).collect()
    }

    pub(super) fn print_tails(&self) {
        for file in [&self.output, &self.log] {
            let text = Self::read(file);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            if !tail.is_empty() {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                eprintln!("---- the end of {name}, {} lines", lines.len());
                for line in tail {
                    eprintln!("{}", line.chars().take(TAIL_COLUMNS).collect::<String>());
                }
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        let ended = child.try_wait().unwrap();
        assert_eq!(ended, None, "{} has ended and cannot be signalled", self.title);
        // It was not waited for, so the id is still its own.
        kill_process(Pid::from_child(&child), signal).unwrap();
    }

    fn read(file: &PathBuf) -> String {
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
    }
}

const TAIL_LINES: usize = 12;
/// What a line of a log shows: a ticket is much longer.
const TAIL_COLUMNS: usize = 240;
