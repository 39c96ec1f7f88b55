//! A bootstrap and its nodes: real processes, each with a home of its own.

mod bootstrap;
mod island;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use super::chaos::Deed;
use super::error::UpError;
use super::happening::{self, Weight};
use super::liar::{Liar, Means};
use super::network::Network;
use super::options::Options;
use super::process::describe;
use super::recording::{Presence, SeenLiar};
use super::site::{Site, words};
use super::stage::Stage;
use super::watcher::{self, News};
use bootstrap::Bootstrap;
use island::Island;

/// The processes of a swarm. Dropped, they are ended.
#[derive(Debug)]
pub(super) struct Swarm<'a> {
    site: &'a Site,
    options: &'a Options,
    network: Network,
    islands: Vec<Island>,
    liars: Vec<Liar>,
    /// Before it no node leaves in an orderly way, so it goes last.
    bootstrap: Bootstrap,
    ticket: String,
    /// Flags of every node.
    flags: Vec<String>,
    sender: SyncSender<(usize, News)>,
    news: Receiver<(usize, News)>,
    stop: Arc<AtomicBool>,
    /// Islands whose link is thin.
    throttled: BTreeSet<usize>,
}

impl<'a> Swarm<'a> {
    /// Starts everything: the bootstrap, the node that makes the run, and those that join it.
    pub(super) fn start(
        site: &'a Site,
        options: &'a Options,
        genesis: &str,
        network: Network,
        stage: &mut Stage,
    ) -> Result<Self, UpError> {
        stage.begin("starting the bootstrap")?;
        let bootstrap = Bootstrap::start(site, &network.middle(), stage)?;
        stage.begin("starting the islands")?;
        let file = site.folder.join("genesis.toml");
        std::fs::write(&file, genesis).map_err(UpError::file(&file))?;
        let home = Island::home(site, 0);
        let address = bootstrap.address();
        let new = words([&"new", &"--genesis", &file, &"--home", &home, &"--bootstrap", &address]);
        let ticket = site.atoll(stage, "atoll new", &new, NEW_WITHIN)?.trim().to_owned();
        let (sender, news) = sync_channel(NEWS_MAX);
        let mut flags: Vec<String> = FLAGS.iter().map(|it| (*it).to_owned()).collect();
        flags.extend(network.flags());
        flags.extend(options.data_flags()?);
        let mut swarm = Self {
            site,
            options,
            network,
            islands: Vec::new(),
            liars: Vec::new(),
            bootstrap,
            ticket,
            flags,
            sender,
            news,
            stop: Arc::new(AtomicBool::new(false)),
            throttled: BTreeSet::new(),
        };
        swarm.come(0, stage)?;
        // Who joins needs somebody to join.
        swarm.wait_for_first(stage)?;
        for index in 1..options.islands {
            swarm.come(index, stage)?;
        }
        if let Some(words) = swarm.network.words() {
            stage.recording.note(stage.at(), None, words, Weight::Notable);
        }
        Ok(swarm)
    }

    /// How links are made, in words; none where there are none.
    pub(super) fn network_words(&self) -> Option<String> {
        self.network.words()
    }

    /// Hands what nodes told to the recording; tells it of nodes that ended by themselves.
    pub(super) fn look(&mut self, stage: &mut Stage) -> Result<(), UpError> {
        let at = stage.at();
        while let Ok((island, news)) = self.news.try_recv() {
            record(stage, at, island, news);
        }
        for index in 0..self.islands.len() {
            let island = &mut self.islands[index];
            island.tend();
            if island.is_due() {
                self.come(index, stage)?;
                continue;
            }
            let Some(status) = island.ended() else { continue };
            let seen = &stage.recording.islands[index].presence;
            if !matches!(seen, Presence::Away | Presence::Left | Presence::Ended(_)) {
                let words = describe(status);
                stage.recording.note(at, Some(index), words.clone(), Weight::Wrong);
                stage.recording.turns(at, index, Presence::Ended(words));
            }
        }
        let means = Means { site: self.site, flags: &self.flags, ticket: &self.ticket };
        for liar in &mut self.liars {
            liar.tend(means, &mut self.network, stage)?;
        }
        stage.recording.frame(at);
        Ok(())
    }

    /// Fails if a node has ended that should have gone on.
    pub(super) fn check(&mut self) -> Result<(), UpError> {
        self.islands.iter_mut().try_for_each(Island::check)
    }

    /// Does something to the swarm on purpose.
    pub(super) fn suffer(&mut self, deed: &Deed, stage: &mut Stage) -> Result<(), UpError> {
        let at = stage.at();
        stage.recording.inflict(at, deed);
        match deed {
            Deed::Kill(index) => self.part(*index, stage, Presence::Away, Island::kill),
            Deed::Freeze(index) => self.part(*index, stage, Presence::Frozen, Island::freeze),
            Deed::Thaw(index) => self.part(*index, stage, Presence::Here, Island::thaw),
            Deed::Leave(index) => self.part(*index, stage, Presence::Left, Island::leave),
            Deed::Restart(index) => self.part(*index, stage, Presence::Away, Island::restart),
            Deed::Revive(index) | Deed::Return(index) | Deed::Join(index) => {
                self.come(*index, stage)?;
            }
            Deed::Partition(side) => self.network.partition(side)?,
            Deed::Heal => self.network.heal()?,
            Deed::Throttle(index, rate) => {
                self.throttled.insert(*index);
                self.network.throttle(*index, Some(*rate))?;
            }
            Deed::Unthrottle(index) => {
                self.throttled.remove(index);
                self.network.throttle(*index, None)?;
            }
            Deed::Lie => self.lie(stage)?,
            Deed::LoseBootstrap => self.bootstrap.lose(),
            Deed::RestoreBootstrap => self.bootstrap.restore(self.site, &self.network.middle())?,
        }
        Ok(())
    }

    /// Takes back everything that was done: all islands that have not left are there again.
    pub(super) fn calm(&mut self, stage: &mut Stage) -> Result<(), UpError> {
        self.liars.clear();
        if self.bootstrap.is_lost() {
            self.suffer(&Deed::RestoreBootstrap, stage)?;
        }
        if self.network.is_parted() {
            self.suffer(&Deed::Heal, stage)?;
        }
        for index in std::mem::take(&mut self.throttled) {
            self.suffer(&Deed::Unthrottle(index), stage)?;
        }
        for index in 0..self.islands.len() {
            match stage.recording.islands[index].presence {
                Presence::Frozen => self.suffer(&Deed::Thaw(index), stage)?,
                Presence::Away if !self.islands[index].comes_back() => {
                    self.suffer(&Deed::Revive(index), stage)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells every island to step no more that has not heard it yet.
    pub(super) fn quiesce(&mut self) {
        self.islands.iter_mut().for_each(Island::quiesce);
    }

    /// Whether no island steps any more.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.islands.iter_mut().all(Island::is_quiet)
    }

    /// Lets all nodes leave, and ends those that do not.
    pub(super) fn leave(mut self, stage: &mut Stage) -> Result<(), UpError> {
        let until = Instant::now() + LEAVE_WITHIN;
        self.islands.iter_mut().for_each(Island::leave);
        while Instant::now() < until && !self.islands.iter_mut().all(|it| it.ended().is_some()) {
            self.islands.iter_mut().for_each(Island::tend);
            stage.turn()?;
        }
        for (index, island) in self.islands.iter_mut().enumerate() {
            if island.ended().is_none() {
                let at = stage.at();
                let words = "did not leave in time and was ended";
                stage.recording.note(at, Some(index), words, Weight::Wrong);
                island.kill();
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        // Without this one the channel closes with the last watcher.
        let (sender, _) = sync_channel(1);
        drop(std::mem::replace(&mut self.sender, sender));
        let until = Instant::now() + LAST_NEWS_WITHIN;
        while Instant::now() < until {
            match self.news.try_recv() {
                Ok((island, news)) => record(stage, stage.at(), island, news),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => stage.turn()?,
            }
        }
        Ok(())
    }

    /// The folder of the run in the home of island `index`.
    pub(super) fn run_folder(&self, index: usize) -> Option<PathBuf> {
        self.islands.get(index)?.client.run_folder()
    }

    /// Starts an island for the first time, or again; one that is still ending comes when it has.
    fn come(&mut self, index: usize, stage: &mut Stage) -> Result<(), UpError> {
        if let Some(island) = self.islands.get_mut(index)
            && island.ended().is_none()
        {
            island.come_back();
            stage.recording.turns(stage.at(), index, Presence::Away);
            return Ok(());
        }
        let place = self.network.place(index)?;
        let mut flags = self.flags.clone();
        if self.options.speed(index) < 1.0 {
            flags.extend(["--effort".into(), self.options.speed(index).to_string()]);
        }
        // The first one has the run already; who was there before has it, too.
        let known = self.islands.get(index).is_some_and(|it| it.client.run_folder().is_some());
        let ticket = if index == 0 || known { None } else { Some(self.ticket.as_str()) };
        let (name, home) = (happening::island(index), Island::home(self.site, index));
        let process = self.site.node(&name, &home, &place, ticket, &flags)?;
        if let Some(island) = self.islands.get_mut(index) {
            island.begin_again(process);
        } else {
            let island = Island::new(process, &home, place);
            let (client, sender) = (island.client.clone(), self.sender.clone());
            watcher::watch(index, client, sender, self.stop.clone());
            self.islands.push(island);
        }
        stage.recording.turns(stage.at(), index, Presence::Here);
        Ok(())
    }

    /// Does something to an island that is then no longer there, or is again.
    fn part(&mut self, index: usize, stage: &mut Stage, now: Presence, act: fn(&mut Island)) {
        if let Some(island) = self.islands.get_mut(index) {
            act(island);
            stage.recording.turns(stage.at(), index, now);
        }
    }

    fn lie(&mut self, stage: &mut Stage) -> Result<(), UpError> {
        let index = stage.recording.liars.len();
        // Hosts behind those of the islands.
        let first = MEMBERS_MAX - 2 * (index + 1);
        let means = Means { site: self.site, flags: &self.flags, ticket: &self.ticket };
        let liar = Liar::start(index, [first, first + 1], means, &mut self.network)?;
        self.liars.push(liar);
        stage.recording.liars.push(SeenLiar::new(stage.at()));
        Ok(())
    }

    fn wait_for_first(&mut self, stage: &mut Stage) -> Result<(), UpError> {
        let until = Instant::now() + FIRST_WITHIN;
        while stage.recording.statuses().next().is_none() {
            self.look(stage)?;
            self.check()?;
            if Instant::now() >= until {
                return Err(self.islands[0].silent(FIRST_WITHIN));
            }
            stage.turn()?;
        }
        Ok(())
    }
}

impl Drop for Swarm<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn record(stage: &mut Stage, at: f64, island: usize, news: News) {
    match news {
        News::Status(status) => stage.recording.status(at, island, *status),
        News::Event(event) => stage.recording.event(at, island, &event),
    }
}

/// How every node is started. Everything stays on this machine, on ports that are free.
const FLAGS: [&str; 10] = [
    "--http",
    bootstrap::HTTP,
    "--mdns",
    "false",
    "--upnp",
    "false",
    "--threads",
    "1",
    "--evaluate-every",
    "3",
];
const NEW_WITHIN: Duration = Duration::from_secs(30);
const FIRST_WITHIN: Duration = Duration::from_secs(60);
/// A node saves and says goodbye in less than two seconds, if the machine lets it.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);
const LAST_NEWS_WITHIN: Duration = Duration::from_secs(3);
/// News that wait to be looked at.
const NEWS_MAX: usize = 4096;
/// More than there are islands, and fewer than a hub has ports.
const MEMBERS_MAX: usize = 240;
