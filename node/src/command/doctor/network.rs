//! The network: who answers, who reaches this node and how, and what time they have.

use std::time::Duration;

use atoll_node::config::Config;
use atoll_node::observe::status::{How, NatKind, Network, YesNo};
use atoll_node::units::{bytes, span};

use super::Findings;
use super::check::Check;
use crate::command::needs::Needs;

pub(super) fn checks(network: &Network, ways: &[How]) -> Vec<Check> {
    vec![
        clock(network),
        bootstrap(network, ways),
        peers(ways),
        reachability(network, ways),
        nat(network),
        relay(network),
    ]
}

/// How long a newcomer, or this node if it has to begin again, would take to have the model.
pub(super) fn join(config: &Config, findings: &Findings) -> Check {
    let Some(genesis) = &findings.genesis else {
        let hint = "it takes a peer to tell the run's size";
        return Check::warn("join", "not known how much there is to fetch", hint);
    };
    let snapshot = Needs::new(genesis).snapshot;
    let cap = config.max_download.map(|rate| rate.bytes());
    let (rate, whence) = match (findings.rate, cap) {
        (Some(rate), Some(cap)) if rate > cap as f64 => (cap as f64, "as --max-download allows"),
        (Some(rate), _) => (rate, "as measured of late"),
        (None, Some(cap)) => (cap as f64, "as --max-download allows, nothing was measured"),
        (None, None) => (NOMINAL, "supposed, nothing was measured"),
    };
    let time =
        Duration::try_from_secs_f64(snapshot as f64 / rate.max(1.0)).unwrap_or(Duration::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of bytes is not negative, and saturates"
    )]
    let rate = bytes(rate as u64);
    let time = span(time + Duration::from_secs(JOIN_SECONDS));
    Check::ok("join", format!("about {time} for {} at {rate}/s, {whence}", bytes(snapshot)))
}

fn clock(network: &Network) -> Check {
    let Some(clock) = network.clock else {
        return Check::warn("clock", "no peer told its time", "compare it with another machine");
    };
    let off = Duration::from_millis(clock.skew_ms.unsigned_abs());
    let which = if clock.skew_ms > 0 { "behind" } else { "ahead of" };
    let whose = match clock.peers {
        1 => "one peer, which may be wrong itself".to_owned(),
        peers => format!("the median of {peers} peers"),
    };
    if off < CLOCK_OFF {
        return Check::ok("clock", format!("within {} s of {whose}", off.as_secs() + 1));
    }
    let hint = "let the system set it: timedatectl set-ntp true";
    Check::warn("clock", format!("{} {which} {whose}", span(off)), hint)
}

fn bootstrap(network: &Network, ways: &[How]) -> Check {
    let all = &network.bootstraps;
    let silent: Vec<&str> =
        all.iter().filter(|it| !it.connected).map(|it| it.address.as_str()).collect();
    if all.is_empty() {
        return Check::ok("bootstrap", "none is named; peers are found without one");
    }
    if silent.is_empty() {
        return Check::ok("bootstrap", format!("{} of {} answer", all.len(), all.len()));
    }
    let finding = format!("{} of {} do not answer: {}", silent.len(), all.len(), silent.join(" "));
    let hint = "is it running, is the address right, is UDP let out of this network?";
    if silent.len() < all.len() || !ways.is_empty() {
        Check::warn("bootstrap", finding, format!("{hint} Peers are there all the same"))
    } else {
        Check::fail("bootstrap", finding, hint)
    }
}

fn peers(ways: &[How]) -> Check {
    if ways.is_empty() {
        let hint = "is another node running, and does the ticket lead to it?";
        return Check::warn("peers", "nobody else is connected", hint);
    }
    let count = |way| ways.iter().filter(|it| **it == way).count();
    Check::ok(
        "peers",
        format!(
            "{} direct, {} hole-punched, {} relayed",
            count(How::Direct),
            count(How::HolePunched),
            count(How::Relayed)
        ),
    )
}

fn reachability(network: &Network, ways: &[How]) -> Check {
    let (name, punched) = ("reachability", ways.contains(&How::HolePunched));
    match network.reachable {
        YesNo::Yes => Check::ok(name, "others reach this node directly: a dial-back got through"),
        _ if punched => Check::ok(name, "not directly, but hole punching works"),
        YesNo::No if !network.relays.is_empty() => {
            let finding = "no dial-back gets through; others come through a relay";
            Check::warn(name, finding, OPEN_PORT)
        }
        YesNo::No if ways.is_empty() => Check::fail(name, "nobody reaches this node", OPEN_PORT),
        YesNo::No => Check::warn(name, "this node can only call others", OPEN_PORT),
        YesNo::Unknown => {
            let hint = "it takes a bootstrap, or a peer outside; ask again in a minute";
            Check::warn(name, "not known: nobody outside has dialled back", hint)
        }
    }
}

fn nat(network: &Network) -> Check {
    let nat = &network.nat;
    let observers = match nat.observers {
        1 => "one observer".to_owned(),
        observers => format!("{observers} observers"),
    };
    let seen = nat.observed.join(" ");
    match nat.kind {
        NatKind::None => Check::ok("nat", format!("none: {observers} see this node as it is")),
        NatKind::Cone => {
            let kept = if nat.observers == 1 { ", which kept its port: likely" } else { "" };
            Check::ok("nat", format!("cone: {observers}{kept} at {seen}; holes can be punched"))
        }
        NatKind::Symmetric => Check::warn(
            "nat",
            format!("symmetric: {observers} see different ports ({seen}); only relays help"),
            OPEN_PORT,
        ),
        NatKind::Unknown if network.reachable == YesNo::Yes => {
            Check::ok("nat", "not known, and it does not matter: others reach this node")
        }
        NatKind::Unknown => {
            let finding = match nat.observers {
                0 => "not known: nobody outside has seen this node over QUIC".to_owned(),
                _ => format!("not known: {observers} at {seen}"),
            };
            Check::warn("nat", finding, "two bootstraps, or more peers, can tell")
        }
    }
}

fn relay(network: &Network) -> Check {
    match (&network.relays[..], network.reachable) {
        ([], YesNo::Yes) => Check::ok("relay", "none in use, none is needed"),
        ([], _) if network.bootstraps.iter().any(|it| it.connected && it.relay) => {
            Check::warn("relay", "none in use yet", "ask again in a minute")
        }
        ([], _) => {
            let hint = "a bootstrap that relays lets others come here";
            Check::warn("relay", "none in use, and nobody offers one", hint)
        }
        (relays, _) => Check::ok("relay", format!("in use: {}", relays.join(" "))),
    }
}

const OPEN_PORT: &str = "open a UDP port in the router, listen on it with --listen, and name the \
                         address outside with --external; or allow UPnP";
/// A clock that is further off confuses whoever reads logs of several machines.
const CLOCK_OFF: Duration = Duration::from_secs(30);
/// Bytes per second of an ordinary line: 20 Mbit/s.
const NOMINAL: f64 = 2.5e6;
/// Finding peers, and hearing from them where they stand.
const JOIN_SECONDS: u64 = 3;

#[cfg(test)]
mod tests {
    use atoll_node::observe::status::{Bootstrap, ClockSkew, Nat};

    use super::super::check::Verdict;
    use super::*;

    fn verdicts(network: &Network, ways: &[How]) -> Vec<(&'static str, Verdict)> {
        checks(network, ways).into_iter().map(|check| (check.check, check.verdict)).collect()
    }

    #[test]
    fn a_node_in_the_open_is_well() {
        let network = Network {
            reachable: YesNo::Yes,
            nat: Nat { kind: NatKind::None, observers: 2, observed: Vec::new() },
            bootstraps: vec![Bootstrap { connected: true, ..Bootstrap::default() }],
            clock: Some(ClockSkew { skew_ms: -900, peers: 3 }),
            relays: Vec::new(),
        };
        let verdicts = verdicts(&network, &[How::Direct]);
        assert!(verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Ok), "{verdicts:?}");
    }

    #[test]
    fn a_node_that_nobody_answers_fails() {
        let network = Network {
            bootstraps: vec![Bootstrap { address: "/dns/x".into(), ..Bootstrap::default() }],
            ..Network::default()
        };
        let alone = verdicts(&network, &[]);
        assert!(alone.contains(&("bootstrap", Verdict::Fail)), "{alone:?}");
        assert!(alone.contains(&("clock", Verdict::Warn)), "{alone:?}");
        // Whoever has peers needs no bootstrap.
        let together = verdicts(&network, &[How::Direct]);
        assert!(together.iter().all(|(_, verdict)| *verdict != Verdict::Fail), "{together:?}");
    }

    #[test]
    fn a_clock_off_by_hours_is_told() {
        let network = |skew_ms| Network {
            clock: Some(ClockSkew { skew_ms, peers: 2 }),
            ..Network::default()
        };
        assert_eq!(clock(&network(-2_000)).finding, "within 3 s of the median of 2 peers");
        let late = clock(&network(2 * 3_600_000));
        assert_eq!(late.finding, "2 h 0 min behind the median of 2 peers");
        assert_eq!(late.verdict, Verdict::Warn);
    }
}
