//! One holder of a content that is being fetched: what it is asked for, and how it answers.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atoll_protocol::crypto::Outline;
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::limits::CONTENT_CHUNK_BYTES;
use futures::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::contents::Incoming;
use super::bucket::Slice;
use super::fetch::Fetcher;
use super::frame::{Answer, Request};
use super::pool::{Pool, Taken};

/// Why a holder serves no more.
#[derive(Debug)]
pub(super) enum End {
    /// It does not have the content.
    NotFound,
    /// It is gone, too slow or too busy.
    Lost,
    /// The stream broke off, as those of a connection do that is closed for a better one.
    Broken,
    /// It has sent some, and others are to have their turn.
    Partly,
    /// What it has is longer than was said: a lie of whoever said so, not of who has it.
    TooLong,
    /// It sent something else.
    Wrong,
    /// Our own disk failed.
    Disk(io::Error),
}

impl End {
    /// Whether it may go better next time.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Self::Lost | Self::Broken)
    }
}

/// What all holders of a fetch share.
pub(super) struct Job {
    pub(super) content: ContentId,
    pub(super) outline: Arc<Outline>,
    pub(super) incoming: Slot,
    pub(super) pool: Pool,
    pub(super) holders: usize,
    /// Bytes that came, from everybody.
    pub(super) received: AtomicU64,
}

/// The content on its way in; taken out when the fetch ends.
pub(super) type Slot = Arc<Mutex<Option<Box<dyn Incoming>>>>;

/// A stream to one holder.
pub(super) struct Holder<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) node: NodeId,
    pub(super) stream: Stream,
}

/// What a holder answered.
pub(super) struct Answered {
    pub(super) bytes: Vec<u8>,
    /// How long they took once the first of them was here.
    pub(super) took: Duration,
}

impl Holder<'_> {
    /// Asks for something of at most `most` bytes.
    pub(super) async fn ask(&mut self, request: Request, most: u64) -> Result<Answered, End> {
        self.ask_and_count(request, most, |_| {}).await
    }

    /// The same, counting bytes as they come.
    pub(super) async fn ask_and_count(
        &mut self,
        request: Request,
        most: u64,
        count: impl Fn(usize),
    ) -> Result<Answered, End> {
        let patience = self.fetcher.rates.patience(&self.node);
        let asked = timeout(patience, request.write(&mut self.stream)).await;
        asked.map_err(|_| End::Lost)?.map_err(|_| End::Broken)?;
        let bytes = answer(&mut self.stream, patience).await?;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes as u64 <= most);
        let (mut into, began) = (vec![0; bytes.ok_or(End::TooLong)?], Instant::now());
        fill(&mut self.stream, &mut into, patience, count).await?;
        Ok(Answered { bytes: into, took: began.elapsed() })
    }

    /// Says that nothing more is asked for: a courtesy only, the stream ends in any case.
    pub(super) async fn close(mut self) {
        let _ = timeout(CLOSE_TIME, self.stream.close()).await;
    }

    /// Fetches chunks from this holder until there are none left to fetch; `received` says
    /// whether it sent any.
    pub(super) async fn run(self, job: &Job, received: &mut bool) -> Result<(), End> {
        let (reader, writer) = self.stream.split();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let asking = ask_all(self.fetcher, self.node, job, writer, sender);
        let reading = read_all(self.fetcher, self.node, job, reader, receiver, received);
        tokio::try_join!(reading, asking).map(|_| ())
    }
}

/// Asks for ranges, one ahead of what is being read.
async fn ask_all<'a>(
    fetcher: &Fetcher,
    node: NodeId,
    job: &'a Job,
    mut writer: impl AsyncWrite + Unpin,
    sender: mpsc::Sender<(Taken<'a>, Slice)>,
) -> Result<(), End> {
    loop {
        // A place first: what is taken is to be asked for at once.
        let Ok(place) = sender.reserve().await else { return Ok(()) };
        let share = job.pool.missing() / (2 * job.holders);
        let most = fetcher.rates.chunks(&node).min(u32::try_from(share).unwrap_or(u32::MAX));
        let most = fetcher.range_max().min(most.max(1));
        let taken = tokio::select! {
            taken = job.pool.take(node, most) => taken,
            () = sender.closed() => return Ok(()),
        };
        let Some(taken) = taken else { break };
        let range = taken.range();
        let bytes = job.outline.range(range.end - 1).end - job.outline.range(range.start).start;
        let slice = fetcher.download.take(usize::try_from(bytes).unwrap_or(usize::MAX)).await;
        let content = job.content;
        let (first, count) = (range.start, range.end - range.start);
        place.send((taken, slice));
        let asked = Request::Chunks { content, first, count }.write(&mut writer);
        match timeout(fetcher.rates.patience(&node), asked).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(End::Broken),
            Err(_) => return Err(End::Lost),
        }
    }
    // A courtesy only: the stream ends in any case.
    let _ = timeout(CLOSE_TIME, writer.close()).await;
    Ok(())
}

/// Reads what was asked for; checks and writes each chunk while the next one comes in.
async fn read_all<'a>(
    fetcher: &Fetcher,
    node: NodeId,
    job: &'a Job,
    mut reader: impl AsyncRead + Unpin,
    mut receiver: mpsc::Receiver<(Taken<'a>, Slice)>,
    received: &mut bool,
) -> Result<(), End> {
    let count = |bytes: usize| {
        job.received.fetch_add(bytes as u64, Ordering::Relaxed);
        fetcher.traffic.payload_down.fetch_add(bytes as u64, Ordering::Relaxed);
    };
    let mut spare = Vec::new();
    let mut writing: Option<(Taken<'a>, Written)> = None;
    while let Some((mut taken, slice)) = receiver.recv().await {
        let patience = fetcher.rates.patience(&node);
        let range = taken.range();
        let expected = job.outline.range(range.end - 1).end - job.outline.range(range.start).start;
        match answer(&mut reader, patience).await {
            Ok(bytes) if bytes == expected => {}
            Ok(_) => return Err(End::Wrong),
            Err(end) => {
                // Nothing came, and others are to have the time.
                fetcher.download.give_back(slice);
                return Err(end);
            }
        }
        let began = Instant::now();
        while let Some(chunk) = taken.pop() {
            let index = chunk.range().start;
            let place = job.outline.range(index);
            let mut bytes = std::mem::take(&mut spare);
            bytes.resize(usize::try_from(place.end - place.start).unwrap_or(0), 0);
            fill(&mut reader, &mut bytes, patience, count).await?;
            *received = true;
            if let Some(before) = writing.take() {
                spare = written(before).await?;
            }
            writing = Some((chunk, write(job, index, bytes)));
        }
        fetcher.rates.note(node, expected, began.elapsed());
        if receiver.is_empty()
            && let Some(before) = writing.take()
        {
            spare = written(before).await?;
        }
    }
    if let Some(before) = writing {
        written(before).await?;
    }
    Ok(())
}

/// A chunk on its way to the disk: its buffer, and whether it was right.
type Written = JoinHandle<io::Result<(Vec<u8>, bool)>>;

fn write(job: &Job, chunk: u32, bytes: Vec<u8>) -> Written {
    let (outline, incoming) = (job.outline.clone(), job.incoming.clone());
    tokio::task::spawn_blocking(move || {
        if !outline.chunk_is(chunk, &bytes) {
            return Ok((bytes, false));
        }
        let mut incoming = incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let incoming = incoming.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        if !incoming.has(chunk) {
            incoming.write(chunk, &bytes)?;
        }
        Ok((bytes, true))
    })
}

async fn written((chunk, written): (Taken<'_>, Written)) -> Result<Vec<u8>, End> {
    match written.await {
        Ok(Ok((bytes, true))) => {
            chunk.done();
            Ok(bytes)
        }
        Ok(Ok((_, false))) => Err(End::Wrong),
        Ok(Err(error)) => Err(End::Disk(error)),
        Err(error) => Err(End::Disk(io::Error::other(error))),
    }
}

/// Waits for the answer that matters; how many bytes follow.
async fn answer(reader: &mut (impl AsyncRead + Unpin), patience: Duration) -> Result<u64, End> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        match timeout(patience.max(ANSWER_MIN), Answer::read(reader)).await {
            Ok(Ok(Answer::Here(bytes))) => return Ok(bytes),
            Ok(Ok(Answer::NotFound)) => return Err(End::NotFound),
            Ok(Ok(Answer::Wait)) if Instant::now() < until => {}
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(End::Wrong),
            Ok(Err(_)) => return Err(End::Broken),
            _ => return Err(End::Lost),
        }
    }
}

/// Reads exactly so many bytes, counting them as they come. Whoever sends something has time, but
/// not for ever.
async fn fill(
    reader: &mut (impl AsyncRead + Unpin),
    into: &mut [u8],
    patience: Duration,
    count: impl Fn(usize),
) -> Result<(), End> {
    let slowest = Duration::from_secs((into.len() / RATE_MIN) as u64);
    let until = Instant::now() + patience + slowest;
    let mut filled = 0;
    while filled < into.len() {
        match timeout(patience, reader.read(&mut into[filled..])).await {
            Ok(Ok(bytes)) if bytes > 0 && Instant::now() < until => {
                filled += bytes;
                count(bytes);
            }
            // So ends a stream whose connection was closed, over some transports.
            Ok(Ok(0) | Err(_)) => return Err(End::Broken),
            _ => return Err(End::Lost),
        }
    }
    Ok(())
}

/// Ranges that are asked for before the one being read is here.
const AHEAD: usize = 1;
/// How long a holder may let us wait for one of its slots.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// An answer may need a disk to wake up, or a content to be outlined.
const ANSWER_MIN: Duration = Duration::from_secs(15);
/// Bytes per second below which a holder is worse than none.
const RATE_MIN: usize = 2 * 1024;
const CLOSE_TIME: Duration = Duration::from_millis(100);
const _: () = assert!(CONTENT_CHUNK_BYTES / RATE_MIN < 600);
