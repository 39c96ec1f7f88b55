//! The lab itself: what it promises to the tests that start nodes in it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use atoll_protocol::genesis::Genesis;
use lab::{Host, Lab, Nat, wait_for};

#[test]
fn hosts_reach_each_other() {
    let Some(lab) = Lab::new("reach") else { return };
    let (a, b) = (lab.host("a"), lab.host("b"));
    assert_ne!(a.address(), b.address());
    wait_until_reached(&a, &b);
    wait_until_reached(&b, &a);
    wait_until_reached_at(&a, &b, b.address6().unwrap().into());
    wait_until_reached_at(&a, &a, Ipv4Addr::LOCALHOST.into());
    // Each host's loopback is its own.
    assert!(!reaches(&a, &b, Ipv4Addr::LOCALHOST.into()));
}

#[test]
fn multicast_reaches_everybody() {
    let Some(lab) = Lab::new("multicast") else { return };
    let (a, b, c) = (lab.host("a"), lab.host("b"), lab.host("c"));
    let group = Ipv4Addr::new(224, 0, 0, 251);
    let listeners = [&b, &c].map(|host| {
        let listener = udp(host, 5353);
        host.within(|| listener.join_multicast_v4(&group, &host.address()).unwrap());
        listener
    });
    let sender = udp(&a, 0);
    for listener in listeners {
        let (_, from) = wait_for("a packet to the group", LONG, || {
            sender.send_to(b"who is there?", (group, 5353)).unwrap();
            receive(&listener)
        });
        assert_eq!(from.ip(), IpAddr::from(a.address()));
    }
}

#[test]
fn a_shaped_link_is_slow_both_ways() {
    let Some(lab) = Lab::new("shape") else { return };
    let (a, b) = (lab.host("a"), lab.host("b"));
    a.shape("20mbit");
    for (from, to) in [(&a, &b), (&b, &a)] {
        let ((_, sent), (received, _)) = (from.bytes(), to.bytes());
        let took = transfer(from, to, TRANSFER_BYTES);
        // A slow machine only makes it longer, and the buckets hold less than a tenth.
        let shortest = TRANSFER_BYTES as f64 * 0.9 * 8.0 / 20e6;
        assert!(took.as_secs_f64() > shortest, "{took:?} is too fast");
        let (sent, received) = (from.bytes().1 - sent, to.bytes().0 - received);
        for bytes in [sent, received] {
            // Headers of 66 bytes for each 1448, and some packets sent again.
            let share = bytes as f64 / TRANSFER_BYTES as f64;
            assert!((1.04..1.3).contains(&share), "{bytes} on the wire");
        }
    }
    a.unshape();
    transfer(&a, &b, TRANSFER_BYTES);
}

#[test]
fn a_lossy_link_loses_both_ways() {
    let Some(lab) = Lab::new("lose") else { return };
    let (a, b, c) = (lab.host("a"), lab.host("b"), lab.host("c"));
    assert_eq!(arriving(&a, &b, LONG), PACKETS);
    a.lose(90.0);
    a.lose(40.0);
    for (from, to) in [(&a, &b), (&b, &a)] {
        let arrived = arriving(from, to, SHORT);
        // Six hundredths either way are more than five standard deviations.
        assert!((PACKETS * 45 / 100..PACKETS * 75 / 100).contains(&arrived), "{arrived}");
    }
    assert_eq!(arriving(&b, &c, LONG), PACKETS);
    a.lose(0.0);
    assert_eq!(arriving(&a, &b, LONG), PACKETS);
}

#[test]
fn a_cable_is_pulled_and_put_back() {
    let Some(lab) = Lab::new("cable") else { return };
    let (a, b) = (lab.host("a"), lab.host("b"));
    a.link_down();
    assert!(!reaches(&a, &b, b.address().into()));
    assert!(!reaches(&b, &a, a.address().into()));
    a.link_up();
    wait_until_reached(&a, &b);
    wait_until_reached(&b, &a);
    wait_until_reached_at(&b, &a, a.address6().unwrap().into());
}

#[test]
fn a_partition_cuts_and_heals() {
    let Some(lab) = Lab::new("partition") else { return };
    let hosts = ["a", "b", "c", "d"].map(|name| lab.host(name));
    let [a, b, c, d] = &hosts;
    let hidden = lab.behind_nat("e", Nat::Cone);
    lab.partition(&[a, b], &[c, d, &hidden]);
    for (one, other, address) in [
        (a, c, IpAddr::from(c.address())),
        (c, a, a.address().into()),
        (b, d, d.address().into()),
        (d, b, b.address6().unwrap().into()),
        (&hidden, a, a.address().into()),
    ] {
        assert!(!reaches(one, other, address), "{} reaches {}", one.name(), other.name());
    }
    wait_until_reached(a, b);
    wait_until_reached(c, d);
    wait_until_reached(&hidden, c);
    // Another partition replaces the first.
    lab.partition(&[a, c], &[b]);
    wait_until_reached(a, c);
    assert!(!reaches(a, b, b.address().into()));
    lab.heal();
    for (one, other) in [(a, b), (a, c), (d, b), (&hidden, a)] {
        wait_until_reached(one, other);
    }
    lab.heal();
}

#[test]
fn a_nat_hides_its_host() {
    let Some(lab) = Lab::new("nat") else { return };
    let public = lab.host("public");
    for (name, kind) in [("cone", Nat::Cone), ("symmetric", Nat::Symmetric)] {
        let hidden = lab.behind_nat(name, kind);
        wait_until_reached(&hidden, &public);
        assert!(!reaches(&public, &hidden, hidden.public_address().into()), "{kind:?}");
        assert!(!reaches(&public, &hidden, hidden.address().into()), "{kind:?}");
        assert_eq!(hidden.address6(), None);
        // One socket, seen by two others.
        let (inner, seers) = (udp(&hidden, 0), [udp(&public, 0), udp(&public, 0)]);
        let [one, other] = seers.map(|seer| seen(&inner, &public, &seer));
        assert_eq!(one.ip(), IpAddr::from(hidden.public_address()));
        assert_eq!(one == other, kind == Nat::Cone, "{one} and {other}");
    }
}

#[test]
fn holes_are_punched_through_cones_only() {
    let Some(lab) = Lab::new("punch") else { return };
    let meeting = lab.host("meeting");
    let seer = udp(&meeting, 0);
    for kind in [Nat::Cone, Nat::Symmetric] {
        let hosts = ["one", "two"].map(|name| lab.behind_nat(&format!("{kind:?}-{name}"), kind));
        let sockets = hosts.each_ref().map(|host| udp(host, 0));
        let [one, two] = sockets.each_ref().map(|socket| seen(socket, &meeting, &seer));
        let mut met = [false, false];
        for _ in 0..PUNCHES {
            let _ = sockets[0].send_to(b"punch", two);
            let _ = sockets[1].send_to(b"punch", one);
            for (met, socket) in met.iter_mut().zip(&sockets) {
                *met |= receive(socket).is_ok_and(|(text, _)| text == b"punch");
            }
        }
        assert_eq!(met, [kind == Nat::Cone; 2], "{kind:?}");
    }
}

#[test]
fn a_panic_of_a_process_fails_its_test() {
    let Some(lab) = Lab::new("panic") else { return };
    let host = lab.host("a");
    let said = "thread 'tokio-rt-worker' (7) panicked at src/lib.rs:1:1:";
    let process =
        host.spawn("sh", &["-c", &format!("echo \"{said}\" >&2; exit 0")], &host.home("one"));
    assert_eq!(process.wait(LONG).unwrap().code(), Some(0));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lab)));
    let why = *ended.unwrap_err().downcast::<String>().unwrap();
    assert!(why.contains(said), "{why}");
}

#[test]
fn processes_are_started_stopped_and_ended() {
    let Some(lab) = Lab::new("processes") else { return };
    let host = lab.host("a");
    let home = host.home("one");
    let script = "echo $HOME; echo started >&2; trap 'echo asked >&2; exit 7' TERM; \
                  while :; do echo turn; sleep 0.02; done";
    let process = host.spawn("sh", &["-c", script], &home);
    wait_for("its log", LONG, || {
        if process.log() == "started\n" { Ok(()) } else { Err(process.log()) }
    });
    assert!(process.output().starts_with(&format!("{}\n", home.display())));
    process.stop();
    wait_for("it to be stopped", LONG, || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        if stat.contains(" T ") { Ok(()) } else { Err(stat) }
    });
    assert_eq!(process.wait(Duration::ZERO), None);
    process.cont();
    let turns = process.output().len();
    wait_for("it to go on", LONG, || {
        if process.output().len() > turns { Ok(()) } else { Err("nothing more".into()) }
    });
    process.terminate();
    assert_eq!(process.wait(LONG).unwrap().code(), Some(7));
    assert!(process.log().ends_with("asked\n"));

    let sleeper = host.spawn("sleep", &["1000"], &home);
    sleeper.kill9();
    assert_eq!(sleeper.ended().unwrap().signal(), Some(9));
    let output = host.run("sh", &["-c", "echo out; echo err >&2; exit 3"], &home, LONG);
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(output.status.code(), Some(3));
    let output = host.run("sleep", &["1000"], &home, Duration::from_millis(100));
    assert!(!output.status.success());
}

#[test]
fn nothing_is_left() {
    let Some(lab) = Lab::new("nothing") else { return };
    let (prefix, folder) = (lab.prefix().to_owned(), lab.folder().to_owned());
    let host = lab.host("a");
    lab.behind_nat("b", Nat::Cone);
    assert_eq!(namespaces(&prefix).len(), 4);
    // One that is known, and one that its parent left behind.
    let known = host.spawn("sleep", &["1000"], &host.home("x"));
    let parent = host.spawn("sh", &["-c", "sleep 1000 & echo $!"], &host.home("x"));
    let orphan = wait_for("the orphan's id", LONG, || {
        parent.output().trim().parse::<u32>().map_err(|error| error.to_string())
    });
    let ids = [known.id(), orphan];
    assert!(ids.iter().all(|id| exists(*id)));
    drop(lab);
    assert_eq!(namespaces(&prefix), Vec::<String>::new());
    assert!(!ids.iter().any(|id| exists(*id)), "{ids:?}");
    assert!(!folder.exists());
}

#[test]
fn a_failed_test_leaves_only_its_files() {
    let Some(lab) = Lab::new("failed") else { return };
    let (prefix, folder) = (lab.prefix().to_owned(), lab.folder().to_owned());
    let failed = std::thread::Builder::new().name("fails on purpose".into()).spawn(move || {
        let host = lab.host("a");
        let process = host.spawn("sh", &["-c", "echo words; sleep 1000"], &host.home("x"));
        wait_for("its output", LONG, || {
            if process.output().is_empty() { Err("nothing") } else { Ok(()) }.map_err(str::to_owned)
        });
        panic!("on purpose")
    });
    assert!(failed.unwrap().join().is_err());
    assert_eq!(namespaces(&prefix), Vec::<String>::new());
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert!(files > 0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_lab_whose_process_is_killed_is_taken_down() {
    if std::env::var_os(TO_BE_KILLED).is_some() {
        return be_killed();
    }
    let Some(lab) = Lab::new("survivor") else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_lab_whose_process_is_killed_is_taken_down", "--nocapture"])
        .env(TO_BE_KILLED, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.contains("lab=")).unwrap();
    let (_, said) = line.split_once("lab=").unwrap();
    let (prefix, rest) = said.split_once(' ').unwrap();
    let (process, folder) = rest.split_once(' ').unwrap();
    assert_eq!(namespaces(prefix).len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the lab to be gone", LONG, || {
        let left = namespaces(prefix);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert!(!exists(process.parse().unwrap()));
    std::fs::remove_dir_all(folder).unwrap();
    // Ours is untouched.
    assert_eq!(namespaces(lab.prefix()).len(), 1);
}

#[test]
fn the_next_lab_cleans_up_after_the_dead() {
    let Some(lab) = Lab::new("first") else { return };
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let left = format!("atl{}-0", dead.id());
    let name = format!("{left}-x");
    assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
    let next = Lab::new("second").unwrap();
    assert_eq!(namespaces(&left), Vec::<String>::new());
    assert_eq!(namespaces(lab.prefix()).len(), 1);
    assert_eq!(namespaces(next.prefix()).len(), 1);
}

#[test]
fn the_genesis_of_labs_can_be_used() {
    let genesis = Genesis::from_toml(lab::GENESIS).unwrap();
    assert!(genesis.fragment_map().elements() < 30_000);
}

/// Makes a lab, says so, and never ends by itself.
fn be_killed() {
    let lab = Lab::new("killed").unwrap();
    let host = lab.host("a");
    let process = host.spawn("sleep", &["1000"], &host.home("x"));
    let folder = lab.folder().display();
    let line = format!("lab={} {} {folder}\n", lab.prefix(), process.id());
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    process.wait(Duration::from_secs(1000));
}

/// Whether a connection from `one` to `address` ends up at a listener on `other`.
fn reaches(one: &Host, other: &Host, address: IpAddr) -> bool {
    let anywhere = SocketAddr::new(if address.is_ipv4() { ANY4 } else { ANY6 }, 0);
    let listener = other.within(|| TcpListener::bind(anywhere).unwrap());
    let port = listener.local_addr().unwrap().port();
    let to = SocketAddr::new(address, port);
    let Ok(mut connection) = one.within(|| TcpStream::connect_timeout(&to, SHORT)) else {
        return false;
    };
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(LONG)).unwrap();
    connection.write_all(b"x").unwrap();
    accepted.read_exact(&mut [0]).is_ok()
}

fn wait_until_reached(one: &Host, other: &Host) {
    wait_until_reached_at(one, other, other.address().into());
}

fn wait_until_reached_at(one: &Host, other: &Host, address: IpAddr) {
    let what = format!("{} to reach {}", one.name(), other.name());
    wait_for(&what, LONG, || {
        if reaches(one, other, address) { Ok(()) } else { Err("not yet".into()) }
    });
}

/// How long so many bytes took to arrive.
fn transfer(from: &Host, to: &Host, bytes: usize) -> Duration {
    let listener = to.within(|| TcpListener::bind((to.address(), 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut connection = from.within(|| TcpStream::connect_timeout(&address, LONG).unwrap());
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(LONG)).unwrap();
    connection.set_write_timeout(Some(LONG)).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || connection.write_all(&vec![7; bytes]).unwrap());
        let arrived = std::io::copy(&mut accepted, &mut std::io::sink()).unwrap();
        assert_eq!(arrived, bytes as u64);
    });
    start.elapsed()
}

/// How many of [`PACKETS`] arrive.
fn arriving(from: &Host, to: &Host, patience: Duration) -> usize {
    let (sender, receiver) = (udp(from, 0), udp(to, 0));
    receiver.set_read_timeout(Some(patience)).unwrap();
    let address = SocketAddr::new(to.address().into(), receiver.local_addr().unwrap().port());
    let mut arrived = 0;
    for _ in 0..PACKETS / BURST {
        for _ in 0..BURST {
            sender.send_to(b"x", address).unwrap();
        }
        // A burst fits the receiver's buffer, and what is not there soon is lost.
        arrived += std::iter::from_fn(|| receive(&receiver).ok()).take(BURST).count();
    }
    arrived
}

fn udp(host: &Host, port: u16) -> UdpSocket {
    let socket = host.within(|| UdpSocket::bind((ANY4, port)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Result<(Vec<u8>, SocketAddr), String> {
    let mut text = [0; 64];
    match socket.recv_from(&mut text) {
        Ok((bytes, from)) => Ok((text[..bytes].to_vec(), from)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err("nothing".into()),
        Err(error) => panic!("{error}"),
    }
}

/// The address that `socket` has for `seer`, which is on `host`.
fn seen(socket: &UdpSocket, host: &Host, seer: &UdpSocket) -> SocketAddr {
    let address = SocketAddr::new(host.address().into(), seer.local_addr().unwrap().port());
    wait_for("a packet to be seen", LONG, || {
        socket.send_to(b"see", address).unwrap();
        receive(seer).map(|(_, from)| from)
    })
}

/// The namespaces of one lab.
fn namespaces(prefix: &str) -> Vec<String> {
    let prefix = format!("{prefix}-");
    let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect()
}

/// Whether a process of that id runs; one that nobody waited for does not.
fn exists(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(30);
/// What is not there by then is taken for cut.
const SHORT: Duration = Duration::from_millis(400);
const TRANSFER_BYTES: usize = 2_000_000;
const PACKETS: usize = 500;
const BURST: usize = 50;
const PUNCHES: usize = 6;
const TO_BE_KILLED: &str = "LAB_TO_BE_KILLED";
