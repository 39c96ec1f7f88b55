//! One island's process and how it is spoken to.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::up::client::{Client, Telling, Word};
use crate::up::error::UpError;
use crate::up::happening;
use crate::up::network::Place;
use crate::up::process::{Process, describe};
use crate::up::site::Site;

/// One island's process and how it is spoken to.
#[derive(Debug)]
pub(super) struct Island {
    process: Process,
    pub(super) client: Client,
    /// Whether it is started again when it has ended.
    comes_back: bool,
    leaving: bool,
    /// Whether this process has said that it steps no more.
    quiet: bool,
    /// What it is being told.
    telling: Option<Telling>,
}

impl Island {
    pub(super) fn new(process: Process, home: &Path, place: Place) -> Self {
        let client = Client::new(home, place);
        Self { process, client, comes_back: false, leaving: false, quiet: false, telling: None }
    }

    /// The home of island `index`.
    pub(super) fn home(site: &Site, index: usize) -> PathBuf {
        site.folder.join(happening::island(index).replace(' ', "-"))
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

    /// Whether it is to be started again, and can be.
    pub(super) fn is_due(&mut self) -> bool {
        self.comes_back && self.ended().is_some()
    }

    /// Whether its process is ending and another one takes its place then.
    pub(super) fn comes_back(&self) -> bool {
        self.comes_back
    }

    /// Whether it steps no more, or is not there to step.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.quiet || self.leaving || self.ended().is_some()
    }

    /// Another process takes its place.
    pub(super) fn begin_again(&mut self, process: Process) {
        self.process = process;
        self.comes_back = false;
        self.leaving = false;
        self.quiet = false;
        self.telling = None;
    }

    /// It is started again as soon as it has ended: two processes cannot have one store.
    pub(super) fn come_back(&mut self) {
        self.comes_back = true;
    }

    /// Ends it at once. Whoever killed it decides whether it comes back.
    pub(super) fn kill(&mut self) {
        self.process.end();
        self.comes_back = false;
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

    /// Tells it to step no more, until it has heard that.
    pub(super) fn quiesce(&mut self) {
        if !self.is_quiet() && self.telling.is_none() {
            self.telling = Some(self.client.tell(Word::Quiesce));
        }
    }

    /// Lets it say goodbye.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
        if self.ended().is_none() {
            self.telling = Some(self.client.tell(Word::Leave));
        }
    }

    /// Looks at how it took what it was told.
    pub(super) fn tend(&mut self) {
        match self.telling.take_if(|it| it.is_over()).map(Telling::end) {
            Some((Word::Quiesce, heard)) => self.quiet = heard,
            // It ends in order all the same.
            Some((Word::Leave, false)) => self.process.signal(Signal::TERM),
            Some((Word::Leave, true)) | None => {}
        }
    }
}
