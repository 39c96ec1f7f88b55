//! Nodes that know nobody but a bootstrap.

use std::time::{Duration, SystemTime};

use atoll_bootstrap::server::Server;
use atoll_node::net::{Nat, NetConfig, NetEvent, Notice, Reachability, Way};
use atoll_protocol::fault::Verdict;
use atoll_protocol::fetch::FetchOutcome;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::memory::Memory;
use crate::support::{Net, bytes, config, until};

/// The real bootstrap, in this process.
struct Bootstrap {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl Bootstrap {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key").to_str().unwrap().to_owned();
        let listen = "/ip4/127.0.0.1/udp/0/quic-v1";
        let arguments = ["bootstrap", "--http", "127.0.0.1:0", "--key", &key, "--listen", listen];
        let arguments = arguments.into_iter().map(Into::into).collect();
        let settings = atoll_bootstrap::config::settings(arguments).unwrap();
        let server = Server::start(settings).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let (tell, mut told) = mpsc::channel(8);
        let task =
            tokio::spawn(server.run(async { stopped.await.unwrap_or_default() }, move |address| {
                tell.try_send(address).unwrap()
            }));
        let address = told.recv().await.unwrap().to_string();
        Self { address, stop, task, _folder: folder }
    }

    async fn node(&self, secret: u8, listens: bool) -> Net {
        let mut settings = config(secret, &[]);
        settings.bootstrap = vec![self.address.clone()];
        if !listens {
            settings.listen.clear();
        }
        Net::with(settings, Memory::default()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_looks_for_who_only_visited() {
    let bootstrap = Bootstrap::start().await;
    let mut one = bootstrap.node(1, true).await;
    for visits in [false, true] {
        let mut settings = config(if visits { 2 } else { 3 }, &[]);
        settings.bootstrap = vec![bootstrap.address.clone()];
        settings.listen.clear();
        settings.visits = visits;
        let mut guest = Net::with(settings, Memory::default()).await;
        guest.up(one.node).await;
        one.up(guest.node).await;
        let name = guest.handle.status().peer;
        if !visits {
            // A relay takes connections for it, and others are told.
            until(|| !guest.handle.status().external.is_empty()).await;
            until(|| knows(&one, &name)).await;
        }
        if visits {
            // Longer than it took the one before.
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(guest.handle.status().external.is_empty());
        }
        let gone = guest.node;
        guest.handle.leave().await;
        one.down(gone).await;
        until(|| one.handle.status().peers.is_empty()).await;
        assert_eq!(knows(&one, &name), !visits);
    }
}

/// Whether a node would look for a peer of this name at its next start.
fn knows(net: &Net, name: &str) -> bool {
    net.handle.status().cache.iter().any(|address| address.ends_with(name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_meet_at_the_bootstrap_and_stay_without_it() {
    let bootstrap = Bootstrap::start().await;
    let mut one = bootstrap.node(1, true).await;
    let mut other = bootstrap.node(2, true).await;
    one.up(other.node).await;
    other.up(one.node).await;
    // However they met, in the end they need nobody between them.
    until(|| one.handle.status().reachability == Reachability::Public).await;
    until(|| one.handle.peers().iter().all(|peer| peer.way != Way::Relayed)).await;
    until(|| one.handle.status().nat.kind == Nat::None).await;
    until(|| one.handle.addresses().contains(&other.address)).await;

    bootstrap.stop.send(()).unwrap();
    bootstrap.task.await.unwrap();
    one.wait(|event| match event {
        NetEvent::Notice(Notice::BootstrapLost(_)) => Some(()),
        NetEvent::PeerDown(_) => panic!("peers are lost with the bootstrap"),
        _ => None,
    })
    .await;
    // What was sent over the relay at that moment is lost with it.
    let saying = async {
        for word in 0_u64.. {
            one.handle.publish(word.to_le_bytes().to_vec());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let hearing = other.wait(|event| match event {
        NetEvent::Received { from, .. } => Some(from),
        NetEvent::PeerDown(_) => panic!("peers are lost with the bootstrap"),
        _ => None,
    });
    tokio::select! {
        () = saying => {}
        from = hearing => assert_eq!(from, one.node),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_bootstrap_is_asked_whether_the_outside_reaches_a_node() {
    let bootstrap = Bootstrap::start().await;
    let mut nodes = Vec::new();
    for secret in 1..=6 {
        nodes.push(bootstrap.node(secret, true).await);
    }
    // Were peers to try as well, they would be drawn mostly, and their word does not count.
    for node in &nodes {
        until(|| node.handle.status().reachability == Reachability::Public).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_is_compared_with_the_median_of_others() {
    let hour = Duration::from_secs(3600);
    let mut nets = vec![Net::start(1, &[]).await];
    for (secret, clock) in [
        (2, (|| SystemTime::now() + Duration::from_secs(3600)) as fn() -> SystemTime),
        (3, || SystemTime::now() + Duration::from_secs(3600)),
        (4, || SystemTime::UNIX_EPOCH),
    ] {
        let settings = NetConfig { clock, ..config(secret, &[&nets[0]]) };
        nets.push(Net::with(settings, Memory::default()).await);
    }
    let handle = &nets[0].handle;
    until(|| handle.status().clock.is_some_and(|clock| clock.peers == 3)).await;
    // One that is off by decades changes nothing.
    let off = Duration::from_millis(handle.status().clock.unwrap().ms.try_into().unwrap());
    assert!(off.abs_diff(hour) < Duration::from_secs(60), "{off:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_whom_nobody_reaches_meet_through_the_relay() {
    let bootstrap = Bootstrap::start().await;
    let mut one = bootstrap.node(1, false).await;
    let mut other = bootstrap.node(2, false).await;
    one.up(other.node).await;
    other.up(one.node).await;
    until(|| one.handle.peers().iter().any(|peer| peer.way == Way::Relayed)).await;
    until(|| one.handle.status().relays == [bootstrap.address.clone()]).await;
    assert_ne!(one.handle.status().reachability, Reachability::Public);
    one.handle.publish(b"through it".to_vec());
    let (from, message, receipt) = other.message().await;
    assert_eq!((from, message), (one.node, b"through it".to_vec()));
    other.handle.judge(receipt, Verdict::Accept);
    let id = one.memory.put(bytes(3_000_000));
    assert_eq!(other.fetch(id, &one).await.0, FetchOutcome::Stored);
}
