//! The bootstrap as a process: where it is, who reaches it, what a restart keeps.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "support/lab.rs"]
mod lab;

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lab::{Bootstrap, Host, Lab, Nat};

#[test]
fn a_bootstrap_is_where_it_says() {
    let Some(lab) = Lab::new("meeting") else { return };
    let place = lab.host("meeting");
    let mut meeting = Bootstrap::start(&place);
    let ports: Vec<&str> =
        meeting.addresses().iter().map(|it| it.split('/').nth(3).unwrap()).collect();
    assert_eq!(ports, ["tcp", "udp"]);
    let guests = [lab.host("open"), lab.behind_nat("hidden", Nat::Symmetric)];
    let tcp = meeting.addresses()[0].split('/').nth(4).unwrap().parse().unwrap();
    let address = SocketAddr::from((place.address(), tcp));
    assert!(guests.iter().all(|guest| connects(guest, address)));

    meeting.process().kill9();
    assert!(!guests.iter().any(|guest| connects(guest, address)));
    meeting.restart();
    assert!(guests.iter().all(|guest| connects(guest, address)));
    meeting.process().terminate();
    assert!(meeting.process().wait(LONG).unwrap().success(), "{}", meeting.process().log());
}

fn connects(guest: &Host, to: SocketAddr) -> bool {
    guest.within(|| TcpStream::connect_timeout(&to, LONG)).is_ok()
}

/// What must happen happens within this time even on a machine that is busy.
const LONG: Duration = Duration::from_secs(30);
