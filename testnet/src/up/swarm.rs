//! A bootstrap and its nodes: real processes, each with a home of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use super::client::Client;
use super::error::UpError;
use super::happening::{self, Weight};
use super::options::{GENERATED, Options};
use super::process::{self, Output, Process, describe};
use super::site::{Site, text_of, words};
use super::stage::Stage;
use super::watcher::{self, News};

/// The processes of a swarm. Dropped, they are ended.
#[derive(Debug)]
pub(super) struct Swarm {
    islands: Vec<Island>,
    /// Before it no node leaves in an orderly way, so it goes last.
    _bootstrap: Process,
    news: Receiver<(usize, News)>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Island {
    process: Process,
    client: Client,
    /// Whether its end was noticed.
    ended: bool,
}

impl Swarm {
    /// Starts everything: the bootstrap, the node that makes the run, and those that join it.
    pub(super) fn start(
        site: &Site,
        options: &Options,
        genesis: &str,
        stage: &mut Stage,
    ) -> Result<Self, UpError> {
        stage.begin("starting the bootstrap")?;
        let (bootstrap, address) = start_bootstrap(site, stage)?;
        stage.begin("starting the islands")?;
        let file = site.folder.join("genesis.toml");
        std::fs::write(&file, genesis).map_err(UpError::file(&file))?;
        let home = home(site, 0);
        let new = words([&"new", &"--genesis", &file, &"--home", &home, &"--bootstrap", &address]);
        let ticket = site.atoll(stage, "atoll new", &new, NEW_WITHIN)?;
        let (sender, news) = sync_channel(NEWS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let mut swarm = Self { islands: Vec::new(), _bootstrap: bootstrap, news, stop };
        swarm.add(site, options, words([&"run"]), &sender)?;
        // Who joins needs somebody to join.
        swarm.wait_for_first(stage)?;
        for _ in 1..options.islands {
            swarm.add(site, options, words([&"join", &ticket.trim()]), &sender)?;
        }
        Ok(swarm)
    }

    /// Hands what nodes told to the recording; tells it of nodes that ended by themselves.
    pub(super) fn look(&mut self, stage: &mut Stage) {
        let at = stage.at();
        while let Ok((island, news)) = self.news.try_recv() {
            record(stage, at, island, news);
        }
        for (index, island) in self.islands.iter_mut().enumerate() {
            if !island.ended
                && let Some(status) = island.process.ended()
            {
                island.ended = true;
                let words = describe(status);
                stage.recording.note(at, Some(index), words.clone(), Weight::Wrong);
                stage.recording.islands[index].ended = Some(words);
            }
        }
        stage.recording.frame(at);
    }

    /// Fails if a node has ended that should have gone on.
    pub(super) fn check(&mut self) -> Result<(), UpError> {
        for island in &mut self.islands {
            if let Some(status) = island.process.ended() {
                return Err(island.process.failure(describe(status)));
            }
        }
        Ok(())
    }

    /// Whether nobody is left.
    pub(super) fn is_over(&self) -> bool {
        self.islands.iter().all(|island| island.ended)
    }

    /// Stops training everywhere. False if a node does not hear it.
    pub(super) fn quiesce(&self) -> bool {
        let heard: Vec<bool> = self.islands.iter().map(|it| it.client.command("quiesce")).collect();
        heard.into_iter().all(|heard| heard)
    }

    /// Lets all nodes leave, and ends those that do not.
    pub(super) fn leave(mut self, stage: &mut Stage) -> Result<(), UpError> {
        let until = Instant::now() + LEAVE_WITHIN;
        for island in &self.islands {
            // One that does not hear is ended below.
            island.client.command("leave");
        }
        while Instant::now() < until && !self.islands.iter_mut().all(Island::is_gone) {
            stage.turn()?;
        }
        for (index, island) in self.islands.iter_mut().enumerate() {
            if !island.is_gone() {
                let at = stage.at();
                let words = "did not leave in time and was ended";
                stage.recording.note(at, Some(index), words, Weight::Wrong);
                island.process.end();
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + LAST_NEWS_WITHIN;
        while Instant::now() < until {
            match self.news.try_recv() {
                Ok((island, news)) => record(stage, stage.at(), island, news),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => drop(stage.turn()?),
            }
        }
        Ok(())
    }

    /// The folder of the run in the home of island `index`.
    pub(super) fn run_folder(&self, index: usize) -> Option<PathBuf> {
        self.islands.get(index)?.client.run_folder()
    }

    fn add(
        &mut self,
        site: &Site,
        options: &Options,
        first: Vec<OsString>,
        sender: &SyncSender<(usize, News)>,
    ) -> Result<(), UpError> {
        let index = self.islands.len();
        let (name, home) = (happening::island(index), home(site, index));
        let mut command = process::command(&site.binaries.atoll);
        command.args(first).arg("--home").arg(&home).args(FLAGS);
        if options.speed(index) < 1.0 {
            command.args(["--effort", &options.speed(index).to_string()]);
        }
        if options.data != GENERATED {
            command.arg("--data").arg(std::path::absolute(&options.data)?);
        }
        let log = site.log(&name);
        let process = Process::start(command, &name, Some(&log), Output::Log, &site.keeper)?;
        let client = Client::new(&home);
        watcher::watch(index, client.clone(), sender.clone(), self.stop.clone());
        self.islands.push(Island { process, client, ended: false });
        Ok(())
    }

    fn wait_for_first(&mut self, stage: &mut Stage) -> Result<(), UpError> {
        let until = Instant::now() + FIRST_WITHIN;
        while stage.recording.statuses().next().is_none() {
            self.look(stage);
            self.check()?;
            if Instant::now() >= until {
                let what = format!("said nothing within {} s", FIRST_WITHIN.as_secs());
                return Err(self.islands[0].process.failure(what));
            }
            stage.turn()?;
        }
        Ok(())
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Island {
    fn is_gone(&mut self) -> bool {
        self.process.ended().is_some()
    }
}

fn record(stage: &mut Stage, at: f64, island: usize, news: News) {
    match news {
        News::Status(status) => stage.recording.status(at, island, *status),
        News::Event(event) => stage.recording.event(at, island, &event),
    }
}

fn home(site: &Site, index: usize) -> PathBuf {
    site.folder.join(happening::island(index).replace(' ', "-"))
}

/// Starts the bootstrap and waits for where it is.
fn start_bootstrap(site: &Site, stage: &mut Stage) -> Result<(Process, String), UpError> {
    let mut command = process::command(&site.binaries.bootstrap);
    let key = text_of(&site.folder.join("bootstrap.key"));
    command.args(["--listen", LISTEN, "--http", HTTP, "--key", &key]);
    let log = site.log("bootstrap");
    let mut process = Process::start(command, "bootstrap", Some(&log), Output::Pipe, &site.keeper)?;
    let addresses = process.output().map(addresses);
    let until = Instant::now() + BOOTSTRAP_WITHIN;
    loop {
        if let Some(Ok(address)) = addresses.as_ref().map(Receiver::try_recv) {
            return Ok((process, address));
        }
        if let Some(status) = process.ended() {
            return Err(process.failure(describe(status)));
        }
        if Instant::now() >= until {
            let what = format!("named no address within {} s", BOOTSTRAP_WITHIN.as_secs());
            return Err(process.failure(what));
        }
        stage.turn()?;
    }
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

/// Everything stays on this machine, on ports that are free.
const LISTEN: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
const HTTP: &str = "127.0.0.1:0";
/// How every island is started.
const FLAGS: [&str; 12] = [
    "--listen",
    LISTEN,
    "--http",
    HTTP,
    "--mdns",
    "false",
    "--upnp",
    "false",
    "--threads",
    "1",
    "--evaluate-every",
    "3",
];
const BOOTSTRAP_WITHIN: Duration = Duration::from_secs(20);
const NEW_WITHIN: Duration = Duration::from_secs(30);
const FIRST_WITHIN: Duration = Duration::from_secs(60);
/// A node saves and says goodbye in less than two seconds, if the machine lets it.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);
const LAST_NEWS_WITHIN: Duration = Duration::from_secs(3);
/// News that wait to be looked at.
const NEWS_MAX: usize = 4096;
