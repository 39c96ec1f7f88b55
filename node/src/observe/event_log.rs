//! The event log: lines of JSON in a file, written by a thread of its own.
//!
//! Whoever has something to tell never waits: what does not fit into the queue is dropped and
//! counted, and the log says how much is missing.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use super::event::{Entry, Event};

/// The way to the event log. Clones share it.
#[derive(Clone, Debug)]
pub struct EventLog {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Entry(Box<Entry>),
    /// Answered once everything before it is in the file.
    Flush(SyncSender<()>),
}

impl EventLog {
    /// Goes on with the log in `folder`, or begins one.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::with_bound(folder, FILE_BYTES_MAX)
    }

    fn with_bound(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        let (queue, entries) = sync_channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let log = Log::open(folder, bytes_max, dropped.clone())?;
        std::thread::Builder::new().name("event log".into()).spawn(move || log.run(&entries))?;
        Ok(Self { queue, dropped })
    }

    /// Logs an entry, or drops it if the queue is full.
    pub fn log(&self, entry: Entry) {
        if self.queue.try_send(Message::Entry(Box::new(entry))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many entries were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was logged is in the file, but no longer than `patience`. False if that
    /// was not long enough.
    pub fn flush(&self, patience: Duration) -> bool {
        let (done, wait) = sync_channel(1);
        self.queue.try_send(Message::Flush(done)).is_ok() && wait.recv_timeout(patience).is_ok()
    }
}

/// The thread's side.
struct Log {
    folder: PathBuf,
    bytes_max: u64,
    file: Option<BufWriter<File>>,
    bytes: u64,
    /// Lines that a full disk could still refuse.
    buffered: u64,
    dropped: Arc<AtomicU64>,
    /// Drops that the file tells of.
    told: u64,
    /// Whether the disk took the last line; said once when that changes.
    healthy: bool,
}

impl Log {
    fn open(folder: &Path, bytes_max: u64, dropped: Arc<AtomicU64>) -> io::Result<Self> {
        let mut log = Self {
            folder: folder.to_owned(),
            bytes_max,
            file: None,
            bytes: 0,
            buffered: 0,
            dropped,
            told: 0,
            healthy: true,
        };
        log.begin()?;
        Ok(log)
    }

    fn run(mut self, entries: &Receiver<Message>) {
        loop {
            let message = match entries.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => {
                    self.flush();
                    let Ok(message) = entries.recv() else { return };
                    message
                }
                Err(TryRecvError::Disconnected) => return self.flush(),
            };
            match message {
                Message::Entry(entry) => self.write(&entry),
                Message::Flush(done) => {
                    self.flush();
                    // Whoever asked may have stopped waiting.
                    let _ = done.try_send(());
                }
            }
        }
    }

    fn write(&mut self, entry: &Entry) {
        let missing = self.dropped.load(Ordering::Relaxed).saturating_sub(self.told);
        if missing > 0 {
            let gap = Entry { at: entry.at.clone(), event: Event::Dropped { events: missing } };
            if self.line(&gap).is_ok() {
                self.told += missing;
            }
        }
        let result = self.line(entry);
        self.judge(result);
    }

    fn line(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.begin()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        self.buffered += 1;
        file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Opens the file behind what it holds. A line that a crash tore is ended.
    fn begin(&mut self) -> io::Result<()> {
        let path = self.folder.join(FILE);
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        self.bytes = file.seek(SeekFrom::End(0))?;
        if self.bytes > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            io::Read::read_exact(&mut file, &mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                self.bytes += 1;
            }
        }
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.flush()?;
        }
        match std::fs::rename(self.folder.join(FILE), self.folder.join(OLD_FILE)) {
            // Somebody took the file away: that makes room too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.begin()
    }

    fn flush(&mut self) {
        let result = self.file.as_mut().map_or(Ok(()), Write::flush);
        if result.is_ok() {
            self.buffered = 0;
        }
        self.judge(result);
    }

    /// A disk that takes no more is told of once. What it did not take is dropped, and the file is
    /// opened again for the next line, since part of a line may be in it.
    fn judge(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.healthy = self.healthy || self.file.is_some(),
            Err(error) => {
                if let Some(file) = self.file.take() {
                    // Dropping it would try to write again.
                    let _ = file.into_parts();
                }
                self.dropped.fetch_add(self.buffered.max(1), Ordering::Relaxed);
                self.buffered = 0;
                if self.healthy {
                    let path = self.folder.join(FILE);
                    tracing::warn!("{}: events are not logged: {error}", path.display());
                }
                self.healthy = false;
            }
        }
    }
}

const FILE: &str = "events.jsonl";
const OLD_FILE: &str = "events.1.jsonl";
/// Two files of this size hold weeks of a quiet run and a day of a busy one.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Entries that wait for the disk.
const QUEUE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn entry(number: u64) -> Entry {
        Entry { at: "T".into(), event: Event::Dropped { events: number } }
    }

    fn numbers(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap();
        let entries = text.lines().map(|line| serde_json::from_str::<Entry>(line).unwrap());
        entries
            .map(|entry| match entry.event {
                Event::Dropped { events } => events,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn lines_are_added_to_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 {
            let log = EventLog::open(folder.path()).unwrap();
            log.log(entry(number));
            assert!(log.flush(PATIENCE));
        }
        assert_eq!(numbers(&folder.path().join(FILE)), [0, 1, 2]);
    }

    #[test]
    fn a_torn_line_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "{\"at\":\"T\",\"ev").unwrap();
        let log = EventLog::open(folder.path()).unwrap();
        log.log(entry(7));
        assert!(log.flush(PATIENCE));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(serde_json::from_str::<Entry>(lines[1]).unwrap(), entry(7));
    }

    #[test]
    fn old_lines_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::with_bound(folder.path(), 200).unwrap();
        for number in 0..100 {
            log.log(entry(number));
        }
        assert!(log.flush(PATIENCE));
        let (old, new) = (folder.path().join(OLD_FILE), folder.path().join(FILE));
        for path in [&old, &new] {
            assert!(std::fs::metadata(path).unwrap().len() <= 200);
        }
        let kept: Vec<u64> = [numbers(&old), numbers(&new)].concat();
        let first = kept[0];
        assert_eq!(kept, (first..100).collect::<Vec<_>>());
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        // Nobody reads this queue, as if the disk were stuck.
        let (queue, entries) = sync_channel(2);
        let log = EventLog { queue, dropped: Arc::default() };
        (0..5).for_each(|number| log.log(entry(number)));
        assert_eq!(log.dropped(), 3);
        assert!(!log.flush(PATIENCE), "there is no room for the question either");
        // Now the disk goes on.
        let folder = tempfile::tempdir().unwrap();
        let writer = Log::open(folder.path(), FILE_BYTES_MAX, log.dropped.clone()).unwrap();
        drop(log);
        writer.run(&entries);
        assert_eq!(numbers(&folder.path().join(FILE)), [3, 0, 1], "the gap is told first");
    }

    #[test]
    fn a_disk_that_recovers_is_written_to_again() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("run");
        std::fs::create_dir(&inner).unwrap();
        let mut log = Log::open(&inner, 60, Arc::default()).unwrap();
        log.write(&entry(1));
        std::fs::remove_dir_all(&inner).unwrap();
        log.write(&entry(2));
        assert!(!log.healthy);
        std::fs::create_dir(&inner).unwrap();
        log.write(&entry(3));
        log.write(&entry(4));
        log.flush();
        assert!(log.healthy);
        assert_eq!(numbers(&inner.join(FILE)).last(), Some(&4));
    }
}
