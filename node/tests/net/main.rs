//! The network, with several nodes in one process and nothing but loopback between them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fairness;
mod finding;
mod greedy;
mod liar;
mod memory;
mod rebirth;
mod support;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use atoll_node::net::{NetError, NetEvent, Notice, start};
use atoll_protocol::crypto::{Key, content_id};
use atoll_protocol::fault::Verdict;
use atoll_protocol::fetch::FetchOutcome;

use memory::{Memory, Shared};
use support::{Net, bytes, config, pair, row, until};

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gossip_and_messages_arrive() {
    let (mut one, mut other) = pair().await;
    one.handle.publish(b"to all".to_vec());
    let (from, message, receipt) = other.message().await;
    assert_eq!((from, message.as_slice()), (one.node, &b"to all"[..]));
    other.handle.judge(receipt, Verdict::Accept);

    let long = bytes(200_000);
    other.handle.send(one.node, long.clone());
    let (from, message, receipt) = one.message().await;
    assert_eq!((from, message), (other.node, long));
    // A direct message has a receipt, too, and no harm comes from judging it.
    one.handle.judge(receipt, Verdict::Reject);
    one.handle.send(other.node, Vec::new());
    assert_eq!(other.message().await.1, b"");

    let counters = one.handle.counters();
    assert!(counters.control_down > 200_000 && counters.connections >= 1, "{counters:?}");
    assert_eq!((counters.payload_up, counters.dropped_up, counters.dropped_down), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gossip_is_relayed_only_once_accepted() {
    let (left, mut middle, mut right) = row().await;
    for text in ["held", "passed", "refused", "last"] {
        left.handle.publish(text.as_bytes().to_vec());
    }
    let mut held = None;
    for _ in 0..4 {
        let (from, message, receipt) = middle.message().await;
        assert_eq!(from, left.node);
        match message.as_slice() {
            b"held" => held = Some(receipt),
            b"refused" => middle.handle.judge(receipt, Verdict::Reject),
            _ => middle.handle.judge(receipt, Verdict::Accept),
        }
    }
    let mut passed = [right.message().await, right.message().await].map(|(from, message, _)| {
        assert_eq!(from, middle.node);
        message
    });
    passed.sort();
    assert_eq!(passed, [b"last".to_vec(), b"passed".to_vec()]);
    middle.handle.judge(held.expect("it came"), Verdict::Accept);
    assert_eq!(right.message().await.1, b"held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_between_all_others_passes_on_to_all() {
    let mut middle = Net::start(1, &[]).await;
    let mut around = Vec::new();
    for secret in 2..7 {
        around.push(Net::start(secret, &[&middle]).await);
    }
    for one in &around {
        // Left alone, they would hear of each other and meet.
        for other in around.iter().filter(|other| other.node != one.node) {
            one.handle.penalise(other.node, 100);
        }
    }
    middle.all_up(around.len()).await;
    let between = middle.node;
    let (first, others) = around.split_first_mut().unwrap();
    // They are passed on to from the moment at which each has asked for it, so more is said than
    // one word.
    let saying = async {
        for word in 0_u64.. {
            first.handle.publish(word.to_le_bytes().to_vec());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let passing_on = async {
        loop {
            let (_, _, receipt) = middle.message().await;
            middle.handle.judge(receipt, Verdict::Accept);
        }
    };
    let hearing = async {
        for other in others {
            assert_eq!(other.message().await.0, between);
        }
    };
    tokio::select! {
        () = saying => {}
        () = passing_on => {}
        () = hearing => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_bring_each_other_together() {
    let middle = Net::start(1, &[]).await;
    let mut left = Net::start(2, &[&middle]).await;
    let mut right = Net::start(3, &[&middle]).await;
    left.up(right.node).await;
    right.up(left.node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_arrives_whole() {
    let (mut one, other) = pair().await;
    for length in [0, 1, 256 * 1024, 256 * 1024 + 1, 5 * MIB + 12_345] {
        let content = bytes(length);
        let id = other.memory.put(content.clone());
        assert_eq!(one.fetch(id, &other).await.0, FetchOutcome::Stored, "{length}");
        assert_eq!(*one.memory.content(&id).unwrap(), content);
    }
    assert!(one.handle.counters().payload_down > 5 * MIB as u64);
    assert!(other.handle.counters().payload_up > 5 * MIB as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_arrives_over_tcp() {
    let mut listening = config(1, &[]);
    listening.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
    let one = Net::with(listening, Memory::default()).await;
    let mut dialling = config(2, &[&one]);
    dialling.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
    let mut other = Net::with(dialling, Memory::default()).await;
    other.up(one.node).await;
    let id = one.memory.put(bytes(5 * MIB));
    assert_eq!(other.fetch(id, &one).await.0, FetchOutcome::Stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_contents_arrive_at_once() {
    let (mut one, other) = pair().await;
    let contents: Vec<_> = (0..32).map(|count| other.memory.put(bytes(300_000 + count))).collect();
    for content in &contents {
        one.handle.fetch(*content, other.node, Vec::new(), 1 << 30);
    }
    let mut missing = contents.len();
    for _ in 0..20 * contents.len() {
        if missing == 0 {
            break;
        }
        let ended = one
            .wait(|event| match event {
                NetEvent::Fetched { content, outcome, .. } => Some((content, outcome)),
                _ => None,
            })
            .await;
        match ended {
            (_, FetchOutcome::Stored) => missing -= 1,
            // That many are more than a holder serves one peer at once: some are turned away.
            (content, FetchOutcome::Unreachable) => {
                one.handle.fetch(content, other.node, Vec::new(), 1 << 30);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(missing, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_fetch_goes_on_elsewhere() {
    let mut one = Net::start(1, &[]).await;
    // The outline reads all of its 20 chunks; then some are sent before the disk fails.
    let failing = Memory { fails_after: Some(30), ..Memory::default() };
    let first = Net::with(config(2, &[&one]), failing).await;
    let second = Net::start(3, &[&one]).await;
    one.all_up(2).await;
    let content = bytes(5 * MIB);
    let id = first.memory.put(content.clone());
    second.memory.put(content.clone());
    let (outcome, before) = one.fetch(id, &first).await;
    assert_eq!(outcome, FetchOutcome::Unreachable);
    assert!(before > 0 && one.memory.content(&id).is_none());
    let (outcome, after) = one.fetch(id, &second).await;
    assert_eq!(outcome, FetchOutcome::Stored);
    assert!(after < 5 * MIB as u64, "{after} bytes came again");
    assert_eq!(*one.memory.content(&id).unwrap(), content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_holders_share_the_work() {
    let mut one = Net::start(1, &[]).await;
    // After the 20 reads of the outline, the first chunk of each waits for the other's.
    let barrier = Arc::new(Barrier::new(2));
    let meeting = || Memory { meets_at: Some((21, barrier.clone())), ..Memory::default() };
    let first = Net::with(config(2, &[&one]), meeting()).await;
    let second = Net::with(config(3, &[&one]), meeting()).await;
    one.all_up(2).await;
    let content = bytes(5 * MIB);
    let id = first.memory.put(content.clone());
    second.memory.put(content.clone());
    let (outcome, came) = one.fetch_with(id, first.node, &[second.node], 1 << 30).await;
    assert_eq!(outcome, FetchOutcome::Stored);
    // A chunk that takes long is asked for twice.
    assert!(came >= 5 * MIB as u64, "{came}");
    assert_eq!(*one.memory.content(&id).unwrap(), content);
    for holder in [&first, &second] {
        assert!(holder.memory.reads.load(Ordering::SeqCst) > 20);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_liar_is_found_out_and_left_out() {
    let content = bytes(5 * MIB);
    let id = content_id(&content);
    let address = liar::start(9, content.clone(), liar::Vice::Lies).await;
    let liar = Key::from_secret([9; 32]).node();
    let mut dialling = config(1, &[]);
    dialling.peers = vec![address];
    let mut one = Net::with(dialling, Memory::default()).await;
    one.up(liar).await;
    let (outcome, _) = one.fetch_with(id, liar, &[], 1 << 30).await;
    assert_eq!(outcome, FetchOutcome::Wrong);
    // Asked for something small it sends what it has, which is more.
    let (outcome, came) = one.fetch_with(id, liar, &[], 100_000).await;
    assert_eq!((outcome, came), (FetchOutcome::NotFound, 0));

    // As one of several it does no harm.
    let honest = Net::start(2, &[&one]).await;
    honest.memory.put(content.clone());
    one.up(honest.node).await;
    let (outcome, _) = one.fetch_with(id, honest.node, &[liar], 1 << 30).await;
    assert_eq!(outcome, FetchOutcome::Stored);
    assert_eq!(*one.memory.content(&id).unwrap(), content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_content_comes_in_one_go_and_is_verified() {
    let (mut one, other) = pair().await;
    let content = bytes(100_000);
    let id = other.memory.put(content.clone());
    let (outcome, came) = one.fetch_with(id, other.node, &[], 100_000).await;
    assert_eq!((outcome, came), (FetchOutcome::Stored, 100_000));
    assert_eq!(*one.memory.content(&id).unwrap(), content);
    assert_eq!(
        other.memory.reads.load(Ordering::SeqCst),
        1,
        "it was read once, and nothing was outlined"
    );

    let longer = other.memory.put(bytes(300_000));
    let (outcome, came) = one.fetch_with(longer, other.node, &[], 200_000).await;
    assert_eq!((outcome, came), (FetchOutcome::NotFound, 0));

    let address = liar::start(9, content.clone(), liar::Vice::Lies).await;
    let liar = Key::from_secret([9; 32]).node();
    let mut dialling = config(3, &[]);
    dialling.peers = vec![address];
    let mut third = Net::with(dialling, Memory::default()).await;
    third.up(liar).await;
    let (outcome, _) = third.fetch_with(id, liar, &[], 100_000).await;
    assert_eq!(outcome, FetchOutcome::Wrong);
    assert!(third.memory.content(&id).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trickling_holder_does_not_stall_a_fetch() {
    let content = bytes(5 * MIB);
    let id = content_id(&content);
    let address = liar::start(9, content.clone(), liar::Vice::Trickles).await;
    let slow = Key::from_secret([9; 32]).node();
    let mut dialling = config(1, &[]);
    dialling.peers = vec![address];
    let mut one = Net::with(dialling, Memory::default()).await;
    one.up(slow).await;
    let quick = Net::start(2, &[&one]).await;
    quick.memory.put(content.clone());
    one.up(quick.node).await;
    // The slow one is asked first, so it has some chunks to send, and would take minutes.
    let (outcome, _) = one.fetch_with(id, slow, &[quick.node], 1 << 30).await;
    assert_eq!(outcome, FetchOutcome::Stored);
    assert_eq!(*one.memory.content(&id).unwrap(), content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_peer_cannot_hold_every_slot() {
    let one = Net::start(1, &[]).await;
    let id = one.memory.put(bytes(5 * MIB));
    let _streams = greedy::start(9, &one.address, id, 12).await;
    let mut other = Net::start(2, &[&one]).await;
    other.up(one.node).await;
    assert_eq!(other.fetch(id, &one).await.0, FetchOutcome::Stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_or_too_long_does_not_come() {
    let (mut one, other) = pair().await;
    let content = bytes(MIB);
    let id = content_id(&content);
    assert_eq!(one.fetch(id, &other).await, (FetchOutcome::NotFound, 0));
    other.memory.put(content);
    let (outcome, came) = one.fetch_with(id, other.node, &[], MIB as u64 - 1).await;
    // Whoever said that it is shorter lied, not who has it.
    assert_eq!((outcome, came), (FetchOutcome::NotFound, 0));
    let stranger = Key::from_secret([77; 32]).node();
    let (outcome, _) = one.fetch_with(id, stranger, &[], 1 << 30).await;
    assert_eq!(outcome, FetchOutcome::Unreachable);
    let (outcome, _) = one.fetch_with(id, other.node, &[], MIB as u64).await;
    assert_eq!(outcome, FetchOutcome::Stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_content_is_not_served() {
    let mut broken = config(1, &[]);
    broken.upload_slots = 1;
    let mut one = Net::with(broken, Memory::default()).await;
    let mut other = Net::start(2, &[&one]).await;
    other.up(one.node).await;
    for length in [MIB, MIB / 8] {
        let id = one.memory.put(bytes(length));
        one.memory.spoil(&id);
        let (outcome, _) = other.fetch_with(id, one.node, &[], length as u64).await;
        assert_eq!(outcome, FetchOutcome::NotFound);
        one.wait(|event| (event == NetEvent::Notice(Notice::Broken(id))).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_genesis_is_given_to_whoever_asks() {
    let mut first = config(1, &[]);
    first.genesis = bytes(3000).into();
    let one = Net::with(first, Memory::default()).await;
    let other = Net::start(2, &[&one]).await;
    let wait = Duration::from_secs(30);
    let genesis = other.handle.genesis(wait, |genesis| genesis.len() == 3000).await.unwrap();
    assert_eq!(genesis, bytes(3000));
    let none = one.handle.genesis(Duration::ZERO, |_| true).await;
    assert!(matches!(none, Err(NetError::NoGenesis { .. })), "{none:?}");
    other.handle.serve_genesis(genesis.into());
    assert_eq!(one.handle.genesis(wait, |_| true).await.unwrap(), bytes(3000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_content_in_a_moment_helps() {
    let mut slow = config(1, &[]);
    slow.max_upload = Some(2 * MIB as u64);
    let first = Net::with(slow, Memory::default()).await;
    let second = Net::start(2, &[&first]).await;
    let mut third = Net::start(3, &[&first, &second]).await;
    third.all_up(2).await;
    let large = bytes(8 * MIB);
    let content = first.memory.put(large.clone());
    third.handle.fetch(content, first.node, vec![second.node], u64::from(u32::MAX));
    // The outline takes a read for each chunk, and is there before anybody is asked for one.
    until(|| first.memory.reads.load(Ordering::Relaxed) > 34).await;
    second.memory.put(large);
    let outcome = third.wait(|event| match event {
        NetEvent::Fetched { outcome, .. } => Some(outcome),
        _ => None,
    });
    assert_eq!(outcome.await, FetchOutcome::Stored);
    assert!(second.memory.reads.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_points_end_in_silence() {
    let (mut one, mut other) = pair().await;
    one.handle.penalise(other.node, 60);
    one.handle.penalise(other.node, 60);
    let blocked = other.node;
    one.wait(|event| {
        matches!(event, NetEvent::Notice(Notice::Blocked { node, .. }) if node == blocked)
            .then_some(())
    })
    .await;
    one.down(other.node).await;
    other.down(one.node).await;
    assert_eq!(one.fetch(content_id(b"x"), &other).await.0, FetchOutcome::Unreachable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_back_is_found_again() {
    let (mut one, mut other) = pair().await;
    one.handle.clone().leave().await;
    other.down(one.node).await;
    let (listen, _) = one.address.split_once("/p2p/").unwrap();
    let mut again = config(1, &[]);
    again.listen = vec![listen.to_owned()];
    // It knows nobody: the other one has to dial.
    one = Net::with(again, Memory::default()).await;
    other.up(one.node).await;
    one.up(other.node).await;
    one.handle.publish(b"again".to_vec());
    assert_eq!(other.message().await.1, b"again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_words_are_heard() {
    let (one, mut other) = pair().await;
    one.handle.publish(b"goodbye".to_vec());
    one.handle.leave().await;
    assert_eq!(other.message().await.1, b"goodbye");
    other.down(one.node).await;
}

#[tokio::test]
async fn bad_addresses_are_named() {
    let contents = || Arc::new(Shared(Arc::default()));
    let mut wrong = config(1, &[]);
    wrong.listen = vec!["here".into()];
    let error = start(wrong, contents()).unwrap_err();
    assert!(error.to_string().contains("\"here\" is not an address"), "{error}");
    let mut unnamed = config(1, &[]);
    unnamed.bootstrap = vec!["/ip4/127.0.0.1/tcp/1".into()];
    assert!(matches!(start(unnamed, contents()), Err(NetError::Unnamed(_))));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut busy = config(1, &[]);
    busy.listen = vec![format!("/ip4/127.0.0.1/tcp/{}", taken.local_addr().unwrap().port())];
    let error = start(busy, contents()).unwrap_err();
    assert!(matches!(error, NetError::Listen { .. }), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
}
