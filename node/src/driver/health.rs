//! What went wrong around the node and came right again, in words for the log.

use std::time::{Duration, Instant};

use atoll_protocol::id::ContentId;

use super::Driver;
use super::part::Done;
use crate::observe::Event;
use crate::store::StoreError;
use crate::units;

/// Troubles that are going on, and since when.
#[derive(Debug)]
pub(super) struct Health {
    /// When the driver last had its turn.
    ticked: Instant,
    disk: Option<Refused>,
    /// Whether any peer was heard lately.
    heard: bool,
    /// Since when nobody is, if somebody was.
    alone: Option<Instant>,
}

/// A disk that does not take what it is given.
#[derive(Debug)]
struct Refused {
    since: Instant,
    last: Instant,
    told: Instant,
}

impl Health {
    pub(super) fn new() -> Self {
        Self { ticked: Instant::now(), disk: None, heard: false, alone: None }
    }
}

impl Driver {
    /// Looks for troubles that are over, and for damage that was found; a few times a second.
    pub(super) fn look_after_health(&mut self) {
        let now = Instant::now();
        let still = now - std::mem::replace(&mut self.health.ticked, now);
        if still > STANDSTILL {
            self.recovered(format!(
                "this node stood still for {}: it was stopped, or the machine had no time for it",
                units::span(still)
            ));
        }
        if let Some(Refused { since, last, .. }) = &self.health.disk
            && now - *last > QUIET
        {
            let time = units::span(*last - *since);
            self.health.disk = None;
            self.recovered(format!("the disk takes what it is given again, after {time}"));
        }
        self.look_for_company(now);
        for incident in self.store.incidents() {
            self.recovered(incident.to_string());
        }
    }

    /// The disk would not: says so, now and then, while it is tried again.
    pub(super) fn trouble(&mut self, error: &StoreError) {
        let now = Instant::now();
        let refused = self.health.disk.get_or_insert(Refused { since: now, last: now, told: now });
        let first = refused.since == now;
        refused.last = now;
        if first || now - refused.told > TELL_EVERY {
            refused.told = now;
            self.warn(
                format!("{error}; it is tried again, and nothing is lost meanwhile"),
                error.hint().unwrap_or_default(),
            );
        }
    }

    /// Whether anybody is heard: connections outlive a network that is gone for a while.
    fn look_for_company(&mut self, now: Instant) {
        let heard = self.engine.peer_views().iter().any(|peer| peer.alive);
        match (std::mem::replace(&mut self.health.heard, heard), heard) {
            (true, false) => {
                self.health.alone = Some(now);
                self.warn(
                    "no peer is heard any more: the island trains on, and peers are looked for"
                        .to_owned(),
                    "check the network of this machine, unless everybody else has left",
                );
            }
            (false, true) => {
                if let Some(since) = self.health.alone.take() {
                    let time = units::span(now - since);
                    self.recovered(format!("peers are heard again, after {time} alone"));
                }
            }
            _ => {}
        }
    }

    /// Something we serve does not have its hash: it is put aside, and fetched again from whoever
    /// has it. The newest own payloads, which perhaps nobody has, are still in memory.
    pub(super) fn broken(&mut self, content: ContentId) {
        let (store, done, own) = (self.store.clone(), self.done.clone(), self.own.get(&content));
        let own = own.cloned();
        tokio::task::spawn_blocking(move || {
            // Reading puts a damaged file aside, and notes it for the log.
            let (payload, base) = (store.content(&content).is_err(), store.base(&content).is_err());
            let healed = own.is_some_and(|bytes| store.put(&bytes).is_ok());
            let needed = store.is_checked(&content);
            if base || payload && needed && !healed {
                // The driver may have ended.
                let _ = done.blocking_send(Done::Lost { content, base });
            }
        });
    }

    /// A damaged file was put aside.
    pub(super) fn lost(&mut self, content: ContentId, base: bool) {
        if !base {
            self.rechecks.insert(content, None);
            return;
        }
        for part in &mut self.parts {
            part.keep_again(content);
        }
        self.work();
    }

    fn recovered(&self, what: String) {
        self.observer.event(Event::Recovered { what });
    }
}

/// The driver has its turn a few times a second; a machine may be busy, but not for so long.
const STANDSTILL: Duration = Duration::from_secs(5);
/// A disk that has refused nothing for so long takes everything: what it refuses is tried again
/// more often than that.
const QUIET: Duration = Duration::from_secs(5);
/// How often people are told that the disk still refuses.
const TELL_EVERY: Duration = Duration::from_secs(60);
