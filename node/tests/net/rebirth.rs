//! Nodes that die without a word and come back.

use std::thread::{self, JoinHandle};

use atoll_node::net::NetConfig;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::memory::Memory;
use crate::support::{Net, config, until};

/// A network on a thread of its own that can die at once, as a killed process does.
struct Mortal {
    kill: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Mortal {
    async fn start(config: NetConfig) -> Self {
        let (tell, told) = oneshot::channel();
        let (kill, killed) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            // One thread: once it is out of `block_on`, nothing of the network is ever polled
            // again, so no connection is closed and no packet is sent.
            let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _net = Net::with(config, Memory::default()).await;
                tell.send(()).unwrap();
                killed.await.unwrap();
            });
        });
        told.await.unwrap();
        Self { kill, thread }
    }

    fn kill(self) {
        self.kill.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_peer_that_comes_back_is_heard_and_hears() {
    let mut one = Net::start(1, &[]).await;
    let mortal = Mortal::start(config(2, &[&one])).await;
    let node = atoll_protocol::crypto::Key::from_secret([2; 32]).node();
    one.up(node).await;
    mortal.kill();
    // It comes back while its old connection still seems to be up here.
    let mut again = Net::start(2, &[&one]).await;
    one.down(node).await;
    one.up(node).await;
    again.up(one.node).await;
    again.handle.publish(b"back".to_vec());
    assert_eq!(one.message().await.1, b"back");
    one.handle.publish(b"welcome".to_vec());
    assert_eq!(again.message().await.1, b"welcome");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_its_ports() {
    let mut first = config(1, &[]);
    first.listen.push("/ip4/127.0.0.1/tcp/0".into());
    let one = Net::with(first.clone(), Memory::default()).await;
    let listening = || one.handle.status().listening;
    until(|| listening().len() == 2).await;
    let before = listening();
    first.peers = one.handle.addresses();
    first.peers.push("not an address".into());
    one.handle.clone().leave().await;
    let free = |address: &String| {
        let place = ("127.0.0.1", address.split('/').nth(4).unwrap().parse().unwrap());
        if address.contains("/udp/") {
            std::net::UdpSocket::bind(place).is_ok()
        } else {
            std::net::TcpListener::bind(place).is_ok()
        }
    };
    // A port is kept a little longer than whoever used it.
    until(|| before.iter().all(free)).await;
    let again = Net::with(first.clone(), Memory::default()).await;
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let before = sorted(before);
    until(|| sorted(again.handle.status().listening) == before).await;
    // Where somebody else has them now, any will do.
    let other = Net::with(first, Memory::default()).await;
    until(|| other.handle.status().listening.len() == 2).await;
    assert!(other.handle.status().listening.iter().all(|it| !before.contains(it)));
}
