//! Atoll's side of a race: a bootstrap and real nodes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use super::options::{Options, Trouble};
use super::rivals::SLOW;
use super::track::Track;
use crate::links::Hub;
use crate::up::UpError;
use crate::up::process::{self, Output, Process, describe};

/// A swarm. Dropped, all of it is ended.
#[derive(Debug)]
pub(super) struct Nodes<'t> {
    track: &'t Track,
    home: PathBuf,
    ticket: String,
    step_ms: Vec<u64>,
    islands: Vec<Process>,
    /// Nodes leave before it.
    _bootstrap: Process,
}

impl<'t> Nodes<'t> {
    /// Starts everything; the clock of whoever calls runs meanwhile.
    pub(super) fn start(
        track: &'t Track,
        options: &Options,
        trouble: Trouble,
        number: usize,
    ) -> Result<Self, UpError> {
        let home = track.folder.join(format!("swarm-{number}"));
        fs::create_dir_all(&home).map_err(UpError::file(&home))?;
        let (bootstrap, address) = bootstrap(track, &home)?;
        let mut new = process::command(&track.binaries.atoll);
        new.arg("new").arg("--genesis").arg(track.folder.join(super::GENESIS));
        new.arg("--home").arg(home.join("island-0")).args(["--bootstrap", &address]);
        let ticket = run_to_end(track, new)?;
        let count = usize::from(options.islands);
        let slow = |island: usize| trouble == Trouble::Slow && island + 1 == count;
        let step_ms = (0..count)
            .map(|island| if slow(island) { SLOW * options.step_ms } else { options.step_ms })
            .collect();
        let islands = Vec::new();
        let mut nodes = Self { track, home, ticket, step_ms, islands, _bootstrap: bootstrap };
        nodes.come(0)?;
        nodes.wait_for_first()?;
        for island in 1..count {
            nodes.come(island)?;
        }
        Ok(nodes)
    }

    /// Starts an island, for the first time or again.
    fn come(&mut self, island: usize) -> Result<(), UpError> {
        let home = self.home.join(format!("island-{island}"));
        let mut command = process::command(&self.track.binaries.atoll);
        // The first has the run already, and so has who was there before.
        match run_folder(&home) {
            Some(_) => command.arg("run"),
            None => command.args(["join", &self.ticket]),
        };
        let listen = format!("/ip4/{}/udp/0/quic-v1", self.track.address(island));
        command.arg("--home").arg(&home).args(["--listen", &listen]).args(FLAGS);
        command.args(["--step-ms", &self.step_ms[island].to_string()]);
        let name = format!("island {island}");
        let process = self.track.start(Some(island), command, &name, Output::Log)?;
        match self.islands.get_mut(island) {
            Some(place) => *place = process,
            None => self.islands.push(process),
        }
        Ok(())
    }

    /// Kills the last island.
    pub(super) fn kill_last(&mut self) {
        if let Some(last) = self.islands.last_mut() {
            last.end();
        }
    }

    /// Starts the last island again.
    pub(super) fn come_back(&mut self) -> Result<(), UpError> {
        self.come(self.islands.len().saturating_sub(1))
    }

    /// The folder of the run on the first island, which nothing is ever done to.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        run_folder(&self.home.join("island-0"))
    }

    /// Fails if the first island has ended.
    pub(super) fn check(&mut self) -> Result<(), UpError> {
        self.track.interrupt.check()?;
        let Some(first) = self.islands.first_mut() else { return Ok(()) };
        match first.ended() {
            Some(status) => Err(first.failure(describe(status))),
            None => Ok(()),
        }
    }

    /// Who joins needs somebody to join.
    fn wait_for_first(&mut self) -> Result<(), UpError> {
        let until = Instant::now() + WITHIN;
        while !self.folder().is_some_and(|it| it.join("status.json").is_file()) {
            self.check()?;
            if Instant::now() >= until {
                return Err(self.islands[0].failure("said nothing"));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// The folder of the only run in a home.
fn run_folder(home: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(home.join("runs")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir())
}

/// Starts the bootstrap, and gives where it is.
fn bootstrap(track: &Track, home: &Path) -> Result<(Process, String), UpError> {
    let mut command = process::command(&track.binaries.bootstrap);
    let listen = format!("/ip4/{}/udp/0/quic-v1", Hub::address());
    command.args(["--listen", &listen, "--http", HTTP, "--key"]).arg(home.join("bootstrap.key"));
    let mut process = track.start(None, command, "bootstrap", Output::Pipe)?;
    let (sender, addresses) = sync_channel(1);
    if let Some(output) = process.output() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains("/p2p/") {
                    // The first one is enough, but a full pipe would hold the process up.
                    let _ = sender.try_send(line.trim().to_owned());
                }
            }
        });
    }
    match addresses.recv_timeout(WITHIN) {
        Ok(address) => Ok((process, address)),
        Err(_) => Err(process.failure("named no address")),
    }
}

/// Runs a command to its end and gives what it printed.
fn run_to_end(track: &Track, command: std::process::Command) -> Result<String, UpError> {
    let mut process = track.start(None, command, "atoll new", Output::Pipe)?;
    let mut text = String::new();
    if let Some(mut output) = process.output() {
        output.read_to_string(&mut text)?;
    }
    match process.wait(WITHIN) {
        true if process.ended().is_some_and(|it| it.success()) => Ok(text.trim().to_owned()),
        _ => Err(process.failure("made no run")),
    }
}

const HTTP: &str = "127.0.0.1:0";
/// The held-out loss is measured outside, so that it takes nobody's time.
const FLAGS: [&str; 10] = [
    "--http",
    HTTP,
    "--mdns",
    "false",
    "--upnp",
    "false",
    "--threads",
    "1",
    "--evaluate-every",
    "0",
];
const WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
