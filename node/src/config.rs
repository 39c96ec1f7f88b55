//! What one node's operator chose. Nothing here changes what the swarm agrees on.
//!
//! Later sources win: defaults, `config.toml` in the node's folder, `ATOLL_*` variables, flags.

mod environment;
mod error;
mod partial;
mod print;
mod source;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::island::device::DeviceChoice;
use crate::island::precision::PrecisionChoice;
use crate::observe::logging::{LogFormat, LogLevel};
use crate::units::{Rate, Size};

pub use error::ConfigError;
pub use partial::Partial;
pub use source::Source;

/// What one node's operator chose, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The node's folder: key, configuration, runs.
    pub home: PathBuf,
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// Addresses that others are told, if the operator knows better than the node can find out.
    pub external: Vec<String>,
    /// Addresses of bootstraps, besides those of the ticket.
    pub bootstrap: Vec<String>,
    /// A hard cap on what is sent.
    pub max_upload: Option<Rate>,
    /// A hard cap on what is fetched.
    pub max_download: Option<Rate>,
    /// A hard cap on what a run keeps on disk.
    pub max_disk: Option<Size>,
    /// Whether to look for peers in the local network.
    pub mdns: bool,
    /// Whether to ask the router for a port.
    pub upnp: bool,
    /// Where status and metrics are served.
    pub http: SocketAddr,
    /// What the island computes with.
    pub device: DeviceChoice,
    /// What products are computed in.
    pub precision: PrecisionChoice,
    /// Threads on a CPU; none means one for each core.
    pub threads: Option<usize>,
    /// How readily the island leaves the CPU to others; 19 is the most.
    pub nice: i32,
    /// Text to train on; none means the corpus that the genesis names.
    pub data: Option<String>,
    /// The field of JSONL lines that holds the text.
    pub field: Option<String>,
    /// How log lines look.
    pub log: LogFormat,
    /// Which log lines there are.
    pub log_level: LogLevel,
    /// What looks like a mistake and is none for sure, each with a hint.
    pub warnings: Vec<String>,
    sources: BTreeMap<&'static str, Source>,
}

impl Config {
    /// Reads the file and this process' environment, under `flags`.
    pub fn load(flags: Partial) -> Result<Self, ConfigError> {
        Self::resolve(flags, std::env::vars_os())
    }

    /// Reads the file, under the given environment, under `flags`.
    pub fn resolve(
        flags: Partial,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        let (environment, mut warnings) = environment::read(&variables)?;
        let mut layers = Layers::default();
        let home = layers.pick("home", [flags.home.clone(), environment.home.clone(), None]);
        let home = match home {
            Some(home) => std::path::absolute(&home)
                .map_err(|source| ConfigError::File { path: home, reason: source.to_string() })?,
            None => default_home(&variables)?,
        };
        layers.file = home.join(FILE);
        let file = read_file(&layers.file)?;
        let mut config = layers.check(home, flags, environment, file)?;
        if !config.http.ip().is_loopback() {
            warnings.push(format!(
                "anyone who reaches {} can read this node's status\n\
                 hint: --http 127.0.0.1:0 keeps it to this machine",
                config.http
            ));
        }
        config.warnings = warnings;
        config.sources = layers.sources;
        Ok(config)
    }

    /// Where the value at `key` came from.
    pub fn source(&self, key: &str) -> &Source {
        self.sources.get(key).unwrap_or(&Source::Default)
    }

    /// The configuration as a file that would give the same, with a comment on where each value
    /// came from.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }

    /// The file that is read from this node's folder.
    pub fn file(&self) -> PathBuf {
        self.home.join(FILE)
    }
}

/// Picks each value from the highest layer that has it, and remembers which one that was.
#[derive(Default)]
struct Layers {
    file: PathBuf,
    sources: BTreeMap<&'static str, Source>,
}

impl Layers {
    fn pick<T>(&mut self, key: &'static str, layers: [Option<T>; 3]) -> Option<T> {
        let index = layers.iter().position(Option::is_some);
        let source = match index {
            Some(0) => Source::Flag(key),
            Some(1) => Source::Environment(key),
            Some(_) => Source::File(self.file.clone()),
            None => Source::Default,
        };
        self.sources.insert(key, source);
        layers.into_iter().flatten().next()
    }

    fn check(
        &mut self,
        home: PathBuf,
        flags: Partial,
        environment: Partial,
        file: Partial,
    ) -> Result<Config, ConfigError> {
        macro_rules! pick {
            ($key:ident) => {
                self.pick(stringify!($key), [flags.$key, environment.$key, file.$key])
            };
        }
        macro_rules! read {
            ($key:ident) => {
                match pick!($key) {
                    Some(text) => Some(self.read(stringify!($key), &text)?),
                    None => None,
                }
            };
        }
        let listen = pick!(listen).unwrap_or_else(|| LISTEN.map(str::to_owned).to_vec());
        let (external, bootstrap) =
            (pick!(external).unwrap_or_default(), pick!(bootstrap).unwrap_or_default());
        self.addresses("listen", &listen, |_| None)?;
        self.addresses("external", &external, dialable)?;
        self.addresses("bootstrap", &bootstrap, named)?;
        let threads = match pick!(threads) {
            Some(threads) => Some(self.whole("threads", threads, 1, THREADS_MAX)?),
            None => None,
        };
        let (data, field) = (pick!(data), pick!(field));
        let (data, field) = (self.text("data", data)?, self.text("field", field)?);
        Ok(Config {
            home,
            listen,
            external,
            bootstrap,
            max_upload: read!(max_upload),
            max_download: read!(max_download),
            max_disk: read!(max_disk),
            mdns: pick!(mdns).unwrap_or(true),
            upnp: pick!(upnp).unwrap_or(true),
            http: read!(http).unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))),
            device: read!(device).unwrap_or_default(),
            precision: read!(precision).unwrap_or_default(),
            threads,
            nice: match pick!(nice) {
                Some(nice) => self.whole("nice", nice, 0, 19)?,
                None => 0,
            },
            data,
            field,
            log: read!(log).unwrap_or_default(),
            log_level: read!(log_level).unwrap_or_default(),
            warnings: Vec::new(),
            sources: BTreeMap::new(),
        })
    }

    fn read<T>(&self, key: &'static str, text: &str) -> Result<T, ConfigError>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        text.trim().parse().map_err(|error: T::Err| {
            let source = self.sources.get(key).cloned().unwrap_or_default();
            ConfigError::parsed(key, text, source, &error.to_string())
        })
    }

    fn whole<T: TryFrom<i64>>(
        &self,
        key: &'static str,
        value: i64,
        low: i64,
        high: i64,
    ) -> Result<T, ConfigError> {
        let refuse = || {
            let hint = format!("take a whole number from {low} to {high}");
            self.refuse(key, &value.to_string(), &format!("outside {low} to {high}"), &hint)
        };
        let within = (low..=high).contains(&value);
        within.then_some(value).and_then(|value| T::try_from(value).ok()).ok_or_else(refuse)
    }

    fn text(&self, key: &'static str, text: Option<String>) -> Result<Option<String>, ConfigError> {
        match text {
            Some(text) if text.trim().is_empty() => {
                Err(self.refuse(key, &text, "empty", "leave it out to have the default"))
            }
            text => Ok(text),
        }
    }

    fn addresses(
        &self,
        key: &'static str,
        addresses: &[String],
        wrong: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<(), ConfigError> {
        let example = match key {
            "bootstrap" => {
                "take the whole line that atoll-bootstrap prints, such as \
                 /dns/boot.example.org/udp/4001/quic-v1/p2p/12D3Koo..."
            }
            "external" => "write it like /ip4/203.0.113.7/udp/4001/quic-v1",
            _ => "write it like /ip4/0.0.0.0/udp/4001/quic-v1",
        };
        if addresses.len() > ADDRESSES_MAX {
            let wrong = format!("more than {ADDRESSES_MAX} addresses");
            return Err(self.refuse(key, &addresses.len().to_string(), &wrong, "name fewer"));
        }
        for address in addresses {
            let first = address.strip_prefix('/').and_then(|rest| rest.split('/').next());
            let graphic = address.bytes().all(|byte| byte.is_ascii_graphic());
            let begins = first.is_some_and(|first| FIRST_PARTS.contains(&first));
            if !begins || !graphic || address.len() > ADDRESS_BYTES_MAX {
                return Err(self.refuse(key, address, "not a multiaddress", example));
            }
            if let Some(wrong) = wrong(address) {
                return Err(self.refuse(key, address, wrong, example));
            }
        }
        Ok(())
    }

    fn refuse(&self, key: &'static str, value: &str, wrong: &str, hint: &str) -> ConfigError {
        let source = self.sources.get(key).cloned().unwrap_or_default();
        ConfigError::value(key, value, source, wrong, hint)
    }
}

/// Others cannot dial an address that means "every interface of this machine".
fn dialable(address: &str) -> Option<&'static str> {
    let everywhere = address.starts_with("/ip4/0.0.0.0/") || address.starts_with("/ip6/::/");
    everywhere.then_some("not an address that others can dial")
}

/// Without the peer id anyone could answer in the bootstrap's place.
fn named(address: &str) -> Option<&'static str> {
    let name = address.rsplit_once("/p2p/").map_or("", |(_, name)| name);
    let is_name =
        name.len() >= PEER_ID_CHARS_MIN && name.bytes().all(|it| it.is_ascii_alphanumeric());
    (!is_name).then_some("without a peer id at its end")
}

fn default_home(variables: &BTreeMap<OsString, OsString>) -> Result<PathBuf, ConfigError> {
    let folder = |name: &str| {
        let folder = variables.get(&OsString::from(name)).map(PathBuf::from);
        // The XDG specification says to ignore anything else.
        folder.filter(|folder| folder.is_absolute())
    };
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    data.map(|data| data.join("atoll")).ok_or(ConfigError::NoHome)
}

fn read_file(path: &Path) -> Result<Partial, ConfigError> {
    let refuse = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Partial::default()),
        Err(error) => return Err(refuse(error.to_string())),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(format!("more than {FILE_BYTES_MAX} bytes")));
    }
    toml::from_str(&text).map_err(|error| refuse(error.to_string()))
}

const FILE: &str = "config.toml";
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Port 0: the system picks a free one, and peers are told which.
const LISTEN: [&str; 4] =
    ["/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0", "/ip6/::/udp/0/quic-v1", "/ip6/::/tcp/0"];
const FIRST_PARTS: [&str; 7] = ["ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr", "memory"];
const ADDRESSES_MAX: usize = 64;
const ADDRESS_BYTES_MAX: usize = 256;
/// A hash of 32 bytes with its kind, in base 58.
const PEER_ID_CHARS_MIN: usize = 46;
const THREADS_MAX: i64 = 1024;

#[cfg(test)]
mod tests;
