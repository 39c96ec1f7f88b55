//! Every bound, with its reason; those of the relay in docs/decisions/0006-relay-limits.md.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use libp2p::connection_limits::ConnectionLimits;
use libp2p::multiaddr::{Multiaddr, Protocol};
use libp2p::{relay, rendezvous};

use crate::cli::Settings;

/// A connection without a reservation, a circuit or a request is closed after this long.
pub const IDLE: Duration = Duration::from_secs(60);
/// Addresses of one peer that are passed on to others.
pub const ADDRESSES_PER_PEER_MAX: usize = 16;
/// From this much memory of its own on, the server refuses new connections.
pub const MEMORY_BYTES_MAX: usize = 1 << 30;

/// Payloads and snapshots fit through, and nobody gets the relay for himself. The last four say
/// how many may be asked for at once, and how many seconds bring one more.
pub fn relay(settings: &Settings) -> relay::Config {
    let seconds = Duration::from_secs;
    let count = |count| NonZeroU32::new(count).expect("a literal above zero");
    relay::Config {
        // The rest of the connections stays free for nodes that only want to meet.
        max_reservations: settings.max_connections.div_ceil(4) as usize * 3,
        // The library lets one more pass than these two say.
        max_reservations_per_peer: 2 - 1,
        max_circuits_per_peer: 16 - 1,
        reservation_duration: seconds(60 * 60),
        max_circuits: settings.relay_max_circuits as usize,
        max_circuit_duration: seconds(2 * 60 * 60),
        max_circuit_bytes: settings.relay_bytes,
        reservation_rate_limiters: Vec::new(),
        circuit_src_rate_limiters: Vec::new(),
    }
    .reservation_rate_per_peer(count(30), seconds(30))
    .reservation_rate_per_ip(count(256), seconds(5))
    .circuit_src_per_peer(count(64), seconds(10))
    .circuit_src_per_ip(count(512), seconds(2))
}

/// A run of a thousand nodes registers, with room for others; a cookie remembers up to all of them.
pub fn rendezvous() -> rendezvous::server::Config {
    rendezvous::server::Config::default()
        .with_min_ttl(60)
        // The library keeps what a node registers again until the first ends: ends come soon.
        .with_max_ttl(rendezvous::DEFAULT_TTL)
        .with_max_registration_per_peer(8)
        .with_max_registration_total(4096)
        .with_max_stored_cookies(1024)
}

/// Connections in all and with one peer.
pub fn connections(settings: &Settings) -> ConnectionLimits {
    ConnectionLimits::default()
        .with_max_established(Some(settings.max_connections))
        .with_max_established_per_peer(Some(8))
        .with_max_pending_incoming(Some(128))
        .with_max_pending_outgoing(Some(64))
}

/// Whether `address` is worth passing on; on loopback only where whoever claims it is there.
pub fn dialable(address: &Multiaddr, on_loopback: bool, private: bool) -> bool {
    match ip_of(address) {
        None => !matches!(address.iter().next(), None | Some(Protocol::P2pCircuit)),
        Some(ip) if ip.is_unspecified() || ip.is_multicast() => false,
        Some(ip) if ip.is_loopback() => on_loopback,
        Some(IpAddr::V4(ip)) => {
            let shared = u32::from(ip) >> 22 == 0x191; // 100.64.0.0/10, a provider's own
            private || !(ip.is_private() || ip.is_link_local() || shared)
        }
        // A link-local IPv6 address means nothing without its interface.
        Some(IpAddr::V6(ip)) => !ip.is_unicast_link_local() && (private || !ip.is_unique_local()),
    }
}

/// The IP address that stands for all who share it; one customer has an IPv6 /64 at least.
pub fn network_of(address: &Multiaddr) -> IpAddr {
    match ip_of(address).unwrap_or(Ipv4Addr::UNSPECIFIED.into()) {
        IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// The IP address of the host, unless that is a name.
pub fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// What each network has asked in this minute. Keys are free, so limits for each peer stop nobody.
/// A node asks a few times in a minute, and a hundred may start together behind one address.
#[derive(Debug, Default)]
pub struct Asked(Option<Instant>, BTreeMap<IpAddr, usize>);

impl Asked {
    /// Adds what a request costs. False: this was too much, and so is all until the minute ends.
    pub fn add(&mut self, network: IpAddr, cost: usize, now: Instant) -> bool {
        if self.0.is_none_or(|began| now - began >= Duration::from_secs(60)) {
            *self = Self(Some(now), BTreeMap::new());
        }
        let asked = self.1.entry(network).or_default();
        *asked = asked.saturating_add(cost);
        *asked <= 4096
    }
}
