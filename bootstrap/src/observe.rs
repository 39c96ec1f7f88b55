//! What an operator can see: metrics, readiness and the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use libp2p::{PeerId, relay, rendezvous};
use prometheus_client::encoding::text;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

use crate::cli::Log;

/// Writes the log to standard error; standard output is for the addresses.
pub fn start_log(log: Log) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log {
        Log::Human => lines.init(),
        Log::Json => lines.json().init(),
    }
}

/// The numbers behind /metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) listeners: Gauge,
    pub(crate) refused: Counter,
    pub(crate) cut_off: Counter,
    circuits: Gauge,
    registrations: Gauge,
    requests: Family<[(&'static str, &'static str); 2], Counter>,
    registered: BTreeMap<(PeerId, String), Instant>,
}

impl Metrics {
    /// What /metrics and /healthz answer from.
    pub(crate) fn router(&self, peer: PeerId) -> Router {
        let mut registry = Registry::with_prefix("atoll_bootstrap");
        let about = [("version", env!("CARGO_PKG_VERSION").into()), ("peer", peer.to_string())];
        registry.register("build", "This server", Info::new(about.to_vec()));
        let (connections, listeners) = (self.connections.clone(), self.listeners.clone());
        registry.register("connections", "Open connections", connections);
        registry.register("listeners", "Addresses listened on", listeners.clone());
        registry.register("circuits", "Open circuits through the relay", self.circuits.clone());
        registry.register("registrations", "Nodes under runs", self.registrations.clone());
        registry.register("refused", "Connections over a limit", self.refused.clone());
        registry.register("cut_off", "Peers that asked too much", self.cut_off.clone());
        registry.register("requests", "What peers asked for", self.requests.clone());
        let registry = Arc::new(registry);
        let metrics = async move || {
            let mut body = String::new();
            let encoded = text::encode(&mut body, &registry);
            let status = encoded.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::OK);
            (status, [(header::CONTENT_TYPE, OPEN_METRICS)], body)
        };
        let health = async move || match listeners.get() {
            0 => (StatusCode::SERVICE_UNAVAILABLE, "listening nowhere\n"),
            _ => (StatusCode::OK, "ok\n"),
        };
        Router::new().route("/metrics", get(metrics)).route("/healthz", get(health))
    }

    pub(crate) fn request(&self, kind: &'static str, served: bool) {
        let outcome = if served { "served" } else { "refused" };
        self.requests.get_or_create(&[("kind", kind), ("outcome", outcome)]).inc();
    }

    /// Who is registered under what, and until when.
    pub(crate) fn registered(&mut self, peer: PeerId, run: &rendezvous::Namespace, until: Instant) {
        self.registered.insert((peer, run.to_string()), until);
        let now = Instant::now();
        self.registered.retain(|_, until| *until > now);
        self.registrations.set(self.registered.len().try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn relay(&self, event: &relay::Event) {
        match event {
            relay::Event::ReservationReqAccepted { .. } => self.request("reserve", true),
            relay::Event::ReservationReqDenied { .. } => self.request("reserve", false),
            relay::Event::CircuitReqDenied { .. } => self.request("circuit", false),
            relay::Event::CircuitReqAccepted { .. } => {
                self.request("circuit", true);
                self.circuits.inc();
            }
            relay::Event::CircuitClosed { .. } => {
                self.circuits.dec();
            }
            _ => {}
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
