//! What holds packets back or loses them: the kernel's netem, or a thread of ours where the kernel
//! has none.
//!
//! Either stands where a host receives, so that every packet between two hosts passes it once.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use atoll_protocol::rng::Rng;
use nfq::{Message, Queue, Verdict};

use super::host::{DEVICE, Host};
use super::quality::Quality;
use super::tools::run;

/// What holds packets back or loses them; it works until this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Netem,
    Thread,
}

impl Holder {
    /// Lets the kernel do it, on the hub's end of a cable and in front of any limit there.
    pub(super) fn netem(port: &str, quality: &Quality) -> Result<Self, String> {
        let (delay, loss) = (quality.delay.as_micros(), quality.loss * 100.0);
        run(&format!(
            "tc qdisc replace dev {port} root handle 1: netem delay {delay}us loss {loss}% \
             limit {HELD_MAX}"
        ))?;
        Ok(Self::Netem)
    }

    /// Starts a thread that does it where a host receives.
    pub(super) fn thread(host: &Host, quality: &Quality, seed: u8) -> Result<Self, String> {
        let rule = format!("-t mangle -A INPUT -i {DEVICE} -j NFQUEUE --queue-num {QUEUE}");
        let (sender, began) = channel();
        let namespace = host.namespace.try_clone().map_err(|error| error.to_string())?;
        let host = Host { namespace, port: host.port.clone(), ..*host };
        let quality = *quality;
        thread::spawn(move || {
            let queue = host.move_in().and_then(|()| {
                let queue = open().map_err(|error| format!("nfqueue: {error}"))?;
                run(&format!("iptables -w {rule}"))?;
                Ok(queue)
            });
            let opened = queue.as_ref().map(drop).map_err(String::clone);
            if sender.send(opened).is_ok()
                && let Ok(queue) = queue
            {
                hold(queue, &quality, Rng::new(seed.into()));
            }
        });
        began.recv().map_err(|error| error.to_string())?.map(|()| Self::Thread)
    }

    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Netem => "netem",
            Self::Thread => "a user-space queue, as this kernel has no netem",
        }
    }
}

fn open() -> std::io::Result<Queue> {
    let mut queue = Queue::open()?;
    queue.bind(QUEUE)?;
    // What is in them does not matter.
    queue.set_copy_range(QUEUE, 0)?;
    queue.set_queue_max_len(QUEUE, HELD_MAX)?;
    Ok(queue)
}

/// Gives every packet back when its time has come. All wait equally long, so the first to come is
/// the first to go.
fn hold(mut queue: Queue, quality: &Quality, mut rng: Rng) {
    let mut held: VecDeque<(Instant, Message)> = VecDeque::new();
    loop {
        queue.set_nonblocking(!held.is_empty());
        match queue.recv() {
            Ok(mut message) => {
                let lost = rng.below(PARTS) < parts(quality.loss);
                let wait = if lost { Duration::ZERO } else { quality.delay };
                message.set_verdict(if lost { Verdict::Drop } else { Verdict::Accept });
                if wait.is_zero() {
                    // A packet that nobody waits for any more is no loss.
                    let _ = queue.verdict(message);
                } else {
                    held.push_back((Instant::now() + wait, message));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let due = held.front().map_or(TICK, |(due, _)| due.duration_since(Instant::now()));
                thread::sleep(due.min(TICK));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => thread::sleep(TICK),
        }
        while held.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            if let Some((_, message)) = held.pop_front() {
                let _ = queue.verdict(message);
            }
        }
    }
}

fn parts(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is between 0 and 1"
    )]
    let parts = (share * PARTS as f64) as u64;
    parts
}

/// The queue's number in its namespace.
const QUEUE: u16 = 0;
/// Packets that can be under way to one host: a gigabit for a tenth of a second.
const HELD_MAX: u32 = 10_000;
/// How late a packet can be noticed while others are held.
const TICK: Duration = Duration::from_millis(1);
/// How finely a share of packets is drawn.
const PARTS: u64 = 1 << 32;
