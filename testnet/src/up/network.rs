//! What lies between the islands: the machine's own loopback, or links of their own.

use std::path::Path;
use std::sync::Arc;

use super::binaries::{self, Binaries};
use super::chaos::Plan;
use super::error::UpError;
use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::options::Options;
use crate::links::{self, Host, Hub, Quality, Wants};
use crate::plan::Link;

/// What lies between the islands.
#[derive(Debug)]
pub(super) enum Network {
    /// Loopback, as fast as the machine is.
    Loopback,
    /// Loopback; the nodes themselves keep to a rate.
    Limited {
        rate: Link,
        /// Why there is nothing better.
        why: String,
    },
    /// A namespace for each island.
    Hub { hub: Hub, quality: Quality, hosts: Vec<Option<Arc<Host>>> },
}

/// Where a process is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// On loopback.
    Here,
    /// On the hub.
    Hub,
    /// On a host of its own.
    Host(Arc<Host>),
}

impl Network {
    /// What the options and the plan need. May begin the whole program again, in a network of its
    /// own; that comes back here.
    pub(super) fn open(
        options: &Options,
        quality: Quality,
        plan: &Plan,
        interrupt: &Interrupt,
    ) -> Result<Self, UpError> {
        let cuts = plan.needs_links();
        if quality.is_perfect() && !cuts && !plan.gains_by_links() {
            return Ok(Self::Loopback);
        }
        if links::is_inside() {
            let hub = Hub::new().map_err(|why| cannot(options, &why))?;
            return Ok(Self::Hub { hub, quality, hosts: Vec::new() });
        }
        // In there is no way to the world, should something have to be fetched for a build.
        let folder = {
            let keeper = Arc::new(Keeper::start(None)?);
            Binaries::find(&keeper, interrupt)?.folder()
        };
        let wants = Wants { holder: quality.needs_holder() };
        let Err(why) = links::enter(wants, &[(binaries::VARIABLE, Path::new(&folder))]);
        match quality.rate {
            Some(rate) if !cuts && !quality.needs_holder() => Ok(Self::Limited { rate, why }),
            None if !cuts && !quality.needs_holder() => Ok(Self::Loopback),
            _ => Err(cannot(options, &why)),
        }
    }

    /// How links are made, in words; none where there are none.
    pub(super) fn words(&self) -> Option<String> {
        match self {
            Self::Loopback => None,
            Self::Limited { rate, why } => {
                let words = Quality { rate: Some(*rate), ..Quality::default() }.words();
                Some(format!(
                    "links of {words}, kept by the nodes themselves: no namespaces here ({why})"
                ))
            }
            Self::Hub { quality, .. } if quality.is_perfect() => {
                Some("links in network namespaces, as fast as the machine".into())
            }
            Self::Hub { hub, quality, .. } => {
                let limit = quality.rate.map(|_| "tbf").into_iter();
                let means: Vec<&str> = limit.chain(hub.holder_words()).collect();
                let (words, means) = (quality.words(), means.join(" and "));
                Some(format!("links of {words}, in network namespaces with {means}"))
            }
        }
    }

    /// Where the bootstrap is.
    pub(super) fn middle(&self) -> Place {
        match self {
            Self::Hub { .. } => Place::Hub,
            _ => Place::Here,
        }
    }

    /// Where island `index` is, the same each time.
    pub(super) fn place(&mut self, index: usize) -> Result<Place, UpError> {
        let Self::Hub { hub, quality, hosts } = self else { return Ok(Place::Here) };
        if hosts.len() <= index {
            hosts.resize(index + 1, None);
        }
        if let Some(host) = &hosts[index] {
            return Ok(Place::Host(Arc::clone(host)));
        }
        let host = Arc::new(hub.plug(quality).map_err(UpError::Links)?);
        hosts[index] = Some(Arc::clone(&host));
        Ok(Place::Host(host))
    }

    /// What nodes must be told to keep to.
    pub(super) fn flags(&self) -> Vec<String> {
        match self {
            Self::Limited { rate, .. } => vec![
                "--max-upload".into(),
                links::bits(rate.up),
                "--max-download".into(),
                links::bits(rate.down),
            ],
            _ => Vec::new(),
        }
    }

    /// Cuts these islands off from the others.
    pub(super) fn partition(&mut self, side: &[usize]) -> Result<(), UpError> {
        let Self::Hub { hub, hosts, .. } = self else { return Ok(()) };
        let side = side.iter().filter_map(|index| hosts.get(*index)?.as_deref());
        hub.partition(side).map_err(UpError::Links)
    }

    /// Whether islands can be cut off from each other.
    pub(super) fn can_part(&self) -> bool {
        matches!(self, Self::Hub { .. })
    }

    /// Whether some are.
    pub(super) fn is_parted(&self) -> bool {
        matches!(self, Self::Hub { hub, .. } if hub.is_parted())
    }

    /// Takes that back.
    pub(super) fn heal(&mut self) -> Result<(), UpError> {
        let Self::Hub { hub, hosts, .. } = self else { return Ok(()) };
        hub.heal(hosts.iter().flatten().map(AsRef::as_ref)).map_err(UpError::Links)
    }

    /// Gives an island another rate; none gives it the one that all have.
    pub(super) fn throttle(&mut self, index: usize, rate: Option<f64>) -> Result<(), UpError> {
        let Self::Hub { hosts, quality, .. } = self else { return Ok(()) };
        let Some(host) = hosts.get(index).and_then(Option::as_ref) else { return Ok(()) };
        let rate = rate.map(|rate| Link { up: rate, down: rate }).or(quality.rate);
        host.limit(rate).map_err(UpError::Links)
    }
}

impl Place {
    /// Where a node listens that is here.
    pub(super) fn listen(&self) -> String {
        let address = match self {
            Self::Here => "127.0.0.1".to_owned(),
            Self::Hub => Hub::address().to_string(),
            Self::Host(host) => host.address().to_string(),
        };
        format!("/ip4/{address}/udp/0/quic-v1")
    }

    /// Does something here: processes and connections that it makes are here, too.
    pub(super) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, UpError> {
        match self {
            Self::Here | Self::Hub => Ok(act()),
            Self::Host(host) => host.within(act).map_err(UpError::Links),
        }
    }
}

fn cannot(options: &Options, why: &str) -> UpError {
    let asked = match (&options.delay, &options.loss, &options.chaos) {
        (Some(delay), _, _) => format!("--delay {delay}"),
        (None, Some(loss), _) => format!("--loss {loss}"),
        (None, None, Some(chaos)) => format!("--chaos {chaos}"),
        (None, None, None) => "--link".to_owned(),
    };
    UpError::usage(
        format!("{asked} needs network namespaces, which there are none of here: {why}"),
        "run it as root or allow user namespaces, with iproute2, iptables and util-linux; --link \
         alone works without",
    )
}
