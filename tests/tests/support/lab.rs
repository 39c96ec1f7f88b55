//! A small internet for real processes: hosts in network namespaces around one hub.
//!
//! Nothing outside the lab's own namespaces is touched, and no packet leaves them. Every host is
//! cabled to a bridge in the hub's namespace; a partition moves cables to a second bridge, so
//! that it cuts every protocol in both directions. Whatever happens to the test, a process of its
//! own takes the lab down.

#![allow(dead_code, unused_imports, reason = "no test needs all of the lab")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "lab/binary.rs"]
mod binary;
#[path = "lab/bootstrap.rs"]
mod bootstrap;
#[path = "lab/cleaner.rs"]
mod cleaner;
#[path = "lab/disk.rs"]
mod disk;
#[path = "lab/door.rs"]
mod door;
#[path = "lab/host.rs"]
mod host;
#[path = "lab/nat.rs"]
mod nat;
#[path = "lab/needs.rs"]
mod needs;
#[path = "lab/node.rs"]
mod node;
#[path = "lab/patience.rs"]
mod patience;
#[path = "lab/process.rs"]
mod process;
#[path = "lab/shell.rs"]
mod shell;
#[path = "lab/site.rs"]
mod site;
#[path = "lab/status.rs"]
mod status;
#[path = "lab/swarm.rs"]
mod swarm;
#[path = "lab/words.rs"]
mod words;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

pub(crate) use binary::binary;
pub(crate) use bootstrap::Bootstrap;
pub(crate) use disk::Disk;
pub(crate) use host::Host;
pub(crate) use nat::Nat;
pub(crate) use node::Node;
pub(crate) use patience::wait_for;
pub(crate) use process::Process;
pub(crate) use status::{Fates, Status};
pub(crate) use swarm::Swarm;

use cleaner::Cleaner;
use shell::{run, write};
use site::Site;

/// A hub with hosts around it; dropping it takes everything down.
pub(crate) struct Lab {
    site: Arc<Site>,
    cleaner: Cleaner,
    hosts: AtomicU8,
}

impl Lab {
    /// An empty lab, or none with a word on why not if this machine cannot have one.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if let Some(missing) = needs::missing() {
            needs::tell_skipped(name, &missing);
            return None;
        }
        cleaner::clean_up_after_the_dead();
        words::keep();
        let serial = LABS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{}{}-{serial}", cleaner::SCHEME, std::process::id());
        let mut cleaner = Cleaner::start(&prefix);
        let hub = format!("{prefix}-{HUB}");
        if let Err(error) = shell::attempt(&format!("ip netns add {hub}")) {
            needs::tell_skipped(name, &format!("network namespaces: {error}"));
            cleaner.finish();
            return None;
        }
        let site = Arc::new(Site::new(name, prefix));
        // The hub itself says nothing, so that counters show only what hosts send.
        write(&hub, "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let lab = Self { site, cleaner, hosts: AtomicU8::new(0) };
        lab.add_bridge(MAIN);
        lab.heed_rules(false);
        Some(lab)
    }

    /// A new host that everybody on the hub can reach over IPv4, IPv6 and multicast.
    pub(crate) fn host(&self, name: &str) -> Host {
        let (address, address6) = self.next_addresses();
        let namespace = self.site.add_namespace(name);
        let port = self.plug(&namespace, "eth0");
        run(&format!("ip -n {namespace} addr add {address}/16 dev eth0"));
        run(&format!("ip -n {namespace} addr add {address6}/32 dev eth0 nodad"));
        run(&format!("ip -n {namespace} route add 224.0.0.0/4 dev eth0"));
        let hub = self.site.namespace(HUB);
        Host::on_hub(self.site.clone(), name, (hub, port), address, address6)
    }

    /// A new host alone behind a router of its own that translates addresses; IPv4 only.
    pub(crate) fn behind_nat(&self, name: &str, kind: Nat) -> Host {
        let (public, _) = self.next_addresses();
        let router = self.site.add_namespace(&format!("{name}-nat"));
        let port = self.plug(&router, "wan");
        run(&format!("ip -n {router} addr add {public}/16 dev wan"));
        let inside = nat::build(&self.site, name, &router, kind);
        Host::behind(self.site.clone(), name, (router, port), inside, public)
    }

    /// Cuts every cable between `one` and `other`, for all protocols and both ways.
    ///
    /// Hosts of neither side stay with `one`. Nobody's link goes down: packets are lost silently.
    pub(crate) fn partition(&self, one: &[&Host], other: &[&Host]) {
        let both = one.iter().any(|host| other.iter().any(|it| it.name() == host.name()));
        assert!(!both, "a host cannot be on both sides");
        let hub = self.site.namespace(HUB);
        self.heal();
        self.add_bridge(AWAY);
        for host in other {
            run(&format!("ip -n {hub} link set {} master {AWAY}", host.port()));
        }
    }

    /// Takes a partition back.
    pub(crate) fn heal(&self) {
        let hub = self.site.namespace(HUB);
        let away = run(&format!("ip -n {hub} -o link show type bridge"));
        if !away.contains(&format!(": {AWAY}:")) {
            return;
        }
        let ports = run(&format!("ip -n {hub} -o link show master {AWAY}"));
        // Lines look like `5: p1@if2: <BROADCAST,...`.
        for line in ports.lines() {
            let name = line.split_whitespace().nth(1).unwrap();
            let port = name.split(['@', ':']).next().unwrap();
            run(&format!("ip -n {hub} link set {port} master {MAIN}"));
        }
        run(&format!("ip -n {hub} link delete {AWAY}"));
    }

    /// Where the lab keeps files; it is kept after a failure, and said where.
    pub(crate) fn folder(&self) -> &Path {
        &self.site.folder
    }

    /// What the names of all its namespaces begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.site.prefix
    }

    fn next_addresses(&self) -> (Ipv4Addr, Ipv6Addr) {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        // As on the internet, nobody shares the first 64 bits.
        let address6 = Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(number), 0, 0, 0, 1);
        // Kept apart for measurements between devices; neither family is routed anywhere.
        (Ipv4Addr::new(198, 18, 0, number), address6)
    }

    /// Lays a cable from the hub to `device` in `namespace` and returns the hub's end.
    fn plug(&self, namespace: &str, device: &str) -> String {
        let hub = self.site.namespace(HUB);
        // The last address handed out was for this cable.
        let port = format!("p{}", self.hosts.load(Ordering::Relaxed));
        run(&format!("ip -n {hub} link add {port} type veth peer name {device} netns {namespace}"));
        run(&format!("ip -n {hub} link set {port} master {MAIN} up"));
        site::prepare_cable(&hub, &port);
        site::prepare_cable(namespace, device);
        run(&format!("ip -n {namespace} link set {device} up"));
        port
    }

    fn add_bridge(&self, bridge: &str) {
        let hub = self.site.namespace(HUB);
        // Without snooping, multicast reaches everybody from the first packet on.
        run(&format!("ip -n {hub} link add {bridge} type bridge mcast_snooping 0"));
        run(&format!("ip -n {hub} link set {bridge} up"));
    }

    fn heed_rules(&self, heed: bool) {
        site::heed_rules(&self.site.namespace(HUB), heed);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            self.site.print_tails();
        }
        let panics = self.site.kill_all();
        self.cleaner.finish();
        assert!(failed || panics.is_empty(), "{panics:#?} in {}", self.site.folder.display());
        if failed {
            eprintln!("the lab's files are kept in {}", self.site.folder.display());
            words::repeat();
        } else {
            self.site.remove_folder();
        }
    }
}

/// A run of a tiny model whose rounds take a second or two.
pub(crate) const GENESIS: &str = include_str!("genesis-lab.toml");

/// The namespace of the hub.
const HUB: &str = "hub";
/// The bridge that hosts are cabled to.
const MAIN: &str = "main";
/// The bridge that a partition moves its second side to.
const AWAY: &str = "away";
/// Labs that this process has made.
static LABS: AtomicU32 = AtomicU32::new(0);
