//! Fetching a content: its outline first, then its chunks from everybody who has them.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use atoll_protocol::crypto::{Outline, content_id};
use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::id::NodeId;
use atoll_protocol::limits::{
    CONTENT_CHUNK_BYTES, DOWNLOADS_MAX, GENESIS_BYTES_MAX, HOLDERS_MAX, PEERS_BYTES_MAX,
    RANGE_CHUNKS_MAX,
};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use libp2p::StreamProtocol;
use libp2p_stream::{Control, OpenStreamError};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::super::contents::{Contents, Incoming};
use super::super::event::Notice;
use super::super::identity::peer_of;
use super::super::inbox::Order;
use super::super::traffic::Traffic;
use super::blocking;
use super::bucket::Bucket;
use super::frame::{Request, TIME_BYTES, unix_ms};
use super::holder::{Answered, End, Holder, Job, Slot};
use super::pool::Pool;
use super::rates::Rates;

/// What a peer says when it is asked.
#[derive(Debug, Default)]
pub(in crate::net) struct News {
    /// Addresses of its peers, one a line.
    pub(in crate::net) peers: Option<String>,
    /// Milliseconds that its clock is ahead of ours.
    pub(in crate::net) skew_ms: Option<i64>,
}

/// What every fetch needs.
pub(in crate::net) struct Fetcher {
    pub(in crate::net) contents: Arc<dyn Contents>,
    pub(in crate::net) clock: fn() -> SystemTime,
    pub(in crate::net) control: Control,
    pub(in crate::net) protocol: StreamProtocol,
    pub(in crate::net) download: Bucket,
    pub(in crate::net) rates: Rates,
    pub(in crate::net) places: Semaphore,
    pub(in crate::net) traffic: Arc<Traffic>,
    pub(in crate::net) peers: watch::Receiver<BTreeSet<NodeId>>,
    pub(in crate::net) notices: mpsc::Sender<Notice>,
}

impl Fetcher {
    /// Places for holders, over all fetches.
    pub(in crate::net) fn places() -> Semaphore {
        Semaphore::new(DOWNLOADS_MAX)
    }

    /// Fetches a content; returns how it ended and how many bytes came.
    pub(in crate::net) async fn fetch(&self, order: Order) -> (FetchOutcome, u64) {
        let mut received = 0;
        let outcome = match self.try_fetch(&order, &mut received).await {
            Ok(()) => FetchOutcome::Stored,
            Err(End::NotFound | End::TooLong) => FetchOutcome::NotFound,
            Err(End::Wrong) => FetchOutcome::Wrong,
            Err(End::Lost | End::Broken) => FetchOutcome::Unreachable,
            Err(End::Partly) => FetchOutcome::Partly,
            Err(End::Disk(error)) => {
                // Only a word to people, who have been told often enough if there is no room.
                let (content, reason) = (order.content, error.to_string());
                let _ = self.notices.try_send(Notice::NotStored { content, reason });
                FetchOutcome::Unreachable
            }
        };
        (outcome, received)
    }

    /// Asks a peer for the run's genesis, again and again while it is busy.
    pub(in crate::net) async fn genesis(&self, node: NodeId) -> Option<Vec<u8>> {
        loop {
            let answer = match self.open(node).await {
                Ok(mut holder) => holder.ask(Request::Genesis, GENESIS_BYTES_MAX as u64).await,
                Err(end) => Err(end),
            };
            match answer {
                Ok(genesis) => return Some(genesis.bytes),
                Err(end) if end.passes() && self.is_up(&node) => sleep(BUSY_TIME).await,
                Err(_) => return None,
            }
        }
    }

    /// Asks a peer what time it is, and where its peers are.
    pub(in crate::net) async fn news(&self, node: NodeId) -> News {
        let mut news = News::default();
        let Ok(mut holder) = self.open(node).await else { return news };
        let (asked, began) = (unix_ms((self.clock)()), Instant::now());
        let time = match holder.ask(Request::Time, TIME_BYTES).await {
            Ok(time) => time.bytes.try_into().ok(),
            Err(End::NotFound) => None,
            // A stream that failed panics if it is written to.
            Err(_) => return news,
        };
        // After a long way nobody knows where on it the answer was given.
        if let Some(time) = time.filter(|_| began.elapsed() <= CLOCK_WAY_MAX) {
            // The answer was given about half way between the question and now.
            let between = i64::midpoint(asked, unix_ms((self.clock)()));
            news.skew_ms = Some(i64::from_le_bytes(time).saturating_sub(between));
        }
        let peers = holder.ask(Request::Peers, PEERS_BYTES_MAX as u64).await;
        news.peers = peers.ok().and_then(|peers| String::from_utf8(peers.bytes).ok());
        news
    }

    /// Chunks in one request; under a cap, no more than is let through in a moment.
    pub(super) fn range_max(&self) -> u32 {
        let Some(rate) = self.download.rate() else { return RANGE_CHUNKS_MAX };
        let chunks = rate / 4 / CONTENT_CHUNK_BYTES as u64;
        u32::try_from(chunks).unwrap_or(u32::MAX).clamp(1, RANGE_CHUNKS_MAX)
    }

    async fn try_fetch(&self, order: &Order, received: &mut u64) -> Result<(), End> {
        if order.bytes_max <= CONTENT_CHUNK_BYTES as u64 {
            return self.fetch_whole(order, received).await;
        }
        let content = order.content;
        let contents = self.contents.clone();
        let mut incoming = blocking(move || contents.receive(&content)).await.map_err(End::Disk)?;
        let known = incoming
            .outline()
            .filter(|outline| outline.bytes() <= order.bytes_max && outline.verify(&content));
        let (outline, first) = match known {
            Some(outline) => (outline, None),
            None => {
                let asked = timeout(SLICE, self.outline(order)).await;
                let (outline, holder) = asked.map_err(|_| End::Lost)??;
                let begun = outline.clone();
                incoming = blocking(move || {
                    incoming.begin(&begun)?;
                    Ok(incoming)
                })
                .await
                .map_err(End::Disk)?;
                (outline, Some(holder))
            }
        };
        let missing: BTreeSet<u32> =
            (0..outline.chunks()).filter(|chunk| !incoming.has(*chunk)).collect();
        let holders = self.holders(order, missing.len());
        let job = Job {
            content,
            outline: Arc::new(outline),
            incoming: Arc::new(Mutex::new(Some(incoming))),
            pool: Pool::new(missing),
            holders: holders.len(),
            received: AtomicU64::new(0),
        };
        let began = Instant::now();
        let ended = tokio::select! {
            ended = self.read_from(&job, order.from, &holders, first) => ended,
            // Whoever is still sending sends what others were faster with.
            () = job.pool.done() => Ok(()),
            () = close(&job.pool) => Err(End::Lost),
        };
        *received = job.received.load(Ordering::Relaxed);
        // Taken out even if it failed: whoever still writes must find nothing to write to.
        let incoming = taken(&job.incoming).await.map_err(End::Disk)?;
        if !job.pool.is_done() {
            let end = ended.err().unwrap_or(End::Lost);
            let goes_on = *received > 0 && began.elapsed() >= SLICE;
            return Err(if goes_on && end.passes() { End::Partly } else { end });
        }
        blocking(move || incoming.finish()).await.map_err(End::Disk)
    }

    /// Fetches a content of one chunk: one question, one answer, one file.
    async fn fetch_whole(&self, order: &Order, received: &mut u64) -> Result<(), End> {
        let (content, contents) = (order.content, self.contents.clone());
        let _place = self.places.acquire().await.map_err(|_| End::Lost)?;
        let most = usize::try_from(order.bytes_max).unwrap_or(usize::MAX);
        let came = AtomicU64::new(0);
        let count = |bytes: usize| {
            let before = came.fetch_add(bytes as u64, Ordering::Relaxed);
            // What comes in a second try beyond what was taken has its time afterwards, like all
            // that is no content.
            let taken = order.bytes_max.saturating_sub(before).min(bytes as u64);
            self.traffic.payload_down.fetch_add(taken, Ordering::Relaxed);
        };
        let slice = self.download.take(most).await;
        let asked = self.ask(order, Request::Whole(content), order.bytes_max, count);
        let asked = timeout(SLICE + CLOSING, asked).await.unwrap_or(Err(End::Lost));
        *received = came.load(Ordering::Relaxed);
        if *received == 0 {
            // Most of those who have not got it yet say so.
            self.download.give_back(slice);
        }
        let (holder, Answered { bytes, took }) = asked?;
        if content_id(&bytes) != content {
            return Err(End::Wrong);
        }
        self.rates.note(order.from, *received, took);
        blocking(move || contents.store(&content, &bytes)).await.map_err(End::Disk)?;
        holder.close().await;
        Ok(())
    }

    /// The outline, from whom the content is to come.
    async fn outline(&self, order: &Order) -> Result<(Outline, Holder<'_>), End> {
        let most = Outline::wire_bytes(order.bytes_max).unwrap_or_default();
        let request = Request::Outline(order.content);
        let (holder, answer) = self.ask(order, request, most, |_| {}).await?;
        let outline = Outline::from_bytes(&answer.bytes, u64::MAX)
            .filter(|outline| outline.verify(&order.content))
            .ok_or(End::Wrong)?;
        if outline.bytes() > order.bytes_max { Err(End::TooLong) } else { Ok((outline, holder)) }
    }

    /// Asks whom the content is to come from, a few times if it is there and does not answer: a
    /// stream may have been turned away at a busy door.
    async fn ask(
        &self,
        order: &Order,
        request: Request,
        most: u64,
        count: impl Fn(usize),
    ) -> Result<(Holder<'_>, Answered), End> {
        let mut tries = 0;
        loop {
            let mut holder = self.open(order.from).await?;
            match holder.ask_and_count(request, most, &count).await {
                Ok(answered) => return Ok((holder, answered)),
                Err(end) if end.passes() && tries < RETRIES && self.is_up(&order.from) => {
                    tries += 1
                }
                Err(end) => return Err(end),
            }
            sleep(RETRY_TIME * tries).await;
        }
    }

    /// Whom to fetch from, no more than there are chunks.
    fn holders(&self, order: &Order, chunks: usize) -> Vec<NodeId> {
        let mut holders = vec![order.from];
        for node in &order.others {
            if holders.len() < HOLDERS_MAX.min(chunks)
                && !holders.contains(node)
                && self.is_up(node)
            {
                holders.push(*node);
            }
        }
        holders
    }

    /// Lets all holders work until everything is here, or nobody is left.
    async fn read_from<'a>(
        &'a self,
        job: &'a Job,
        from: NodeId,
        holders: &[NodeId],
        mut first: Option<Holder<'a>>,
    ) -> Result<(), End> {
        let mut running: FuturesUnordered<_> = holders
            .iter()
            .map(|node| {
                let stream = if *node == from { first.take() } else { None };
                self.read_one(job, *node, *node == from, stream)
            })
            .collect();
        let mut ended = Ok(());
        while let Some((node, end)) = running.next().await {
            match end {
                Err(End::Wrong) if node == from => return Err(End::Wrong),
                Err(End::Disk(error)) => return Err(End::Disk(error)),
                end if node == from => ended = end,
                Ok(()) => {}
                Err(end) => tracing::debug!(%node, ?end, "a holder is left out"),
            }
        }
        ended
    }

    async fn read_one<'a>(
        &'a self,
        job: &'a Job,
        node: NodeId,
        first: bool,
        mut holder: Option<Holder<'a>>,
    ) -> (NodeId, Result<(), End>) {
        let mut received = false;
        let mut tries = 0;
        loop {
            // Those who only help must not keep others from beginning.
            let place = match first {
                true => self.places.acquire().await.ok(),
                false => self.places.try_acquire().ok(),
            };
            let Some(place) = place else { return (node, Err(End::Lost)) };
            let opened = match holder.take() {
                Some(holder) => Ok(holder),
                None => self.open(node).await,
            };
            let end = match opened {
                Ok(holder) => holder.run(job, &mut received).await,
                Err(end) => Err(end),
            };
            let wait = match &end {
                Err(End::Broken) => Some(RETRY_TIME),
                // A stream that never answered may have been turned away at a busy door.
                Err(End::Lost) if !received => Some(RETRY_TIME),
                // Who only helps may have it in a moment.
                Err(End::NotFound) if !first && !received => Some(HELP_TIME),
                _ => None,
            };
            let Some(wait) = wait.filter(|_| tries < RETRIES && self.is_up(&node)) else {
                return (node, end);
            };
            tries += 1;
            drop(place);
            sleep(wait * tries).await;
        }
    }

    /// Opens a stream to a connected node.
    async fn open(&self, node: NodeId) -> Result<Holder<'_>, End> {
        let peer = peer_of(&node).ok_or(End::Lost)?;
        let mut tries = 0;
        loop {
            if !self.is_up(&node) {
                return Err(End::Lost);
            }
            let mut control = self.control.clone();
            let opened = control.open_stream(peer, self.protocol.clone());
            match timeout(OPEN_TIME, opened).await {
                Ok(Ok(stream)) => return Ok(Holder { fetcher: self, node, stream }),
                Ok(Err(OpenStreamError::Io(_))) if tries < RETRIES => tries += 1,
                _ => return Err(End::Lost),
            }
            sleep(RETRY_TIME * tries).await;
        }
    }

    fn is_up(&self, node: &NodeId) -> bool {
        self.peers.borrow().contains(node)
    }
}

/// Ends a fetch that takes long in good order, and then in any case: what is here is kept, and
/// others have their turn.
async fn close(pool: &Pool) {
    sleep(SLICE).await;
    pool.close();
    sleep(CLOSING).await;
}

/// Takes the content out, once nobody writes to it.
async fn taken(slot: &Slot) -> io::Result<Box<dyn Incoming>> {
    let slot = slot.clone();
    blocking(move || {
        let mut incoming = slot.lock().unwrap_or_else(PoisonError::into_inner);
        incoming.take().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    })
    .await
}

/// How long one content may keep others waiting.
const SLICE: Duration = Duration::from_secs(20);
/// How long what was asked for by then may take.
const CLOSING: Duration = Duration::from_secs(10);
const OPEN_TIME: Duration = Duration::from_secs(10);
/// Attempts after the first one.
const RETRIES: u32 = 4;
const RETRY_TIME: Duration = Duration::from_millis(50);
/// The same for somebody who has not got a content yet.
const HELP_TIME: Duration = Duration::from_millis(200);
/// How long to leave a peer alone that was too busy for a genesis.
const BUSY_TIME: Duration = Duration::from_secs(1);
/// The longest way of a question about the time and its answer.
const CLOCK_WAY_MAX: Duration = Duration::from_secs(2);
