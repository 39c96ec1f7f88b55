//! What an operator can see: metrics, readiness and the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use libp2p::{PeerId, relay, rendezvous};
use prometheus_client::encoding::text;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

/// Writes the log to standard error; standard output is for the addresses.
pub fn start_log(json: bool) {
    let quiet = |_| EnvFilter::new("error,atoll_bootstrap=info");
    let lines = tracing_subscriber::fmt().with_writer(stderr).with_ansi(stderr().is_terminal());
    let lines = lines.with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(quiet));
    if json { lines.json().init() } else { lines.init() }
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
    /// Until when who is registered under what.
    registered: BTreeMap<(PeerId, String), Instant>,
    /// The library may tell twice that a circuit has closed.
    connected: BTreeSet<(PeerId, PeerId)>,
}

impl Metrics {
    /// Answers /metrics and /healthz.
    pub(crate) fn router(&self) -> Router {
        let mut registry = Registry::with_prefix("atoll_bootstrap");
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register("listeners", "Addresses listened on", self.listeners.clone());
        registry.register("circuits", "Pairs of peers on the relay", self.circuits.clone());
        registry.register("registrations", "Nodes registered of late", self.registrations.clone());
        registry.register("refused", "Connections over a limit", self.refused.clone());
        registry.register("cut_off", "Peers that asked too much", self.cut_off.clone());
        registry.register("requests", "What peers asked for", self.requests.clone());
        let registry = Arc::new(registry);
        let metrics = async move || {
            let mut body = String::new();
            text::encode(&mut body, &registry).expect("a string takes everything");
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0")], body)
        };
        let listeners = self.listeners.clone();
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

    pub(crate) fn registered(&mut self, registration: &rendezvous::Registration) {
        let now = Instant::now();
        self.registered.retain(|_, until| *until > now);
        let name = (registration.record.peer_id(), registration.namespace.to_string());
        self.registered.insert(name, now + Duration::from_secs(registration.ttl));
        self.registrations.set(self.registered.len().try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn relay(&mut self, event: &relay::Event) {
        match event {
            relay::Event::ReservationReqAccepted { .. } => self.request("reserve", true),
            relay::Event::ReservationReqDenied { .. } => self.request("reserve", false),
            relay::Event::CircuitReqDenied { .. } => self.request("circuit", false),
            relay::Event::CircuitReqAccepted { src_peer_id, dst_peer_id } => {
                self.request("circuit", true);
                self.connected.insert((*src_peer_id, *dst_peer_id));
            }
            relay::Event::CircuitClosed { src_peer_id, dst_peer_id, .. } => {
                self.connected.remove(&(*src_peer_id, *dst_peer_id));
            }
            _ => {}
        }
        self.circuits.set(self.connected.len().try_into().unwrap_or(i64::MAX));
    }
}
