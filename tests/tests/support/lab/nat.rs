//! Routers that translate addresses.

use std::net::Ipv4Addr;

use super::shell::{run, write};
use super::site::{Site, prepare_cable};

/// How a router picks the port that an inner one is seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nat {
    /// One outer port for an inner one, whoever is spoken to: holes can be punched.
    Cone,
    /// The same, but never the inner port itself; for UDP, and one socket in all the host's life.
    OtherPort,
    /// Another outer port for every peer: only a relay helps.
    Symmetric,
}

/// Makes `router`, which has its `wan` already, a NAT, and puts a new host behind it.
pub(super) fn build(site: &Site, name: &str, router: &str, kind: Nat) -> Ipv4Addr {
    let namespace = site.add_namespace(name);
    write(&namespace, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    run(&format!("ip -n {router} link add lan type veth peer name eth0 netns {namespace}"));
    for (place, device) in [(router, "lan"), (namespace.as_str(), "eth0")] {
        prepare_cable(place, device);
        run(&format!("ip -n {place} link set {device} up"));
    }
    run(&format!("ip -n {router} addr add {GATEWAY}/24 dev lan"));
    run(&format!("ip -n {namespace} addr add {INSIDE}/24 dev eth0"));
    run(&format!("ip -n {namespace} route add default via {GATEWAY}"));
    write(router, "/proc/sys/net/ipv4/ip_forward", "1");
    let translation = match kind {
        Nat::Cone => "-j MASQUERADE",
        Nat::OtherPort => &format!("-p udp -j MASQUERADE --to-ports {OTHER_PORT}"),
        Nat::Symmetric => "-j MASQUERADE --random-fully",
    };
    for rule in [
        &format!("-t nat -A POSTROUTING -o wan {translation}"),
        "-A FORWARD -i lan -j ACCEPT",
        "-A FORWARD -i wan -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        "-P FORWARD DROP",
        // A packet from a peer that is punching must leave no trace: the kernel would take it for
        // the router's own traffic and give our answer another port.
        "-A INPUT -i wan -j DROP",
    ] {
        run(&format!("ip netns exec {router} iptables -w {rule}"));
    }
    INSIDE
}

/// The only one, so that everybody sees the same.
const OTHER_PORT: u16 = 40404;
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 1);
const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 2);
