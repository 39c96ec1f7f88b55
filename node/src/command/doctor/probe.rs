//! A look at the network as the node would see it, for as long as it takes to know or to give up.

use std::sync::Arc;
use std::time::Duration;

use atoll_node::config::Config;
use atoll_node::driver::{how, network};
use atoll_node::identity::Identity;
use atoll_node::net::{self, Nat, NetConfig, NetHandle, NetStatus, Reachability};
use atoll_node::store::Store;
use atoll_protocol::crypto::{Key, content_id};
use atoll_protocol::genesis::Genesis;
use tokio::time::{Instant, sleep};

use super::machine::split;
use super::{Findings, Subject};
use crate::command::failure::Failure;
use crate::command::join::Parcel;
use crate::command::run::{merged, runtime};

/// Looks at the run's folder, and at its network for at most `wait` seconds.
pub(super) fn look(
    config: &Config,
    identity: Option<&Identity>,
    subject: &Subject,
    wait: f64,
) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let mut peers = Vec::new();
    if let Some(folder) = &subject.folder {
        findings.genesis = Some(folder.genesis.clone());
        match Store::open(&folder.path) {
            // Let go at once: the node may be started meanwhile.
            Ok(store) => peers = store.peers(),
            Err(error) => {
                let failure = Failure::from(error).to_string();
                findings.folder = Some(split(&failure));
            }
        }
    }
    let Some(settings) = settings(config, identity, subject, peers)? else { return Ok(findings) };
    let wait = Duration::try_from_secs_f64(wait)
        .map_err(|_| Failure::new(format!("--wait {wait}: not a number of seconds")))?;
    let runtime = runtime()?;
    let run = settings.run;
    let (status, fetched) = runtime.block_on(async {
        let (net, mut events) = net::start(settings, Arc::new(Parcel::default()))?;
        let drain = tokio::spawn(async move { while events.recv().await.is_some() {} });
        let seen = match &findings.genesis {
            Some(_) => (watch(&net, wait).await, None),
            None => {
                let good = |bytes: &[u8]| content_id(bytes).0 == run.0;
                let (status, genesis) = tokio::join!(watch(&net, wait), net.genesis(wait, good));
                (status, genesis.ok())
            }
        };
        net.leave().await;
        drain.abort();
        Ok::<_, Failure>(seen)
    })?;
    runtime.shutdown_background();
    findings.genesis =
        findings.genesis.or(fetched.and_then(|bytes| Genesis::from_bytes(&bytes).ok()));
    findings.network = Some(network(&status));
    findings.ways = status.peers.iter().map(how).collect();
    Ok(findings)
}

/// How to look; none if there is nobody to look for.
fn settings(
    config: &Config,
    identity: Option<&Identity>,
    subject: &Subject,
    peers: Vec<String>,
) -> Result<Option<NetConfig>, Failure> {
    let Some(ticket) = &subject.ticket else { return Ok(None) };
    let key = match identity {
        Some(identity) => identity.key(),
        // A key that nobody will know again: to look, it must not be there for good.
        None => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).map_err(|error| {
                Failure::new(format!("the system gives no randomness: {error}"))
            })?;
            Key::from_secret(secret)
        }
    };
    Ok(Some(NetConfig {
        key,
        run: ticket.run,
        genesis: Arc::from([]),
        listen: config.listen.clone(),
        external: config.external.clone(),
        bootstrap: merged(&config.bootstrap, &ticket.bootstrap),
        peers: merged(&peers, &ticket.peers),
        visits: false,
        mdns: config.mdns,
        upnp: config.upnp,
        max_upload: None,
        max_download: config.max_download.map(|rate| rate.bytes()),
        upload_slots: 1,
        clock: std::time::SystemTime::now,
    }))
}

/// Watches until everything is known that can be, or the time is over.
async fn watch(net: &NetHandle, wait: Duration) -> NetStatus {
    let until = Instant::now() + wait;
    loop {
        let status = net.status();
        if Instant::now() >= until || is_known(&status) {
            return status;
        }
        sleep(LOOK_EVERY).await;
    }
}

fn is_known(status: &NetStatus) -> bool {
    let reached = match status.reachability {
        Reachability::Unknown => false,
        Reachability::Public => true,
        // Where a relay is needed, it takes a moment to get one.
        Reachability::Private => !status.relays.is_empty(),
    };
    reached
        && status.nat.kind != Nat::Unknown
        && status.clock.is_some()
        && status.bootstraps.iter().all(|bootstrap| bootstrap.connected)
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
