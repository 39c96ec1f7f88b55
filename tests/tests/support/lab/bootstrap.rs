//! A meeting point on a host.

use std::path::PathBuf;
use std::time::Duration;

use super::{Host, Process, binary, wait_for};

/// A bootstrap server.
pub(crate) struct Bootstrap {
    host: Host,
    home: PathBuf,
    process: Process,
    addresses: Vec<String>,
}

impl Bootstrap {
    /// Starts one and waits until it says where it is.
    pub(crate) fn start(host: &Host) -> Self {
        let home = host.home("bootstrap");
        let process = spawn(host, &home);
        let addresses = addresses(host, &process);
        Self { host: host.clone(), home, process, addresses }
    }

    /// Starts it again, with the key and so the addresses it had.
    pub(crate) fn restart(&mut self) {
        self.process = spawn(&self.host, &self.home);
        assert_eq!(addresses(&self.host, &self.process), self.addresses);
    }

    /// Where nodes find it.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The server itself.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

fn spawn(host: &Host, home: &std::path::Path) -> Process {
    let key = home.join("key").to_str().unwrap().to_owned();
    host.spawn(binary("atoll-bootstrap"), &["--key", &key], home)
}

/// What it prints of the host's IPv4 addresses: one for QUIC and one for TCP.
fn addresses(host: &Host, process: &Process) -> Vec<String> {
    let mut addresses = wait_for("the bootstrap's addresses", Duration::from_secs(30), || {
        let output = process.output();
        let here = format!("/ip4/{}/", host.address());
        let lines = output.lines().filter(|line| line.starts_with(&here));
        let found: Vec<String> = lines.map(str::to_owned).collect();
        let ended = process.ended();
        assert_eq!(ended, None, "the bootstrap ended: {}", process.log());
        if found.len() < 2 { Err(output) } else { Ok(found) }
    });
    addresses.sort();
    addresses
}
