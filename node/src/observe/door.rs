//! `status.json`: where a running node's server is, and the token that commands need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The way to a running node, in a file that only its owner can read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Door {
    /// Where the server listens.
    pub(super) address: SocketAddr,
    /// What commands have to show.
    pub(super) token: String,
    /// The process.
    pub(super) pid: u32,
}

// The token is for the file alone, not for log lines.
impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Door({}, process {})", self.address, self.pid)
    }
}

impl Door {
    /// A door with a token of its own.
    pub(super) fn new(address: SocketAddr) -> io::Result<Self> {
        let mut token = [0; 32];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        let token = data_encoding::HEXLOWER.encode(&token);
        Ok(Self { address, token, pid: std::process::id() })
    }

    /// Where the file of the run in `folder` is.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Puts the file into place at once: no reader sees half of it.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let temporary = folder.join(TEMPORARY_FILE);
        // Left by a process that died; the run's lock keeps out one that lives.
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&temporary, Self::path(folder))
    }

    /// Reads the file; none if there is none.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(Self::path(folder)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Takes the file away, if it still is this one.
    pub(super) fn remove(&self, folder: &Path) {
        if Self::read(folder).is_ok_and(|door| door.as_ref() == Some(self)) {
            let _ = fs::remove_file(Self::path(folder));
        }
    }

    /// Where to dial: a server on every interface is on this machine's own too.
    pub(super) fn dial(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.address.port())
    }
}

const FILE: &str = "status.json";
const TEMPORARY_FILE: &str = "status.json.new";
const FILE_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_owners_alone_and_goes_with_its_door() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Door::read(folder.path()).unwrap(), None);
        let door = Door::new("127.0.0.1:4321".parse().unwrap()).unwrap();
        door.write(folder.path()).unwrap();
        assert_eq!(Door::read(folder.path()).unwrap(), Some(door.clone()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(Door::path(folder.path())).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let next = Door::new(door.address).unwrap();
        assert_ne!(next.token, door.token);
        assert!(!format!("{next:?}").contains(&next.token));
        next.write(folder.path()).unwrap();
        door.remove(folder.path());
        assert_eq!(Door::read(folder.path()).unwrap(), Some(next.clone()), "that is another's");
        next.remove(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_interface_is_dialled_at_home() {
        let dial = |text: &str| Door::new(text.parse().unwrap()).unwrap().dial().to_string();
        assert_eq!(dial("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(dial("[::]:1"), "[::1]:1");
        assert_eq!(dial("192.0.2.1:1"), "192.0.2.1:1");
    }
}
