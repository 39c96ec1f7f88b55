//! One machine of a lab.

use std::fs::{self, File};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::process::{Process, Running};
use super::shell::{attempt, run};
use super::site::{Site, heed_rules};

/// One machine of a lab: a network namespace with one cable.
#[derive(Clone)]
pub(crate) struct Host {
    site: Arc<Site>,
    name: String,
    namespace: String,
    address: Ipv4Addr,
    address6: Option<Ipv6Addr>,
    /// What others see it as.
    public: Ipv4Addr,
    /// The namespace and device at the other end of its cable.
    far: (String, String),
    /// The hub's port that its packets pass.
    port: String,
}

impl Host {
    pub(super) fn on_hub(
        site: Arc<Site>,
        name: &str,
        far: (String, String),
        address: Ipv4Addr,
        address6: Ipv6Addr,
    ) -> Self {
        let (namespace, port) = (site.namespace(name), far.1.clone());
        let (name, public) = (name.to_owned(), address);
        Self { site, name, namespace, address, address6: Some(address6), public, far, port }
    }

    pub(super) fn behind(
        site: Arc<Site>,
        name: &str,
        (router, port): (String, String),
        address: Ipv4Addr,
        public: Ipv4Addr,
    ) -> Self {
        let far = (router, "lan".to_owned());
        let (namespace, name) = (site.namespace(name), name.to_owned());
        Self { site, name, namespace, address, address6: None, public, far, port }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its own address, which behind a NAT nobody else can use.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its IPv6 address; none behind a NAT.
    pub(crate) fn address6(&self) -> Option<Ipv6Addr> {
        self.address6
    }

    /// The address that others see its packets come from.
    pub(crate) fn public_address(&self) -> Ipv4Addr {
        self.public
    }

    /// A folder for a node on this host, made if it is not there.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        let home = self.site.folder.join(format!("{}-{name}", self.name));
        fs::create_dir_all(&home).unwrap();
        home
    }

    /// Limits what it sends and, apart from that, what it receives, as in `20mbit`.
    pub(crate) fn shape(&self, rate: &str) {
        let burst = burst_bytes(rate);
        for (namespace, device) in self.cable() {
            run(&format!(
                "tc -n {namespace} qdisc replace dev {device} root \
                 tbf rate {rate} burst {burst} latency 50ms"
            ));
        }
    }

    /// Takes [`Host::shape`] back.
    pub(crate) fn unshape(&self) {
        for (namespace, device) in self.cable() {
            run(&format!("tc -n {namespace} qdisc delete dev {device} root"));
        }
    }

    /// Loses so many of a hundred packets that pass the hub, to it and from it each.
    ///
    /// At the hub, because a sender is told when its own machine drops a packet.
    pub(crate) fn lose(&self, percent: f64) {
        let hub = self.site.namespace(super::HUB);
        heed_rules(&hub, true);
        let port = &self.port;
        for table in ["iptables", "ip6tables"] {
            for way in ["in", "out"] {
                let rule = |probability: &str| {
                    format!(
                        "FORWARD -m physdev --physdev-is-bridged --physdev-{way} {port} \
                         -m comment --comment {port}-{way} \
                         -m statistic --mode random --probability {probability} -j DROP"
                    )
                };
                self.forget_loss(&hub, table, &format!("{port}-{way}"));
                if percent > 0.0 {
                    let rule = rule(&(percent / 100.0).to_string());
                    run(&format!("ip netns exec {hub} {table} -w -A {rule}"));
                }
            }
        }
    }

    /// Pulls the cable out; the host sees its link go down.
    pub(crate) fn link_down(&self) {
        let (namespace, device) = &self.far;
        run(&format!("ip -n {namespace} link set {device} down"));
    }

    /// Puts the cable back.
    pub(crate) fn link_up(&self) {
        let (namespace, device) = &self.far;
        run(&format!("ip -n {namespace} link set {device} up"));
    }

    /// Bytes received and sent since it was made, as on the wire, Ethernet headers included.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let shown = run(&format!("ip -n {} -s -j link show dev eth0", self.namespace));
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let count = |way: &str| shown[0]["stats64"][way]["bytes"].as_u64().unwrap();
        (count("rx"), count("tx"))
    }

    /// Does something on a thread that is on this host, where sockets belong to it for good.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(Path::new("/run/netns").join(&self.namespace)).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).unwrap();
                act()
            });
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a process whose home folder is `home`; it ends with its handle or the lab.
    pub(crate) fn spawn<S: AsRef<str>>(
        &self,
        program: impl AsRef<Path>,
        arguments: &[S],
        home: &Path,
    ) -> Process {
        let program = program.as_ref();
        let file = program.file_name().unwrap().to_string_lossy().into_owned();
        let title = format!("{}-{file}", self.name);
        let (output, log) = self.site.log_files(&title);
        let mut command = self.command(program, arguments, home);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(&log).unwrap());
        let running = Arc::new(Running::start(title, &mut command, output, log));
        self.site.remember(running.clone());
        Process::new(running)
    }

    /// Runs a program to its end, or kills it when the time is over.
    pub(crate) fn run<S: AsRef<str>>(
        &self,
        program: impl AsRef<Path>,
        arguments: &[S],
        home: &Path,
        timeout: Duration,
    ) -> Output {
        let mut words =
            vec!["-s".to_owned(), "KILL".to_owned(), format!("{}", timeout.as_secs_f64())];
        words.push(program.as_ref().to_str().unwrap().to_owned());
        words.extend(arguments.iter().map(|it| it.as_ref().to_owned()));
        self.command(Path::new("timeout"), &words, home).stdin(Stdio::null()).output().unwrap()
    }

    /// The hub's port that its packets pass.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    fn command<S: AsRef<str>>(&self, program: &Path, arguments: &[S], home: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program)
            .args(arguments.iter().map(AsRef::as_ref))
            .current_dir(&self.site.folder)
            .env("HOME", home)
            .env("RUST_BACKTRACE", "1")
            .env_remove("XDG_DATA_HOME");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ATOLL_") {
                command.env_remove(name);
            }
        }
        command
    }

    fn cable(&self) -> [(String, String); 2] {
        [(self.namespace.clone(), "eth0".to_owned()), self.far.clone()]
    }

    fn forget_loss(&self, hub: &str, table: &str, comment: &str) {
        let listed = run(&format!("ip netns exec {hub} {table} -w -L FORWARD -n --line-numbers"));
        let marked = format!("/* {comment} */");
        let numbers: Vec<&str> = listed
            .lines()
            .filter(|line| line.contains(&marked))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        // From the last on, because the numbers behind one that goes change.
        for number in numbers.into_iter().rev() {
            run(&format!("ip netns exec {hub} {table} -w -D FORWARD {number}"));
        }
    }
}

/// Ten milliseconds' worth, and at least a few packets: less slows fast links down, more lets
/// slow ones burst.
fn burst_bytes(rate: &str) -> u64 {
    let digits = rate.find(|it: char| !it.is_ascii_digit()).unwrap_or(rate.len());
    let number: u64 = rate[..digits].parse().unwrap();
    let unit = match &rate[digits..] {
        "kbit" => 1000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        unit => panic!("{unit:?} is not kbit, mbit or gbit"),
    };
    (number * unit / 8 / 100).max(16 * 1024)
}
