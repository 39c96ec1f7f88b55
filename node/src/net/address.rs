//! Addresses: what they say, and which are worth a try.

use std::net::{IpAddr, SocketAddr};

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};

use super::error::NetError;

/// Reads an address as people write it.
pub(super) fn parse(value: &str) -> Result<Multiaddr, NetError> {
    value.trim().parse().map_err(|error: libp2p::multiaddr::Error| NetError::Address {
        value: value.to_owned(),
        reason: error.to_string(),
    })
}

/// The peer that an address leads to, if it ends in one.
pub(super) fn peer_in(address: &Multiaddr) -> Option<PeerId> {
    match address.iter().last() {
        Some(Protocol::P2p(peer)) => Some(peer),
        _ => None,
    }
}

/// The address with the peer at its end.
pub(super) fn to_peer(address: &Multiaddr, peer: PeerId) -> Multiaddr {
    if peer_in(address) == Some(peer) {
        return address.clone();
    }
    address.clone().with(Protocol::P2p(peer))
}

/// Whether an address leads through a relay.
pub(super) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

/// Whether an address is a name that somebody has to be asked for.
pub(super) fn is_name(address: &Multiaddr) -> bool {
    address.iter().next().is_some_and(|part| {
        matches!(
            part,
            Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_)
        )
    })
}

/// An address to listen on at any port, with the port of one that was listened on before; none if
/// it names a port, or nothing of its kind was.
pub(super) fn with_port_of(any: &Multiaddr, before: &[Multiaddr]) -> Option<Multiaddr> {
    let kind = |address: &Multiaddr| match ip_of(address)? {
        ip if is_relayed(address) || ip.is_multicast() => None,
        ip => Some((ip.is_ipv4(), udp_of(address).is_some())),
    };
    let (0, wanted) = (port_of(any)?, kind(any)?) else { return None };
    let port = before.iter().filter(|it| kind(it) == Some(wanted)).find_map(port_of)?;
    let parts = any.iter().map(|part| match part {
        Protocol::Udp(_) => Protocol::Udp(port),
        Protocol::Tcp(_) => Protocol::Tcp(port),
        part => part,
    });
    Some(parts.collect())
}

/// Whether nobody listens on a TCP address. Asks for the port alone, because the transport would
/// share it with its like.
pub(super) fn is_free(address: &Multiaddr) -> bool {
    match (ip_of(address), port_of(address)) {
        (Some(ip), Some(port)) if udp_of(address).is_none() => {
            std::net::TcpListener::bind((ip, port)).is_ok()
        }
        _ => true,
    }
}

/// Whether it is worth dialling an address that a peer gave as its own, over a connection from
/// `seen`: addresses that only mean something on the peer's machine are not.
pub(super) fn is_worth_dialling(address: &Multiaddr, seen: &Multiaddr) -> bool {
    let carried = address.iter().any(|part| matches!(part, Protocol::Tcp(_) | Protocol::QuicV1));
    if !carried && !is_relayed(address) {
        return false;
    }
    match ip_of(address) {
        Some(ip) if ip.is_unspecified() || ip.is_multicast() || is_link_local(&ip) => false,
        Some(ip) if ip.is_loopback() => ip_of(seen).is_some_and(|seen| seen.is_loopback()),
        _ => true,
    }
}

/// Whether an address means the same everywhere.
pub(super) fn is_global(address: &Multiaddr) -> bool {
    match ip_of(address) {
        Some(IpAddr::V4(ip)) => {
            let shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(shared || ip.is_private() || ip.is_loopback() || ip.is_link_local())
        }
        Some(IpAddr::V6(ip)) => {
            !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local())
        }
        None => false,
    }
}

/// Where a QUIC address leads, without asking anybody for names.
pub(super) fn udp_of(address: &Multiaddr) -> Option<SocketAddr> {
    let port = address.iter().find_map(|part| match part {
        Protocol::Udp(port) => Some(port),
        _ => None,
    });
    Some(SocketAddr::new(ip_of(address)?, port?)).filter(|_| !is_relayed(address))
}

fn port_of(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| match part {
        Protocol::Udp(port) | Protocol::Tcp(port) => Some(port),
        _ => None,
    })
}

fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().find_map(|part| match part {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    })
}

/// Link-local addresses need the name of an interface, which differs from machine to machine.
fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_with_a_meaning_here_are_dialled() {
        let near: Multiaddr = "/ip4/127.0.0.1/udp/9/quic-v1".parse().unwrap();
        let far: Multiaddr = "/ip4/203.0.113.5/udp/9/quic-v1".parse().unwrap();
        assert!(is_worth_dialling(&near, &near));
        assert!(!is_worth_dialling(&near, &far));
        assert!(is_worth_dialling(&far, &near));
        for odd in ["/ip4/0.0.0.0/tcp/1", "/ip6/fe80::1/tcp/1", "/ip4/203.0.113.5", "/memory/5"] {
            assert!(!is_worth_dialling(&odd.parse().unwrap(), &far), "{odd}");
        }
    }

    #[test]
    fn a_restart_asks_for_the_ports_of_the_life_before() {
        let before = ["/ip4/127.0.0.1/tcp/7", "/ip4/127.0.0.1/udp/8/quic-v1", "/ip6/::1/tcp/9"]
            .map(|it| it.parse().unwrap());
        let again = |any: &str| Some(with_port_of(&any.parse().unwrap(), &before)?.to_string());
        assert_eq!(again("/ip4/0.0.0.0/tcp/0").as_deref(), Some("/ip4/0.0.0.0/tcp/7"));
        let quic = again("/ip4/0.0.0.0/udp/0/quic-v1");
        assert_eq!(quic.as_deref(), Some("/ip4/0.0.0.0/udp/8/quic-v1"));
        assert_eq!(again("/ip6/::/tcp/0").as_deref(), Some("/ip6/::/tcp/9"));
        assert_eq!(again("/ip6/::/udp/0/quic-v1"), None);
        assert_eq!(again("/ip4/0.0.0.0/tcp/5"), None);
    }

    #[test]
    fn the_last_peer_is_the_one_meant() {
        let (relay, peer) = (PeerId::random(), PeerId::random());
        let relayed: Multiaddr =
            format!("/ip4/203.0.113.5/tcp/1/p2p/{relay}/p2p-circuit/p2p/{peer}").parse().unwrap();
        assert_eq!(peer_in(&relayed), Some(peer));
        assert!(is_relayed(&relayed));
        assert_eq!(to_peer(&relayed, peer), relayed);
        assert!(parse("nonsense").is_err());
    }
}
