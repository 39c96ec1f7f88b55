//! The middle of a network: a bridge that every host is cabled to.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::holder::Holder;
use super::host::{DEVICE, Host};
use super::quality::Quality;
use super::tools::run;

/// A bridge in the network of this process, which must be in one of its own.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Hosts that it has.
    hosts: u8,
    parted: bool,
    holders: Vec<Holder>,
}

impl Hub {
    /// A hub without hosts.
    pub(crate) fn new() -> Result<Self, String> {
        for line in [
            "ip link set lo up",
            &format!("ip link add {MAIN} type bridge mcast_snooping 0"),
            &format!("ip addr add {}/16 dev {MAIN}", Self::address()),
            &format!("ip link set {MAIN} up"),
        ] {
            run(line)?;
        }
        Ok(Self { hosts: 0, parted: false, holders: Vec::new() })
    }

    /// Where hosts find whoever is on the hub itself.
    pub(crate) fn address() -> Ipv4Addr {
        address(HUB)
    }

    /// A new host behind a link that is as good as `quality` says.
    pub(crate) fn plug(&mut self, quality: &Quality) -> Result<Host, String> {
        self.hosts = self.hosts.checked_add(1).filter(|it| *it < HUB).ok_or("too many hosts")?;
        let (port, address) = (format!("p{}", self.hosts), address(self.hosts));
        let (mut anchor, namespace) = new_namespace()?;
        let cable =
            run(&format!("ip link add {port} type veth peer name {DEVICE} netns {}", anchor.id()));
        // From here on the open file is what the namespace lives by.
        drop(anchor.stdin.take());
        let _ = anchor.wait();
        cable?;
        // Otherwise up to 64 KiB cross as one packet, which no wire would do.
        run(&format!("ip link set dev {port} gso_max_segs 1"))?;
        run(&format!("ip link set {port} master {MAIN} up"))?;
        let holder = match quality.needs_holder() {
            true => Holder::netem(&port, quality).ok(),
            false => None,
        };
        let host = Host { namespace, address, port, netem: holder.is_some() };
        host.within(|| {
            run("ip link set lo up")?;
            run(&format!("ip link set dev {DEVICE} gso_max_segs 1"))?;
            run(&format!("ip addr add {address}/16 dev {DEVICE}"))?;
            run(&format!("ip link set {DEVICE} up"))
        })??;
        host.limit(quality.rate)?;
        if quality.needs_holder() {
            let thread = || Holder::thread(&host, quality, self.hosts);
            self.holders.push(holder.map_or_else(thread, Ok)?);
        }
        Ok(host)
    }

    /// How packets are held back or lost, in words; none if they are not.
    pub(crate) fn holder_words(&self) -> Option<&'static str> {
        self.holders.first().map(Holder::words)
    }

    /// Cuts every cable between `side` and the others, silently. The hub stays with the others.
    pub(crate) fn partition<'a>(
        &mut self,
        side: impl Iterator<Item = &'a Host>,
    ) -> Result<(), String> {
        if !self.parted {
            run(&format!("ip link add {AWAY} type bridge mcast_snooping 0"))?;
            run(&format!("ip link set {AWAY} up"))?;
            self.parted = true;
        }
        for host in side {
            run(&format!("ip link set {} master {AWAY}", host.port))?;
        }
        Ok(())
    }

    /// Whether there is a partition.
    pub(crate) fn is_parted(&self) -> bool {
        self.parted
    }

    /// Takes a partition back, of all `hosts`.
    pub(crate) fn heal<'a>(&mut self, hosts: impl Iterator<Item = &'a Host>) -> Result<(), String> {
        if !self.parted {
            return Ok(());
        }
        for host in hosts {
            run(&format!("ip link set {} master {MAIN}", host.port))?;
        }
        self.parted = false;
        run(&format!("ip link delete {AWAY}"))
    }
}

/// A network namespace without a name, and a process in it that ends with its input.
fn new_namespace() -> Result<(Child, File), String> {
    let failed = |error: std::io::Error| format!("unshare: {error}");
    let mut anchor = Command::new("unshare")
        .args(["--net", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Out of reach of the terminal's Ctrl-C: it ends with its input.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    // An echo comes from within.
    let mut echo = [0; 1];
    let written = anchor.stdin.as_mut().map(|it| it.write_all(b"x"));
    let read = anchor.stdout.as_mut().map(|it| it.read_exact(&mut echo));
    written.and(read).transpose().map_err(failed)?;
    let path = Path::new("/proc").join(anchor.id().to_string()).join("ns/net");
    Ok((anchor, File::open(path).map_err(failed)?))
}

fn address(number: u8) -> Ipv4Addr {
    // Kept apart for measurements between devices, and routed nowhere.
    Ipv4Addr::new(198, 18, 0, number)
}

/// The number of the hub's own address.
const HUB: u8 = 254;
/// The bridge that hosts are cabled to.
const MAIN: &str = "main";
/// The bridge that a partition moves its second side to.
const AWAY: &str = "away";
