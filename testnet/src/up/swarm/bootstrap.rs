//! Where nodes meet.

use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use crate::up::error::UpError;
use crate::up::network::Place;
use crate::up::process::{self, Output, Process, describe};
use crate::up::site::{Site, text_of};
use crate::up::stage::Stage;

/// Where nodes meet: a process that can go and come back.
#[derive(Debug)]
pub(super) struct Bootstrap {
    process: Process,
    /// Where it is, with its name.
    address: String,
    lost: bool,
}

impl Bootstrap {
    /// Starts it and waits for where it is.
    pub(super) fn start(site: &Site, place: &Place, stage: &mut Stage) -> Result<Self, UpError> {
        let mut process = begin(site, place, &place.listen())?;
        let addresses = process.output().map(addresses);
        let until = Instant::now() + WITHIN;
        loop {
            if let Some(Ok(address)) = addresses.as_ref().map(Receiver::try_recv) {
                return Ok(Self { process, address, lost: false });
            }
            if let Some(status) = process.ended() {
                return Err(process.failure(describe(status)));
            }
            if Instant::now() >= until {
                let what = format!("named no address within {} s", WITHIN.as_secs());
                return Err(process.failure(what));
            }
            stage.turn()?;
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Kills it.
    pub(super) fn lose(&mut self) {
        self.process.end();
        self.lost = true;
    }

    /// Starts it again, with the key and at the address it had: tickets name both.
    pub(super) fn restore(&mut self, site: &Site, place: &Place) -> Result<(), UpError> {
        let (listen, _) = self.address.split_once("/p2p/").unwrap_or((&self.address, ""));
        self.process = begin(site, place, listen)?;
        // Nobody waits for what it prints, but a full pipe would hold it up.
        drop(self.process.output().map(addresses));
        self.lost = false;
        Ok(())
    }
}

fn begin(site: &Site, place: &Place, listen: &str) -> Result<Process, UpError> {
    let mut command = process::command(&site.binaries.bootstrap);
    let key = text_of(&site.folder.join("bootstrap.key"));
    command.args(["--listen", listen, "--http", HTTP, "--key", &key]);
    let log = site.log("bootstrap");
    place.within(|| Process::start(command, "bootstrap", Some(&log), Output::Pipe, &site.keeper))?
}

/// The lines that a process prints, read until it ends: a full pipe would hold it up.
fn addresses(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.contains("/p2p/") {
                // The first one is enough.
                let _ = sender.try_send(line.trim().to_owned());
            }
        }
    });
    lines
}

/// Any port that is free.
pub(super) const HTTP: &str = "127.0.0.1:0";
const WITHIN: Duration = Duration::from_secs(20);
