//! Which addresses are passed on, and who has asked too much.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::time::{Duration, Instant};

use atoll_bootstrap::policy::{Asked, dialable, network_of};

#[test]
fn only_addresses_that_mean_something_elsewhere_are_passed_on() {
    let cases = [
        // Address, when private ones are passed on, when not.
        ("/ip4/203.0.113.5/tcp/1", true, true),
        ("/ip6/2001:db8::1/udp/1/quic-v1", true, true),
        ("/dns4/meet.example/tcp/1", true, true),
        ("/ip4/203.0.113.5/tcp/1/p2p-circuit", true, true),
        ("/ip4/10.1.2.3/tcp/1", true, false),
        ("/ip4/192.168.1.1/tcp/1", true, false),
        ("/ip4/169.254.1.1/tcp/1", true, false),
        ("/ip4/100.64.0.1/tcp/1", true, false),
        ("/ip4/100.127.255.255/tcp/1", true, false),
        ("/ip4/100.128.0.0/tcp/1", true, true),
        ("/ip6/fd00::1/tcp/1", true, false),
        ("/ip6/fe80::1/tcp/1", false, false),
        ("/ip4/0.0.0.0/tcp/1", false, false),
        ("/ip6/ff02::1/tcp/1", false, false),
        ("/p2p-circuit", false, false),
    ];
    for (text, with_private, without) in cases {
        let address = text.parse().unwrap();
        for on_loopback in [true, false] {
            assert_eq!(dialable(&address, on_loopback, true), with_private, "{text}");
            assert_eq!(dialable(&address, on_loopback, false), without, "{text}");
        }
    }
    for text in ["/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1"] {
        let address = text.parse().unwrap();
        assert!(dialable(&address, true, false) && !dialable(&address, false, true), "{text}");
    }
}

#[test]
fn who_asks_too_much_waits_for_the_next_minute() {
    let network = |text: &str| network_of(&text.parse().unwrap());
    let (one, other) = (network("/ip6/2001:db8::1/tcp/1"), network("/ip4/203.0.113.5/tcp/1"));
    assert_eq!(one, network("/ip6/2001:db8::ffff:2/udp/9/quic-v1"));
    assert_ne!(one, network("/ip6/2001:db8:0:1::1/tcp/1"));
    let (mut asked, start) = (Asked::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(asked.add(one, 4096, at(0)));
    assert!(!asked.add(one, 1, at(1)));
    assert!(asked.add(other, 1, at(1)));
    assert!(!asked.add(one, 1, at(59)));
    assert!(asked.add(one, 1, at(60)));
    assert!(!asked.add(other, usize::MAX, at(61)));
    assert!(!asked.add(other, 1, at(62)));
}
