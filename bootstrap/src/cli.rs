//! What can be set: by a flag, or its environment variable, or the file, or its default.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction::Set, Parser, value_parser};
use libp2p::multiaddr::Multiaddr;
use serde::Serialize;

/// The bootstrap server of Atoll: where nodes find their first peers.
///
/// Nodes find each other here, learn whether they can be reached, and talk through it when they
/// cannot reach each other. It knows nothing about training, and a run whose nodes have met goes on
/// without it. It prints its addresses, one on each line: what `atoll new --bootstrap` takes.
///
/// A flag wins over its environment variable, that over the configuration file.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "atoll-bootstrap", version)]
pub struct Settings {
    /// A TOML file with these settings, their names written with underscores.
    #[arg(long, value_name = "FILE", env = "ATOLL_BOOTSTRAP_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print the settings that would be used, as such a file, and stop.
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,
    /// Where to listen; repeatable.
    #[arg(long, value_name = "ADDRESS", env = "ATOLL_BOOTSTRAP_LISTEN", value_delimiter = ',')]
    #[arg(value_parser = address, default_value = LISTEN)]
    pub listen: Vec<Multiaddr>,
    /// Where others reach this server, if its own interfaces do not tell; repeatable.
    #[arg(long, value_name = "ADDRESS", env = "ATOLL_BOOTSTRAP_EXTERNAL", value_delimiter = ',')]
    #[arg(value_parser = address)]
    pub external: Vec<Multiaddr>,
    /// Whether to pass on addresses of private networks.
    #[arg(long, env = "ATOLL_BOOTSTRAP_ANNOUNCE_PRIVATE", default_value_t = true, action = Set)]
    pub announce_private: bool,
    /// The key of this server, made on first start [default: atoll/bootstrap.key in $XDG_DATA_HOME].
    #[arg(long, value_name = "FILE", env = "ATOLL_BOOTSTRAP_KEY")]
    pub key: Option<PathBuf>,
    /// Where /metrics and /healthz answer.
    #[arg(long, env = "ATOLL_BOOTSTRAP_HTTP", default_value = "127.0.0.1:4002")]
    pub http: SocketAddr,
    /// Connections in all; a quarter of them may come from one IP address (or IPv6 /64).
    #[arg(long, env = "ATOLL_BOOTSTRAP_MAX_CONNECTIONS")]
    #[arg(default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Relayed connections (circuits) in all; 0 relays nothing.
    #[arg(long, env = "ATOLL_BOOTSTRAP_RELAY_MAX_CIRCUITS", default_value_t = 128)]
    pub relay_max_circuits: u32,
    /// Bytes through one circuit, both ways together; 0 is no limit.
    #[arg(long, env = "ATOLL_BOOTSTRAP_RELAY_BYTES", default_value_t = 4 << 30)]
    pub relay_bytes: u64,
    /// How the log on standard error is written; RUST_LOG chooses what is in it.
    #[arg(long, env = "ATOLL_BOOTSTRAP_LOG", default_value = "human")]
    #[arg(value_parser = ["human", "json"])]
    pub log: String,
}

fn address(text: &str) -> Result<Multiaddr, &'static str> {
    let address: Multiaddr = text.parse().map_err(|_| ADDRESS_HINT)?;
    match address.protocol_stack().collect::<Vec<_>>()[..] {
        [_host, "tcp"] | [_host, "udp", "quic-v1"] => Ok(address),
        _ => Err(ADDRESS_HINT),
    }
}

const LISTEN: &str = "/ip4/0.0.0.0/udp/4001/quic-v1,/ip4/0.0.0.0/tcp/4001,\
                      /ip6/::/udp/4001/quic-v1,/ip6/::/tcp/4001";
const ADDRESS_HINT: &str = "not an address this server can have
hint: write it like /ip4/203.0.113.5/udp/4001/quic-v1 or /ip6/::/tcp/4001, without /p2p/";
