//! One island's process and how it is spoken to.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::up::client::Client;
use crate::up::error::UpError;
use crate::up::happening;
use crate::up::network::Place;
use crate::up::process::{self, Output, Process, describe};
use crate::up::site::Site;

/// One island's process and how it is spoken to.
#[derive(Debug)]
pub(super) struct Island {
    process: Process,
    pub(super) client: Client,
    /// Whether it is started again when it has ended.
    pub(super) comes_back: bool,
    leaving: bool,
}

impl Island {
    pub(super) fn new(process: Process, home: &Path, place: Place) -> Self {
        Self { process, client: Client::new(home, place), comes_back: false, leaving: false }
    }

    /// The home of island `index`.
    pub(super) fn home(site: &Site, index: usize) -> PathBuf {
        site.folder.join(happening::island(index).replace(' ', "-"))
    }

    /// Starts the process: it joins with a ticket, or goes on.
    pub(super) fn start(
        site: &Site,
        index: usize,
        place: &Place,
        ticket: Option<&str>,
        flags: &[String],
    ) -> Result<Process, UpError> {
        let name = happening::island(index);
        let mut command = process::command(&site.binaries.atoll);
        match ticket {
            Some(ticket) => command.args(["join", ticket]),
            None => command.arg("run"),
        };
        command.arg("--home").arg(Self::home(site, index));
        command.args(["--listen", &place.listen()]).args(flags);
        let log = site.log(&name);
        place.within(|| Process::start(command, &name, Some(&log), Output::Log, &site.keeper))?
    }

    /// How its process ended, once it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Fails if it has ended and should not have.
    pub(super) fn check(&mut self) -> Result<(), UpError> {
        match self.ended() {
            Some(status) if !self.comes_back && !self.leaving => {
                Err(self.process.failure(describe(status)))
            }
            _ => Ok(()),
        }
    }

    /// An error about one that says nothing.
    pub(super) fn silent(&self, within: Duration) -> UpError {
        self.process.failure(format!("said nothing within {} s", within.as_secs()))
    }

    /// Whether it has gone, or was told to.
    pub(super) fn is_leaving(&mut self) -> bool {
        self.leaving || self.ended().is_some()
    }

    /// Another process takes its place.
    pub(super) fn begin_again(&mut self, process: Process) {
        self.process = process;
        self.comes_back = false;
        self.leaving = false;
    }

    pub(super) fn kill(&mut self) {
        self.process.end();
    }

    pub(super) fn freeze(&mut self) {
        self.process.signal(Signal::STOP);
    }

    pub(super) fn thaw(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Lets it end in order, and start again.
    pub(super) fn restart(&mut self) {
        self.process.signal(Signal::TERM);
        self.comes_back = true;
    }

    /// Lets it say goodbye.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
        if self.process.ended().is_none() && !self.client.command("leave") {
            self.process.signal(Signal::TERM);
        }
    }
}
