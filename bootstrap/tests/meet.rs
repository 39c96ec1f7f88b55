//! Nodes meet at a server: they find each other, learn whether they can be reached, and come
//! back after its restart.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/party.rs"]
mod party;

use std::collections::HashSet;

use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, identify, kad, rendezvous};

use party::{Guest, Host, RUN, SpeechEvent};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_register_and_find_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    assert!(host.page("/healthz").await.ends_with("ok\n"));
    let (mut over_tcp, mut over_quic) = (Guest::new().await, Guest::new().await);
    over_tcp.meet(&host.tcp).await;
    over_quic.meet(&host.quic).await;
    for guest in [&mut over_tcp, &mut over_quic] {
        guest.is_reachable().await;
        assert_eq!(guest.register(&host).await, Ok(rendezvous::DEFAULT_TTL));
    }
    // Once more: it must not count twice.
    over_quic.register(&host).await.unwrap();
    let found = discover(&mut over_tcp, &host).await;
    let (_, addresses) = found.iter().find(|(peer, _)| *peer == over_quic.peer).unwrap();
    over_tcp.meet(&addresses[0]).await;

    host.counts(&[
        "atoll_bootstrap_connections 2",
        "atoll_bootstrap_registrations 2",
        "atoll_bootstrap_listeners 2",
        "atoll_bootstrap_requests_total{kind=\"register\",outcome=\"served\"} 3",
        "atoll_bootstrap_requests_total{kind=\"discover\",outcome=\"served\"} 1",
    ])
    .await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_in_the_routing_table() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let (mut one, mut other) = (Guest::new().await, Guest::new().await);
    other.is_reachable().await;
    other.meet(&host.quic).await;
    one.meet(&host.tcp).await;
    let (server, address, sought) = (host.peer, host.tcp.clone(), other.peer);
    // The server answers `other` once it has heard from it, which may be after `one` asks first.
    let mut found = None;
    while found.is_none() {
        let address = address.clone();
        one.ask(move |swarm| {
            let kad = &mut swarm.behaviour_mut().kad;
            kad.add_address(&server, address);
            kad.get_closest_peers(sought);
        })
        .await;
        let peers = one.wait(closest_peers).await;
        found = peers.into_iter().find(|peer| peer.peer_id == sought);
    }
    assert!(!found.unwrap().addrs.is_empty());
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_routing_table_tells_who_is_in_a_run_and_holds_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let (mut one, mut other) = (Guest::new().await, Guest::new().await);
    for guest in [&mut one, &mut other] {
        guest.meet(&host.tcp).await;
        let (server, address) = (host.peer, host.tcp.clone());
        guest.ask(move |swarm| swarm.behaviour_mut().kad.add_address(&server, address)).await;
    }
    let key = || kad::RecordKey::new(&RUN);
    other.ask(move |swarm| swarm.behaviour_mut().kad.start_providing(key()).unwrap()).await;
    // Providing is not confirmed, so it is asked for until it has arrived.
    let mut providers = HashSet::new();
    while !providers.contains(&other.peer) {
        one.ask(move |swarm| swarm.behaviour_mut().kad.get_providers(key())).await;
        providers = one.wait(found_providers).await;
    }
    let record = kad::Record::new(key(), vec![1]);
    let server = host.peer;
    one.ask(move |swarm| {
        swarm.behaviour_mut().kad.put_record_to(record, [server].into_iter(), kad::Quorum::One)
    })
    .await;
    assert!(!one.wait(record_stored).await);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_learns_that_it_can_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let mut guest = Guest::new().await;
    guest.meet(&host.tcp).await;
    let confirmed = guest
        .wait(|event| match event {
            SwarmEvent::ExternalAddrConfirmed { address } => Some(address),
            _ => None,
        })
        .await;
    let mut listeners = guest.ask(|swarm| swarm.listeners().cloned().collect::<Vec<_>>()).await;
    listeners.retain(|address| confirmed.to_string().starts_with(&address.to_string()));
    assert_eq!(listeners.len(), 1, "{confirmed}");
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_the_same_and_nodes_register_again() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let before = host.peer;
    let mut guest = Guest::new().await;
    guest.is_reachable().await;
    guest.meet(&host.quic).await;
    guest.register(&host).await.unwrap();
    host.stop().await;
    // The server has said so, rather than falling silent.
    guest
        .wait(|event| match event {
            SwarmEvent::ConnectionClosed { peer_id, .. } => (peer_id == before).then_some(()),
            _ => None,
        })
        .await;

    let host = Host::start(folder.path(), &[]).await;
    assert_eq!(host.peer, before);
    guest.meet(&host.tcp).await;
    assert_eq!(discover(&mut guest, &host).await, []);
    guest.register(&host).await.unwrap();
    assert_eq!(discover(&mut guest, &host).await[0].0, guest.peer);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &["--external", "/dns4/meet.example/tcp/4001"]).await;
    let guest = &mut Guest::new().await;
    let address = host.quic.clone();
    guest.ask(move |swarm| swarm.dial(address).unwrap()).await;
    let info = guest
        .wait(|event| match event {
            SwarmEvent::Behaviour(SpeechEvent::Identify(identify::Event::Received {
                info,
                ..
            })) => Some(info),
            _ => None,
        })
        .await;
    assert_eq!(info.protocol_version, "/atoll/1");
    assert!(info.agent_version.starts_with("atoll-bootstrap/"));
    assert!(info.signed_peer_record.is_none(), "it signs nothing");
    let spoken: Vec<&str> = info.protocols.iter().map(AsRef::as_ref).collect();
    for protocol in [
        "/atoll/kad/1",
        "/rendezvous/1.0.0",
        "/libp2p/circuit/relay/0.2.0/hop",
        "/libp2p/autonat/2/dial-request",
    ] {
        assert!(spoken.contains(&protocol), "{protocol} is not in {spoken:?}");
    }
    let addresses: Vec<String> = info.listen_addrs.iter().map(ToString::to_string).collect();
    assert!(addresses.contains(&"/dns4/meet.example/tcp/4001".into()), "{addresses:?}");
    host.stop().await;
}

async fn discover(guest: &mut Guest, host: &Host) -> Vec<(PeerId, Vec<Multiaddr>)> {
    let server = host.peer;
    let name = rendezvous::Namespace::from_static(RUN);
    guest
        .ask(move |swarm| {
            swarm.behaviour_mut().rendezvous.discover(Some(name), None, None, server);
        })
        .await;
    guest
        .wait(|event| match event {
            SwarmEvent::Behaviour(SpeechEvent::Rendezvous(
                rendezvous::client::Event::Discovered { registrations, .. },
            )) => Some(
                registrations
                    .iter()
                    .map(|found| (found.record.peer_id(), found.record.addresses().to_vec()))
                    .collect(),
            ),
            _ => None,
        })
        .await
}

fn closest_peers(event: SwarmEvent<SpeechEvent>) -> Option<Vec<kad::PeerInfo>> {
    match event {
        SwarmEvent::Behaviour(SpeechEvent::Kad(kad::Event::OutboundQueryProgressed {
            result: kad::QueryResult::GetClosestPeers(found),
            step,
            ..
        })) if step.last => Some(found.map_or_else(|_| Vec::new(), |found| found.peers)),
        _ => None,
    }
}

fn found_providers(event: SwarmEvent<SpeechEvent>) -> Option<HashSet<PeerId>> {
    match event {
        SwarmEvent::Behaviour(SpeechEvent::Kad(kad::Event::OutboundQueryProgressed {
            result: kad::QueryResult::GetProviders(found),
            ..
        })) => Some(match found.unwrap() {
            kad::GetProvidersOk::FoundProviders { providers, .. } => providers,
            kad::GetProvidersOk::FinishedWithNoAdditionalRecord { .. } => HashSet::new(),
        }),
        _ => None,
    }
}

fn record_stored(event: SwarmEvent<SpeechEvent>) -> Option<bool> {
    match event {
        SwarmEvent::Behaviour(SpeechEvent::Kad(kad::Event::OutboundQueryProgressed {
            result: kad::QueryResult::PutRecord(stored),
            ..
        })) => Some(stored.is_ok()),
        _ => None,
    }
}
