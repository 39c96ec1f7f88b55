//! The relay carries bytes, and nobody gets more than their share of anything.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/party.rs"]
mod party;

use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::StreamProtocol;
use libp2p::swarm::SwarmEvent;

use party::{Guest, Host, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_carries_a_payload() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let (mut hidden, mut guest) = (Guest::new().await, Guest::new().await);
    hidden.reserve(&host).await;
    guest.dial_through(&host, &hidden).await.unwrap();
    let payload: Vec<u8> = (0..8_u32 << 20).map(|index| (index % 251) as u8).collect();
    assert!(carry(&mut guest, &mut hidden, &payload).await.unwrap() == payload);
    host.counts(&[
        "atoll_bootstrap_circuits 1",
        "atoll_bootstrap_requests_total{kind=\"reserve\",outcome=\"served\"} 1",
    ])
    .await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_ends_at_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &["--relay-bytes", "1048576"]).await;
    let (mut hidden, mut guest) = (Guest::new().await, Guest::new().await);
    hidden.reserve(&host).await;
    guest.dial_through(&host, &hidden).await.unwrap();
    // Its reservation outlives the circuit: the next one begins to count anew.
    for _ in 0..2 {
        carry(&mut guest, &mut hidden, &[7; 256 * 1024]).await.unwrap();
        let carried = carry(&mut guest, &mut hidden, &[7; 2 << 20]).await;
        assert!(carried.is_err());
        guest
            .wait(|event| match event {
                SwarmEvent::ConnectionClosed { peer_id, .. } => {
                    (peer_id == hidden.peer).then_some(())
                }
                _ => None,
            })
            .await;
        guest.dial_through(&host, &hidden).await.unwrap();
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_over_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &["--relay-max-circuits", "1"]).await;
    let (mut hidden, mut first) = (Guest::new().await, Guest::new().await);
    let mut second = Guest::new().await;
    hidden.reserve(&host).await;
    first.dial_through(&host, &hidden).await.unwrap();
    let refused = second.dial_through(&host, &hidden).await.unwrap_err();
    assert!(refused.contains("ResourceLimitExceeded"), "{refused}");
    host.counts(&["atoll_bootstrap_requests_total{kind=\"circuit\",outcome=\"refused\"} 1"]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_peer_opens_sixteen_circuits_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let mut greedy = Guest::new().await;
    let mut hidden = Vec::new();
    for _ in 0..17 {
        let mut guest = Guest::new().await;
        guest.reserve(&host).await;
        hidden.push(guest);
    }
    for guest in &hidden[..16] {
        greedy.dial_through(&host, guest).await.unwrap();
    }
    let refused = greedy.dial_through(&host, &hidden[16]).await.unwrap_err();
    assert!(refused.contains("ResourceLimitExceeded"), "{refused}");
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited_in_all_and_from_one_address() {
    let folder = tempfile::tempdir().unwrap();
    // One in all; and two from each address out of eight.
    for (limit, welcome) in [("1", 1), ("8", 2)] {
        let host = Host::start(folder.path(), &["--max-connections", limit]).await;
        let mut guests = Vec::new();
        for _ in 0..welcome {
            let mut guest = Guest::new().await;
            guest.meet(&host.tcp).await;
            guests.push(guest);
        }
        let mut late = Guest::new().await;
        let address = host.tcp.clone();
        late.ask(move |swarm| swarm.dial(address).unwrap()).await;
        late.wait(|event| match event {
            SwarmEvent::ConnectionClosed { .. } | SwarmEvent::OutgoingConnectionError { .. } => {
                Some(())
            }
            _ => None,
        })
        .await;
        let connections = format!("atoll_bootstrap_connections {welcome}");
        host.counts(&["atoll_bootstrap_refused_total 1", &connections]).await;
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_fills_the_memory_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let mut flooder = Guest::new().await;
    flooder.meet(&host.tcp).await;
    let label = "a".repeat(60);
    let name = format!("/dns4/{label}.{label}.{label}/tcp/1");
    flooder
        .ask(move |swarm| {
            for _ in 0..64 {
                swarm.add_external_address(name.parse().unwrap());
            }
            for port in 1..64_u16 {
                swarm.add_external_address(
                    name.replace("tcp/1", &format!("tcp/{port}")).parse().unwrap(),
                );
            }
        })
        .await;
    let mut registered = 0;
    while flooder.register(&host).await.is_ok() {
        registered += 1;
        assert!(registered < 4096, "nothing stops it");
    }
    assert!(registered > 1);
    host.counts(&["atoll_bootstrap_cut_off_total 1"]).await;
    // Another key does not help.
    let mut again = Guest::new().await;
    let address = host.tcp.clone();
    again.ask(move |swarm| swarm.dial(address).unwrap()).await;
    again
        .wait(|event| match event {
            SwarmEvent::ConnectionClosed { .. } => Some(()),
            _ => None,
        })
        .await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_is_gone_when_one_end_is() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path(), &[]).await;
    let (mut hidden, mut guest) = (Guest::new().await, Guest::new().await);
    hidden.reserve(&host).await;
    guest.dial_through(&host, &hidden).await.unwrap();
    let gone = hidden.peer;
    drop(hidden);
    guest
        .wait(|event| match event {
            SwarmEvent::ConnectionClosed { peer_id, .. } => (peer_id == gone).then_some(()),
            _ => None,
        })
        .await;
    host.counts(&["atoll_bootstrap_circuits 0"]).await;
    host.stop().await;
}

/// Sends `bytes` from one to the other, and returns what arrived.
async fn carry(from: &mut Guest, to: &mut Guest, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut incoming = to.streams.accept(ECHO).unwrap();
    let receive = async {
        let (_, mut stream) = incoming.next().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.map(|_| received)
    };
    let send = async {
        let mut stream = from.streams.open_stream(to.peer, ECHO).await.unwrap();
        stream.write_all(bytes).await?;
        stream.close().await
    };
    let (received, sent) = soon(futures::future::join(receive, send)).await;
    sent.and(received).and_then(|received| {
        if received.len() == bytes.len() {
            Ok(received)
        } else {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        }
    })
}

const ECHO: StreamProtocol = StreamProtocol::new("/test/carry");
