use super::*;

fn address(port: u16) -> Multiaddr {
    format!("/ip4/203.0.113.5/tcp/{port}").parse().unwrap()
}

/// A book that knows one peer at port 1.
fn known(now: Instant) -> (Book, PeerId) {
    let (mut book, peer) = (Book::new(1), PeerId::random());
    assert!(book.learn(peer, address(1), Word::Good, now));
    (book, peer)
}

/// Fails until the back-off is as long as it gets.
fn fail(book: &mut Book, peer: &PeerId, mut now: Instant) -> (Vec<Duration>, Instant) {
    let mut gaps = Vec::new();
    for _ in 0..10 {
        let from = now;
        while book.due(now, 8).is_empty() {
            now += Duration::from_millis(100);
        }
        gaps.push(now - from);
        book.failed(peer, now);
    }
    (gaps, now)
}

#[test]
fn lost_peers_are_dialled_again_ever_more_seldom() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.alone(false, now);
    let (gaps, now) = fail(&mut book, &peer, now);
    assert_eq!(gaps[0], Duration::ZERO);
    assert!(gaps[1] >= Duration::from_millis(700) && gaps[1] <= Duration::from_millis(1400));
    assert!(gaps[9] >= Duration::from_secs(45) && gaps[9] <= Duration::from_secs(76));
    book.hurry(&peer, now);
    assert_eq!(book.due(now + BACK_OFF_MIN, 8).len(), 1);
    book.connected(&peer, None, now);
    assert!(book.due(now + BACK_OFF_MAX * 2, 8).is_empty());
    book.answered(&peer);
    book.disconnected(&peer, now);
    assert_eq!(book.due(now + BACK_OFF_MIN * 2, 8).len(), 1);
}

#[test]
fn a_lost_connection_is_dialled_again_at_once_if_it_had_lasted() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    for lasted in [LASTING_TIME, LASTING_TIME] {
        book.connected(&peer, None, now);
        book.disconnected(&peer, now + lasted);
        assert_eq!(book.due(now + lasted, 8).len(), 1);
    }
    // Whoever hangs up at once has to wait.
    book.connected(&peer, None, now);
    book.answered(&peer);
    book.disconnected(&peer, now);
    assert!(book.due(now, 8).is_empty());
    assert_eq!(book.due(now + BACK_OFF_MIN * 2, 8).len(), 1);
}

#[test]
fn whoever_is_heard_of_is_dialled_soon() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.alone(false, now);
    for (word, port) in [(Word::Good, 1), (Word::Hearsay, 1), (Word::Good, 2)] {
        let (_, now) = fail(&mut book, &peer, now);
        assert!(book.due(now + BACK_OFF_MIN * 2, 8).is_empty());
        book.learn(peer, address(port), word, now);
        assert_eq!(book.due(now + BACK_OFF_MIN, 8).len(), 1);
        book.failed(&peer, now);
    }
}

#[test]
fn while_alone_nobody_who_may_help_waits_for_long() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.fix(&peer, false);
    let (_, now) = fail(&mut book, &peer, now);
    assert!(book.due(now + BACK_OFF_ALONE, 8).is_empty());
    book.alone(true, now);
    book.alone(true, now + BACK_OFF_MIN);
    assert_eq!(book.due(now + BACK_OFF_ALONE, 8).len(), 1);
}

#[test]
fn a_bootstrap_never_waits_for_long() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.fix(&peer, true);
    let (gaps, _) = fail(&mut book, &peer, now);
    assert!(gaps[9] <= BACK_OFF_BOOTSTRAP * 130 / 100, "{gaps:?}");
}

#[test]
fn what_is_avoided_stays_so_when_it_goes() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.connected(&peer, None, now);
    book.avoid(&peer, now);
    book.disconnected(&peer, now);
    book.learn(peer, address(2), Word::Good, now);
    book.hurry(&peer, now);
    assert!(book.due(now + AVOID_TIME / 2, 8).is_empty());
    assert_eq!(book.due(now + AVOID_TIME, 8).len(), 1);
}

#[test]
fn the_book_is_bounded_and_keeps_the_configured() {
    let (mut book, now) = (Book::new(2), Instant::now());
    let fixed = PeerId::random();
    book.learn(fixed, address(1), Word::Good, now);
    book.fix(&fixed, true);
    for _ in 0..KNOWN_PEERS_MAX + 50 {
        book.learn(PeerId::random(), address(2), Word::Good, now);
    }
    for port in 0..100 {
        book.learn(fixed, address(port), Word::Good, now);
    }
    assert_eq!(book.entries.len(), KNOWN_PEERS_MAX);
    assert_eq!(book.addresses(&fixed).len(), ADDRESSES_PER_PEER_MAX);
    assert_eq!(book.due(now, 4).len(), 5);
    assert_eq!(book.due(now, 0).len(), 0);
}

#[test]
fn a_cache_full_of_the_dead_leaves_room_for_newcomers() {
    let (mut book, now) = (Book::new(2), Instant::now());
    for _ in 0..KNOWN_PEERS_MAX {
        let peer = PeerId::random();
        book.learn(peer, address(1), Word::Good, now);
        book.fix(&peer, false);
    }
    assert!(book.learn(PeerId::random(), address(2), Word::Good, now));
    assert!(book.cache().len() <= CACHED_PEERS_MAX);
}

#[test]
fn where_a_peer_was_reached_comes_first() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.learn(peer, address(2), Word::Good, now);
    book.connected(&peer, Some(&address(1)), now);
    assert_eq!(book.addresses(&peer)[0], to_peer(&address(1), peer));
    assert!(book.cache().is_empty());
    book.ours(&peer);
    assert_eq!(book.cache().len(), 2);
    book.wrong(&peer, &address(1));
    assert_eq!(book.addresses(&peer), [to_peer(&address(2), peer)]);
}

#[test]
fn stale_addresses_do_not_crowd_out_live_ones() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    for port in 2..100 {
        book.learn(peer, address(port), Word::Good, now);
    }
    let name: Multiaddr = "/dns4/peer.example/tcp/1".parse().unwrap();
    book.learn(peer, name.clone(), Word::Hearsay, now);
    // Where others say it is does not come before where it was.
    assert_eq!(book.addresses(&peer)[0], to_peer(&address(99), peer));
    book.connected(&peer, Some(&address(7)), now);
    book.learn(peer, address(200), Word::Good, now);
    book.replace(&peer, &[address(300), address(301)], Some(&address(7)));
    let left = [address(7), name, address(300), address(301)].map(|it| to_peer(&it, peer));
    assert_eq!(book.addresses(&peer), left);
}

#[test]
fn a_short_life_does_not_forget_those_it_did_not_meet() {
    let now = Instant::now();
    let (mut book, peer) = known(now);
    book.fix(&peer, false);
    assert_eq!(book.cache(), [to_peer(&address(1), peer).to_string()]);
}
