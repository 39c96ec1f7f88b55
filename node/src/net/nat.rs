//! What a router does with our port, as far as those outside can tell us.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// How the router between us and the outside picks the port that ours is seen as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nat {
    /// Too few have seen us.
    #[default]
    Unknown,
    /// There is none: we are seen at an address that is ours.
    None,
    /// One port for everybody: holes can be punched.
    Cone,
    /// Another port for every peer: only a relay helps.
    Symmetric,
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::None => "none",
            Self::Cone => "cone",
            Self::Symmetric => "symmetric",
        })
    }
}

/// What is known of the router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatStatus {
    /// How it picks ports.
    pub kind: Nat,
    /// Peers and bootstraps that said where they see us.
    pub observers: usize,
    /// Where they see us.
    pub observed: Vec<SocketAddr>,
}

/// Judges by who sees us where over connections that leave from the ports we listen on.
pub(super) fn judge(sights: &BTreeMap<SocketAddr, SocketAddr>, own: &[SocketAddr]) -> NatStatus {
    let mut observed: Vec<SocketAddr> = sights.values().copied().collect();
    observed.sort_unstable();
    observed.dedup();
    let is_own = |seen: &SocketAddr| own.iter().any(|own| own.ip() == seen.ip());
    let outside: Vec<SocketAddr> = observed.iter().copied().filter(|it| !is_own(it)).collect();
    // Whoever is next door sees us as we are and says nothing about the router.
    let observers = sights.values().filter(|it| !is_own(it)).count();
    let kind = match (outside.as_slice(), observers) {
        ([], _) if observed.is_empty() => Nat::Unknown,
        ([], _) => Nat::None,
        // One alone cannot tell, except that few symmetric ones keep a port.
        ([one], 1) if own.iter().any(|own| own.port() == one.port()) => Nat::Cone,
        (_, 1) => Nat::Unknown,
        ([_], _) => Nat::Cone,
        _ => Nat::Symmetric,
    };
    match kind {
        Nat::None => NatStatus { kind, observers: sights.len(), observed },
        _ => NatStatus { kind, observers, observed: outside },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(sights: &[(&str, &str)]) -> Nat {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let sights = sights.iter().map(|(by, at)| (address(by), address(at))).collect();
        judge(&sights, &[address("127.0.0.1:4001"), address("192.168.7.2:4001")]).kind
    }

    #[test]
    fn two_observers_tell_a_cone_from_a_symmetric_one() {
        let cone = [("1.1.1.1:9", "5.5.5.5:700"), ("2.2.2.2:9", "5.5.5.5:700")];
        assert_eq!(kind(&cone), Nat::Cone);
        let other_port = [("1.1.1.1:9", "5.5.5.5:700"), ("2.2.2.2:9", "5.5.5.5:701")];
        assert_eq!(kind(&other_port), Nat::Symmetric);
        let other_router = [("1.1.1.1:9", "5.5.5.5:700"), ("2.2.2.2:9", "6.5.5.5:700")];
        assert_eq!(kind(&other_router), Nat::Symmetric);
        // A neighbour does not count.
        let near = [("192.168.7.3:9", "192.168.7.2:4001"), ("2.2.2.2:9", "5.5.5.5:701")];
        assert_eq!(kind(&near), Nat::Unknown);
    }

    #[test]
    fn one_observer_tells_little() {
        assert_eq!(kind(&[]), Nat::Unknown);
        assert_eq!(kind(&[("1.1.1.1:9", "192.168.7.2:4001")]), Nat::None);
        assert_eq!(kind(&[("1.1.1.1:9", "5.5.5.5:4001")]), Nat::Cone);
        assert_eq!(kind(&[("1.1.1.1:9", "5.5.5.5:700")]), Nat::Unknown);
    }
}
