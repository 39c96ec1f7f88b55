//! One machine on the hub: a network namespace with one cable.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::quality::bits;
use super::tools::run;
use crate::plan::Link;

/// One machine on the hub. The namespace lives as long as this or a process in it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(super) namespace: File,
    pub(super) address: Ipv4Addr,
    /// The hub's end of the cable.
    pub(super) port: String,
    /// Whether the kernel holds packets back there: then the limit goes behind that.
    pub(super) netem: bool,
}

impl Host {
    /// Where others find it.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Does something on a thread that is on this host: processes and sockets that it makes belong
    /// here for good.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, String> {
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                self.move_in()?;
                Ok(act())
            });
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the thread that calls onto this host, for good.
    pub(super) fn move_in(&self) -> Result<(), String> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("the namespace of {}: {error}", self.address))
    }

    /// Makes its TCP what it is on most machines. Some have a default that keeps sending what a
    /// full queue drops, and then gets less out of a thin link.
    pub(crate) fn use_cubic(&self) -> Result<(), String> {
        // A kernel without it keeps what it has.
        self.within(|| drop(std::fs::write(CONGESTION_CONTROL, "cubic")))
    }

    /// Limits what it sends and what it receives; none takes the limit back.
    pub(crate) fn limit(&self, rate: Option<Link>) -> Result<(), String> {
        self.within(|| shape(DEVICE, "root", rate.map(|it| it.up)))??;
        let place = if self.netem { BEHIND_NETEM } else { "root" };
        shape(&self.port, place, rate.map(|it| it.down))
    }
}

/// Limits what a device sends, at this place among its queues.
fn shape(device: &str, place: &str, rate: Option<f64>) -> Result<(), String> {
    let Some(rate) = rate else {
        // There may be no limit to take back.
        let _ = run(&format!("tc qdisc delete dev {device} {place}"));
        return Ok(());
    };
    let (rate, burst) = (bits(rate), burst_bytes(rate));
    run(&format!(
        "tc qdisc replace dev {device} {place} tbf rate {rate} burst {burst} latency {LATENCY}"
    ))
}

/// Ten milliseconds' worth, and at least a few packets: less slows fast links down, more lets
/// slow ones burst.
fn burst_bytes(rate: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is at most 40 gbit"
    )]
    let bytes = (rate / 8.0 / 100.0) as u64;
    bytes.max(16 * 1024)
}

/// Tells and sets how TCP of the caller's namespace reacts to full queues.
const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The host's end of its cable.
pub(super) const DEVICE: &str = "eth0";
/// Where the kernel's netem, of which there is at most one, hands packets on.
const BEHIND_NETEM: &str = "parent 1:1";
/// How long a packet may wait for its turn before it is dropped, as in a router.
const LATENCY: &str = "200ms";
