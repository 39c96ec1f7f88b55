//! Somebody who signs two different things for one slot: two processes with one key.
//!
//! A program that does not lie is hard to make a liar of: a process that hears of something which
//! its own key has signed and it has not falls silent. So the twins must not hear each other until
//! both have signed. Where islands have links of their own, the liar first is one process that
//! takes part; then the swarm is parted for some seconds, with the process on one side and a copy
//! of it on the other, until both have signed for one slot. Elsewhere both join at once, and it is
//! a matter of luck who hears what first. Other lies are for the simulator.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::chaos::Deed;
use super::client::Client;
use super::error::UpError;
use super::happening::Weight;
use super::journal::Journal;
use super::network::{Network, Place};
use super::process::Process;
use super::site::Site;
use super::stage::Stage;

/// A liar. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Liar {
    /// Counted from 0.
    index: usize,
    /// Where its twins are on the network.
    hosts: [usize; 2],
    twins: Vec<Twin>,
    act: Act,
}

/// What all members of a swarm are started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means<'a> {
    pub(super) site: &'a Site,
    pub(super) flags: &'a [String],
    pub(super) ticket: &'a str,
}

/// How far a lie has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// One process takes part like any other.
    Honest,
    /// Both sign, and do not hear each other.
    Apart { since: Instant },
    /// Whoever looks can see it.
    Told,
}

/// One of the two processes.
#[derive(Debug)]
struct Twin {
    process: Process,
    client: Client,
    journal: Option<Journal>,
    /// Its key's name in the run.
    node: Option<String>,
    /// Rounds that it has contributed to.
    signed: BTreeSet<String>,
}

impl Liar {
    /// Starts the first process of liar `index`, on the first of two hosts.
    pub(super) fn start(
        index: usize,
        hosts: [usize; 2],
        means: Means<'_>,
        network: &mut Network,
    ) -> Result<Self, UpError> {
        let mut liar = Self { index, hosts, twins: Vec::new(), act: Act::Honest };
        liar.add_twin(Some(means.ticket), means, network)?;
        Ok(liar)
    }

    /// Does what comes next, if it is time to.
    pub(super) fn tend(
        &mut self,
        means: Means<'_>,
        network: &mut Network,
        stage: &mut Stage,
    ) -> Result<(), UpError> {
        self.twins.iter_mut().for_each(Twin::look);
        stage.recording.liars[self.index].node.clone_from(&self.twins[0].node);
        match self.act {
            Act::Honest if !network.can_part() && self.twins[0].node.is_some() => {
                self.join_twice(means, network, stage)
            }
            Act::Honest if !self.twins[0].signed.is_empty() && !network.is_parted() => {
                self.part(means, network, stage)
            }
            Act::Apart { since } if self.has_lied() || since.elapsed() >= APART_WITHIN => {
                self.act = Act::Told;
                stage.recording.inflict(stage.at(), &Deed::Heal);
                network.heal()
            }
            _ => Ok(()),
        }
    }

    /// A second process joins with the same key.
    fn join_twice(
        &mut self,
        means: Means<'_>,
        network: &mut Network,
        stage: &mut Stage,
    ) -> Result<(), UpError> {
        let [from, to] = self.homes(means.site);
        fs::create_dir_all(&to).map_err(UpError::file(&to))?;
        // Everything but the run, which it has to ask for.
        copy_files(&from, &to)?;
        self.add_twin(Some(means.ticket), means, network)?;
        self.act = Act::Told;
        self.note(stage, "is two from now on; the one who hears the other first falls silent");
        Ok(())
    }

    /// Parts the swarm, and goes on as one process on either side.
    fn part(
        &mut self,
        means: Means<'_>,
        network: &mut Network,
        stage: &mut Stage,
    ) -> Result<(), UpError> {
        let islands = 0..stage.recording.islands.len();
        let there = islands.filter(|index| stage.recording.islands[*index].live().is_some());
        let side: Vec<usize> = there.skip(1).step_by(2).collect();
        stage.recording.inflict(stage.at(), &Deed::Partition(side.clone()));
        network.partition(&[side.as_slice(), &self.hosts[..1]].concat())?;
        let [from, to] = self.homes(means.site);
        let first = &mut self.twins[0];
        first.process.signal(Signal::STOP);
        let copied = copy_all(&from, &to);
        first.process.signal(Signal::CONT);
        copied?;
        first.look();
        first.signed.clear();
        self.add_twin(None, means, network)?;
        // What it signed as one is no lie.
        self.twins[1].look();
        self.twins[1].signed.clear();
        self.act = Act::Apart { since: Instant::now() };
        self.note(stage, "is two from now on, one on either side");
        Ok(())
    }

    /// Whether both twins have signed for one slot.
    fn has_lied(&self) -> bool {
        matches!(&self.twins[..], [one, other] if !one.signed.is_disjoint(&other.signed))
    }

    fn add_twin(
        &mut self,
        ticket: Option<&str>,
        means: Means<'_>,
        network: &mut Network,
    ) -> Result<(), UpError> {
        let number = self.twins.len();
        let place = network.place(self.hosts[number])?;
        let name = format!("liar {}{}", self.index + 1, ["a", "b"][number]);
        let home = &self.homes(means.site)[number];
        let process = means.site.node(&name, home, &place, ticket, means.flags)?;
        self.twins.push(Twin::new(process, home, place));
        Ok(())
    }

    fn homes(&self, site: &Site) -> [PathBuf; 2] {
        ["a", "b"].map(|twin| site.folder.join(format!("liar-{}{twin}", self.index + 1)))
    }

    fn note(&self, stage: &mut Stage, words: &str) {
        let words = format!("liar {} {words}", self.index + 1);
        stage.recording.note(stage.at(), None, words, Weight::Inflicted);
    }
}

impl Twin {
    fn new(process: Process, home: &Path, place: Place) -> Self {
        let client = Client::new(home, place);
        Self { process, client, journal: None, node: None, signed: BTreeSet::new() }
    }

    /// Reads what its event log says.
    fn look(&mut self) {
        if self.journal.is_none() {
            self.journal = self.client.journal();
        }
        for event in self.journal.as_mut().map(Journal::news).unwrap_or_default() {
            match (event["event"].as_str(), event["node"].as_str(), event["round"].as_str()) {
                (Some("started"), Some(node), _) => self.node = Some(node.to_owned()),
                (Some("contributed"), _, Some(round)) => {
                    self.signed.insert(round.to_owned());
                }
                _ => {}
            }
        }
    }
}

/// Copies the files of a folder, but not its folders.
fn copy_files(from: &Path, to: &Path) -> Result<(), UpError> {
    let entries = fs::read_dir(from).map_err(UpError::file(from))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        if let Some(name) = path.file_name().filter(|name| *name != DOOR) {
            // Permissions are copied, too: nobody else may read a key.
            match fs::copy(&path, to.join(name)) {
                // A signal takes a moment, in which files may still come and go.
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(UpError::file(&path)(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Copies a folder and everything below.
fn copy_all(from: &Path, to: &Path) -> Result<(), UpError> {
    fs::create_dir_all(to).map_err(UpError::file(to))?;
    copy_files(from, to)?;
    let entries = fs::read_dir(from).map_err(UpError::file(from))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if let Some(name) = path.file_name() {
            copy_all(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Where a node says how it is spoken to, which is not true of its copy.
const DOOR: &str = "status.json";
/// How long the swarm stays parted for it at most.
const APART_WITHIN: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_everything_but_the_door() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(from.join("runs/1")).unwrap();
        for file in ["key", "runs/1/events.jsonl", "runs/1/status.json"] {
            fs::write(from.join(file), "x").unwrap();
        }
        copy_all(&from, &to).unwrap();
        assert!(to.join("key").exists() && to.join("runs/1/events.jsonl").exists());
        assert!(!to.join("runs/1/status.json").exists());
    }
}
