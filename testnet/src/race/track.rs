//! Where everybody races: the hosts, their links, and what went over them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::options::Options;
use crate::links::{self, Host, Hub, Quality, Wants};
use crate::plan::Link;
use crate::up::UpError;
use crate::up::binaries::{self, Binaries};
use crate::up::interrupt::Interrupt;
use crate::up::keeper::Keeper;
use crate::up::process::{Output, Process};

/// The hosts, the programs, and who ends them. Dropped, nothing is left.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) folder: PathBuf,
    pub(super) binaries: Binaries,
    pub(super) interrupt: Interrupt,
    hosts: Vec<Host>,
    keeper: Arc<Keeper>,
    // Last, so that the folder is still there for whoever is ended before.
    _hub: Hub,
    _temporary: Option<TempDir>,
}

impl Track {
    /// A host for each island. May begin the whole program again, in a network of its own; that
    /// comes back here.
    pub(super) fn open(options: &Options) -> Result<Self, UpError> {
        let interrupt = Interrupt::listen();
        if !links::is_inside() {
            // In there is no way to the world, should something have to be fetched for a build.
            let keeper = Arc::new(Keeper::start(None)?);
            let folder = Binaries::find(&keeper, &interrupt)?.folder();
            drop(keeper);
            let wants = Wants { holder: false };
            let Err(why) = links::enter(wants, &[(binaries::VARIABLE, &folder)]);
            return Err(UpError::usage(
                format!("a race needs network namespaces, which there are none of here: {why}"),
                "run it as root or allow user namespaces, with iproute2 and util-linux",
            ));
        }
        let mut hub = Hub::new().map_err(UpError::Links)?;
        let perfect = Quality::default();
        let hosts: Result<Vec<Host>, String> =
            (0..options.islands).map(|_| hub.plug(&perfect)).collect();
        let hosts = hosts.map_err(UpError::Links)?;
        hosts.iter().try_for_each(Host::use_cubic).map_err(UpError::Links)?;
        let temporary = tempfile::Builder::new().prefix("atoll-race-").tempdir()?;
        let (folder, temporary) = match options.keep {
            true => (temporary.keep(), None),
            false => (temporary.path().to_owned(), Some(temporary)),
        };
        let removed = temporary.as_ref().map(TempDir::path);
        let keeper = Arc::new(Keeper::start(removed)?);
        let binaries = Binaries::find(&keeper, &interrupt)?;
        Ok(Self { folder, binaries, interrupt, hosts, keeper, _hub: hub, _temporary: temporary })
    }

    /// Gives every link this many bits in a second each way; none is as fast as the machine.
    pub(super) fn limit(&self, rate: Option<f64>) -> Result<(), UpError> {
        let rate = rate.map(|rate| Link { up: rate, down: rate });
        self.hosts.iter().try_for_each(|host| host.limit(rate)).map_err(UpError::Links)
    }

    /// Where host `index` is found.
    pub(super) fn address(&self, index: usize) -> Ipv4Addr {
        self.hosts[index].address()
    }

    /// Starts a process on host `index`, or on the hub.
    pub(super) fn start(
        &self,
        index: Option<usize>,
        command: Command,
        name: &str,
        output: Output,
    ) -> Result<Process, UpError> {
        let log = self.folder.join(format!("{}.log", name.replace(' ', "-")));
        let start = || Process::start(command, name, Some(&log), output, &self.keeper);
        match index {
            Some(index) => self.hosts[index].within(start).map_err(UpError::Links)?,
            None => start(),
        }
    }

    /// Bytes that all hosts have sent so far, headers and all.
    pub(super) fn bytes(&self) -> Result<u64, UpError> {
        let path = PathBuf::from("/proc/thread-self/net/dev");
        let text = fs::read_to_string(&path).map_err(UpError::file(&path))?;
        Ok(self.hosts.iter().filter_map(|host| received(&text, &port(host))).sum())
    }
}

/// The hub's end of a host's cable: what it receives is what the host sends.
fn port(host: &Host) -> String {
    let [.., number] = host.address().octets();
    format!("p{number}")
}

/// Bytes that a device has received, from what `/proc/net/dev` says.
fn received(text: &str, device: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive\n face |bytes\n   p11: 7 1 0\n    p1: 1234 5 0 0 99 3\n";
        assert_eq!(received(text, "p1"), Some(1234));
        assert_eq!(received(text, "p11"), Some(7));
        assert_eq!(received(text, "p2"), None);
    }
}
