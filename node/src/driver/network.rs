//! What the network module knows, as people are shown it.

use std::time::Duration;

use crate::net::{self, NetStatus, PeerStatus, Reachability, Way};
use crate::observe::status::{
    Bootstrap, ClockSkew, How, Nat, NatKind, Network, Reachable, Warning, YesNo,
};
use crate::units::span;

/// What the network module knows, as people are shown it.
pub fn network(net: &NetStatus) -> Network {
    Network {
        reachable: match net.reachability {
            Reachability::Public => YesNo::Yes,
            Reachability::Private => YesNo::No,
            Reachability::Unknown => YesNo::Unknown,
        },
        nat: Nat {
            kind: match net.nat.kind {
                net::Nat::Unknown => NatKind::Unknown,
                net::Nat::None => NatKind::None,
                net::Nat::Cone => NatKind::Cone,
                net::Nat::Symmetric => NatKind::Symmetric,
            },
            observers: u32::try_from(net.nat.observers).unwrap_or(u32::MAX),
            observed: net.nat.observed.iter().map(ToString::to_string).collect(),
        },
        relays: net.relays.clone(),
        bootstraps: net.bootstraps.iter().map(bootstrap).collect(),
        clock: net.clock.map(|clock| ClockSkew {
            skew_ms: clock.ms,
            peers: u32::try_from(clock.peers).unwrap_or(u32::MAX),
        }),
    }
}

/// How a peer is connected.
pub fn how(peer: &PeerStatus) -> How {
    match peer.way {
        Way::Direct => How::Direct,
        Way::HolePunched => How::HolePunched,
        Way::Relayed => How::Relayed,
    }
}

/// Whether others can begin a connection to this node, and by which way.
pub(super) fn reachable(net: &NetStatus) -> Reachable {
    let punched = net.peers.iter().any(|peer| peer.way == Way::HolePunched);
    let how = match net.reachability {
        Reachability::Public => Some(How::Direct),
        _ if punched => Some(How::HolePunched),
        _ if !net.relays.is_empty() => Some(How::Relayed),
        _ => None,
    };
    let answer = match (net.reachability, how) {
        (_, Some(_)) => YesNo::Yes,
        (Reachability::Private, None) => YesNo::No,
        _ => YesNo::Unknown,
    };
    Reachable { answer, how }
}

/// A clock that is so far off that log lines mislead. Nothing else depends on it: rounds go by the
/// time that passes.
pub(super) fn clock_warning(net: &NetStatus) -> Option<Warning> {
    let skew = net.clock.filter(|skew| skew.ms.unsigned_abs() >= CLOCK_OFF_MS)?;
    let off = span(Duration::from_millis(skew.ms.unsigned_abs()));
    let which = if skew.ms > 0 { "behind" } else { "ahead of" };
    let peers = match skew.peers {
        1 => "that of the only peer that told its time".to_owned(),
        peers => format!("the median of those of {peers} peers"),
    };
    Some(Warning {
        message: format!("this machine's clock is {off} {which} {peers}"),
        hint: "let the system set it: timedatectl set-ntp true; training goes on meanwhile".into(),
    })
}

fn bootstrap(bootstrap: &net::BootstrapStatus) -> Bootstrap {
    let net::BootstrapStatus { address, connected, relay, .. } = bootstrap.clone();
    Bootstrap { address, connected, relay }
}

/// More than people misread in a log.
const CLOCK_OFF_MS: u64 = 5 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Skew;

    #[test]
    fn a_clock_that_is_off_by_hours_is_told() {
        let warned = |ms, peers| {
            clock_warning(&NetStatus { clock: Some(Skew { ms, peers }), ..NetStatus::default() })
        };
        assert_eq!(clock_warning(&NetStatus::default()), None);
        assert_eq!(warned(-30_000, 4), None);
        let message = warned(3 * 3_600_000, 4).unwrap().message;
        assert!(message.contains("behind the median of those of 4 peers"), "{message}");
        let message = warned(-3 * 3_600_000, 1).unwrap().message;
        assert!(message.contains("ahead of that of the only peer"), "{message}");
    }
}
