//! A thread that looks at one node, so that a node that answers late holds up nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::journal::Journal;
use super::status::Status;

/// What a node told.
#[derive(Debug)]
pub(super) enum News {
    /// Where it stands.
    Status(Box<Status>),
    /// A line of its event log.
    Event(Value),
}

/// Looks at island `index` until told to stop, and then once more at its event log.
pub(super) fn watch(
    index: usize,
    client: Client,
    news: SyncSender<(usize, News)>,
    stop: Arc<AtomicBool>,
) {
    thread::spawn(move || {
        let mut journal: Option<Journal> = None;
        loop {
            let last = stop.load(Ordering::Relaxed);
            if journal.is_none() {
                journal = client.journal();
            }
            let status = if last { None } else { client.status() };
            let status = status.map(|status| News::Status(Box::new(status)));
            let events = journal.as_mut().map(Journal::news).unwrap_or_default();
            // Events first: an island's name comes with its first one.
            for it in events.into_iter().map(News::Event).chain(status) {
                if news.send((index, it)).is_err() {
                    return;
                }
            }
            if last {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    });
}

const LOOK_EVERY: Duration = Duration::from_millis(400);
