//! The one place that everything worth showing goes to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_protocol::fault::Fault;
use tokio::sync::watch;
use tracing::Level;

use super::clock::Clock;
use super::event::{Entry, Event};
use super::event_log::EventLog;
use super::receipts::Receipts;
use super::status::{Receipt, Status};
use super::telling::Telling;

/// Takes the node's status and events; cheap to clone, and never waits.
#[derive(Clone, Debug)]
pub struct Observer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    log: Option<EventLog>,
    latest: watch::Sender<Option<Arc<Status>>>,
    memory: Mutex<Memory>,
    faults: [AtomicU64; Fault::ALL.len()],
}

#[derive(Debug, Default)]
struct Memory {
    telling: Telling,
    receipts: Receipts,
    published: Option<Instant>,
}

impl Observer {
    /// An observer that dates events by `clock` and keeps them in `log`, if there is one.
    pub fn new(clock: Clock, log: Option<EventLog>) -> Self {
        let (latest, _) = watch::channel(None);
        let (memory, faults) = (Mutex::default(), Default::default());
        Self(Arc::new(Inner { clock, log, latest, memory, faults }))
    }

    /// Shows this status from now on. Its moment is the present one, and its receipts are those
    /// that events told of.
    pub fn publish(&self, mut status: Status) {
        status.at = self.0.clock.text();
        status.receipts = self.receipts();
        self.memory(|memory| memory.published = Some(Instant::now()));
        self.0.latest.send_replace(Some(Arc::new(status)));
    }

    /// Logs an event, and tells people if they care.
    pub fn event(&self, event: impl Into<Event>) {
        let event = event.into();
        self.count(&event);
        self.tell(&event);
        if let Some(log) = &self.0.log {
            log.log(Entry { at: self.0.clock.text(), event });
        }
    }

    /// The status published last.
    pub fn latest(&self) -> Option<Arc<Status>> {
        self.0.latest.borrow().clone()
    }

    /// How long ago a status was published: a driver that hangs publishes none.
    pub fn age(&self) -> Option<Duration> {
        self.memory(|memory| memory.published).map(|published| published.elapsed())
    }

    /// A view of the status that can be waited on.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<Status>>> {
        self.0.latest.subscribe()
    }

    /// How far the last own contributions have come.
    pub fn receipts(&self) -> Vec<Receipt> {
        self.memory(|memory| memory.receipts.list())
    }

    /// Faults of peers since the start, by kind.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().zip(&self.0.faults).map(|(fault, it)| (fault, it.load(ORDER)))
    }

    /// Events that the log lost.
    pub fn events_dropped(&self) -> u64 {
        self.0.log.as_ref().map_or(0, EventLog::dropped)
    }

    /// Waits for the event log to reach the disk, but not for long: used when a node stops.
    pub fn flush(&self, patience: Duration) -> bool {
        self.0.log.as_ref().is_none_or(|log| log.flush(patience))
    }

    fn count(&self, event: &Event) {
        match event {
            Event::Fault { fault, .. } => {
                let index = Fault::ALL.iter().position(|it| it == fault);
                if let Some(counter) = index.and_then(|index| self.0.faults.get(index)) {
                    counter.fetch_add(1, ORDER);
                }
            }
            Event::Receipt { round, merged_by, of } => {
                self.memory(|memory| memory.receipts.note(*round, *merged_by, *of));
            }
            _ => {}
        }
    }

    fn tell(&self, event: &Event) {
        let latest = self.latest();
        let (level, words) = self.memory(|memory| memory.telling.words(event, latest.as_deref()));
        match level {
            Level::ERROR => tracing::error!("{words}"),
            Level::WARN => tracing::warn!("{words}"),
            Level::INFO => tracing::info!("{words}"),
            _ => tracing::debug!("{words}"),
        }
    }

    fn memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        // Nothing in it can be left half done, so a panic elsewhere does not spoil it.
        look(&mut self.0.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

const ORDER: Ordering = Ordering::Relaxed;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use atoll_protocol::engine::Report;
    use atoll_protocol::id::{FragmentId, NodeId, RoundId};

    use super::*;
    use crate::observe::status::example;

    #[test]
    fn what_is_published_is_the_latest_and_carries_the_receipts() {
        let clock = Clock::new(|| UNIX_EPOCH + Duration::from_secs(1));
        let observer = Observer::new(clock, None);
        assert!(observer.latest().is_none());
        let mut watch = observer.watch();
        let round = RoundId { fragment: FragmentId(1), number: 5 };
        observer.event(Report::Receipt { round, merged_by: 2, of: 3 });
        let copy = observer.clone();
        copy.publish(example::status());
        let latest = observer.latest().unwrap();
        assert_eq!(latest.name, "reef");
        assert_eq!(latest.at, "1970-01-01T00:00:01.000Z");
        assert_eq!(latest.receipts, [Receipt { round, merged_by: 2, of: 3 }]);
        assert!(watch.has_changed().unwrap());
        assert_eq!(watch.borrow_and_update().as_ref().unwrap().name, "reef");
    }

    #[test]
    fn events_are_dated_logged_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new(|| UNIX_EPOCH + Duration::from_millis(1500));
        let log = EventLog::open(folder.path()).unwrap();
        let observer = Observer::new(clock, Some(log));
        let node = NodeId([1; 32]);
        for _ in 0..2 {
            observer.event(Event::Fault { node, fault: Fault::Flood, penalty: 5 });
        }
        assert!(observer.flush(Duration::from_secs(60)));
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with(r#"{"at":"1970-01-01T00:00:01.500Z","event":"fault","#), "{text}");
        let faults: Vec<_> = observer.faults().filter(|(_, count)| *count > 0).collect();
        assert_eq!(faults, [(Fault::Flood, 2)]);
        assert_eq!(observer.events_dropped(), 0);
    }
}
