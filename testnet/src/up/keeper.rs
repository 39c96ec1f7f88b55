//! A second process that ends what the first one started, should the first one be killed.
//!
//! Destructors do not run after `kill -9`. The keeper reads from a pipe; when that closes, whatever
//! the reason, it ends what is left and removes the folder. What is left it knows by a mark in the
//! environment of every process of the swarm: a process that was started in the very moment in
//! which the first one died carries it, too, though nobody could tell the keeper of it.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::error::UpError;

/// The way to the keeper. Dropped, it lets the keeper do its work and end.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// What every process of this swarm has in its environment.
    mark: String,
    pipe: Mutex<Option<ChildStdin>>,
    child: Option<Child>,
}

impl Keeper {
    /// Starts the keeper, which also removes `folder` in the end.
    pub(crate) fn start(folder: Option<&Path>) -> Result<Self, UpError> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(&program)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A swarm that was started by another one is not the other one's keeper.
            .env_remove(VARIABLE)
            // Out of reach of the terminal's Ctrl-C.
            .process_group(0)
            .spawn()
            .map_err(UpError::file(&program))?;
        let pipe = Mutex::new(child.stdin.take());
        let keeper = Self { mark: new_mark(), pipe, child: Some(child) };
        keeper.tell(&format!("mark {}", keeper.mark));
        if let Some(folder) = folder.and_then(Path::to_str) {
            keeper.tell(&format!("folder {folder}"));
        }
        Ok(keeper)
    }

    /// Nobody: for tests, whose program cannot be a keeper.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { mark: new_mark(), pipe: Mutex::new(None), child: None }
    }

    /// Makes a process of this swarm known by its environment, before it starts.
    pub(super) fn mark(&self, command: &mut Command) {
        command.env(VARIABLE, &self.mark);
    }

    /// There is a process, which leads a group of its own.
    pub(super) fn watch(&self, process: u32) {
        self.tell(&format!("begun {process}"));
    }

    /// It has ended and was waited for: its number may be somebody else's from now on.
    pub(super) fn forget(&self, process: u32) {
        self.tell(&format!("ended {process}"));
    }

    /// A keeper that is gone cannot keep; the destructors still do.
    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            let _ = writeln!(pipe, "{line}").and_then(|()| pipe.flush());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        let _ = self.child.take().map(|mut child| child.wait());
    }
}

/// What the keeper's process does: returns when `input` has ended and nothing is left.
pub(crate) fn keep(input: impl BufRead) {
    let mut duty = Duty::default();
    for line in input.lines().map_while(Result::ok) {
        duty.hear(&line);
    }
    duty.end_processes();
    if let Some(folder) = duty.folder {
        // Whoever was ended just now may still write for a moment.
        for _ in 0..REMOVALS {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(MOMENT);
                }
                _ => return,
            }
        }
    }
}

/// Ends all processes of a group at once.
pub(super) fn end_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// What the keeper has to see to.
#[derive(Debug, Default)]
struct Duty {
    mark: Option<String>,
    /// Leaders of groups, for systems that do not show a process's environment.
    processes: BTreeSet<u32>,
    folder: Option<PathBuf>,
}

impl Duty {
    fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("mark", mark)) => self.mark = Some(mark.to_owned()),
            Some(("begun", process)) => self.processes.extend(process.parse::<u32>()),
            Some(("ended", process)) => {
                let ended = process.parse::<u32>();
                self.processes.retain(|process| Ok(*process) != ended);
            }
            Some(("folder", folder)) => self.folder = Some(folder.into()),
            _ => {}
        }
    }

    /// Ends everything that carries the mark, until nothing does: one look may miss what is being
    /// started just then.
    fn end_processes(&self) {
        let marked = self.mark.as_deref().filter(|_| Path::new("/proc/self/environ").exists());
        let Some(mark) = marked else {
            self.processes.iter().for_each(|process| end_group(*process));
            return;
        };
        let until = Instant::now() + END_WITHIN;
        let mut empty = 0;
        while empty < EMPTY_LOOKS && Instant::now() < until {
            let left = marked_processes(mark);
            empty = if left.is_empty() { empty + 1 } else { 0 };
            for process in left {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(MOMENT);
        }
    }
}

/// Processes whose environment holds the mark. One that is dead shows none.
fn marked_processes(mark: &str) -> Vec<Pid> {
    let wanted = format!("{VARIABLE}={mark}");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|it| it == wanted.as_bytes())
    });
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    marked.filter_map(number).filter_map(Pid::from_raw).collect()
}

/// A mark that no other swarm has.
fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{time}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The hidden command that makes a process a keeper.
pub(crate) const COMMAND: &str = "keep";
/// Where every process of a swarm has its mark.
const VARIABLE: &str = "TESTNET_SWARM";
/// Looks in a row that must find nobody.
const EMPTY_LOOKS: u32 = 3;
const END_WITHIN: Duration = Duration::from_secs(10);
const REMOVALS: u32 = 50;
const MOMENT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_left_alone() {
        let mut duty = Duty::default();
        for line in ["begun 10", "begun 11", "ended 10", "nonsense", "begun x", "folder /a b"] {
            duty.hear(line);
        }
        assert_eq!(duty.processes, BTreeSet::from([11]));
        assert_eq!(duty.folder, Some("/a b".into()));
    }

    #[test]
    fn a_closed_pipe_ends_the_rest_and_removes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("swarm");
        std::fs::create_dir(&inside).unwrap();
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let input = format!("folder {}\nbegun {}\n", inside.display(), child.id());
        keep(input.as_bytes());
        assert!(!child.wait().unwrap().success());
        assert!(!inside.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_the_keeper_was_not_told_of_is_ended() {
        let (ours, theirs) = (Keeper::none(), Keeper::none());
        let start = |keeper: &Keeper| {
            let mut command = Command::new("sleep");
            keeper.mark(&mut command);
            command.arg("600").spawn().unwrap()
        };
        let (mut child, mut other) = (start(&ours), start(&theirs));
        keep(format!("mark {}\n", ours.mark).as_bytes());
        assert!(!child.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "that of another swarm goes on");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
