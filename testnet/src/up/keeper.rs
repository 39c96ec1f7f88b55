//! A second process that ends what the first one started, should the first one be killed.
//!
//! Destructors do not run after `kill -9`. The keeper reads from a pipe which processes there
//! are; when the pipe closes, whatever the reason, it ends those that are left and removes the
//! folder.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::UpError;

/// The way to the keeper. Dropped, it lets the keeper do its work and end.
#[derive(Debug)]
pub(crate) struct Keeper {
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
            // Out of reach of the terminal's Ctrl-C.
            .process_group(0)
            .spawn()
            .map_err(UpError::file(&program))?;
        let keeper = Self { pipe: Mutex::new(child.stdin.take()), child: Some(child) };
        if let Some(folder) = folder.and_then(Path::to_str) {
            keeper.tell(&format!("folder {folder}"));
        }
        Ok(keeper)
    }

    /// Nobody: for tests, whose program cannot be a keeper.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { pipe: Mutex::new(None), child: None }
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
    for process in &duty.processes {
        end_group(*process);
    }
    if let Some(folder) = duty.folder {
        // Whoever was ended just now may still write for a moment.
        for _ in 0..REMOVALS {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(BETWEEN_REMOVALS);
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
    processes: BTreeSet<u32>,
    folder: Option<PathBuf>,
}

impl Duty {
    fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("begun", process)) => self.processes.extend(process.parse::<u32>()),
            Some(("ended", process)) => {
                let ended = process.parse::<u32>();
                self.processes.retain(|process| Ok(*process) != ended);
            }
            Some(("folder", folder)) => self.folder = Some(folder.into()),
            _ => {}
        }
    }
}

/// The hidden command that makes a process a keeper.
pub(crate) const COMMAND: &str = "keep";
const REMOVALS: u32 = 50;
const BETWEEN_REMOVALS: std::time::Duration = std::time::Duration::from_millis(20);

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
}
