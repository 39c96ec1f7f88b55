//! Serving contents: everybody who has something gives it, as fast as the owner allows.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use atoll_protocol::crypto::{Outline, content_id};
use atoll_protocol::id::ContentId;
use atoll_protocol::limits::{
    CONTENT_CHUNK_BYTES, CONTENT_STREAMS_MAX, CONTENT_STREAMS_PER_PEER_MAX, PEERS_BYTES_MAX,
    RANGE_CHUNKS_MAX, UPLOADS_WAITING_MAX,
};
use futures::StreamExt as _;
use futures::io::AsyncWriteExt as _;
use libp2p::{PeerId, Stream};
use libp2p_stream::IncomingStreams;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::contents::{Contents, Stored};
use super::super::event::Notice;
use super::super::traffic::Traffic;
use super::blocking;
use super::bucket::Bucket;
use super::frame::{Answer, Request, malformed, unix_ms};
use super::outlines::Outlines;

/// What is served, and how much at once.
pub(in crate::net) struct Server {
    contents: Arc<dyn Contents>,
    genesis: Mutex<Arc<[u8]>>,
    /// Where our peers are, one address a line.
    peers: Mutex<Arc<[u8]>>,
    clock: fn() -> SystemTime,
    outlines: Outlines,
    slots: Semaphore,
    /// Slots that one peer may have.
    share: usize,
    waiting: AtomicUsize,
    upload: Bucket,
    traffic: Arc<Traffic>,
    notices: mpsc::Sender<Notice>,
    /// Streams that are open.
    streams: AtomicUsize,
    guests: Mutex<BTreeMap<PeerId, Guest>>,
}

/// What one peer has here.
struct Guest {
    streams: usize,
    slots: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// A content that the last request on a stream was about; the next one mostly is, too.
struct Open {
    content: ContentId,
    stored: Arc<dyn Stored>,
    outline: Arc<Outline>,
}

impl Server {
    pub(in crate::net) fn new(
        contents: Arc<dyn Contents>,
        genesis: Arc<[u8]>,
        clock: fn() -> SystemTime,
        slots: usize,
        upload: Bucket,
        traffic: Arc<Traffic>,
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        Self {
            contents,
            genesis: Mutex::new(genesis),
            peers: Mutex::default(),
            clock,
            outlines: Outlines::default(),
            slots: Semaphore::new(slots.clamp(1, CONTENT_STREAMS_MAX)),
            share: slots.clamp(1, CONTENT_STREAMS_MAX).div_ceil(2),
            waiting: AtomicUsize::new(0),
            upload,
            traffic,
            notices,
            streams: AtomicUsize::new(0),
            guests: Mutex::default(),
        }
    }

    /// Serves this genesis from now on.
    pub(in crate::net) fn set_genesis(&self, genesis: Arc<[u8]>) {
        *self.genesis.lock().unwrap_or_else(PoisonError::into_inner) = genesis;
    }

    /// Says from now on that our peers are at these addresses.
    pub(in crate::net) fn set_peers(&self, addresses: &[String]) {
        let mut list = String::new();
        for address in addresses {
            if list.len() + address.len() < PEERS_BYTES_MAX {
                list.push_str(address);
                list.push('\n');
            }
        }
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = list.into_bytes().into();
    }

    /// Serves every stream that comes in, until it is dropped.
    pub(in crate::net) async fn run(self: Arc<Self>, mut incoming: IncomingStreams) {
        let mut streams = JoinSet::new();
        while let Some((peer, stream)) = incoming.next().await {
            while streams.try_join_next().is_some() {}
            if streams.len() < CONTENT_STREAMS_MAX
                && let Some(place) = Place::take(&self, peer)
            {
                let server = self.clone();
                streams.spawn(async move {
                    if let Err(error) = server.serve(stream, &place).await {
                        tracing::debug!(%peer, %error, "a content stream ended");
                    }
                });
            }
        }
    }

    async fn serve(&self, mut stream: Stream, place: &Place) -> io::Result<()> {
        let mut open = None;
        while let Some(request) = timeout(self.idle_max(), Request::read(&mut stream)).await?? {
            if self.talk(&mut stream, request).await? {
                continue;
            }
            let Some(_slot) = self.slot(&mut stream, place).await? else {
                timeout(WRITE_MAX, Answer::Busy.write(&mut stream)).await??;
                continue;
            };
            match request {
                Request::Peers | Request::Time => {}
                Request::Genesis => {
                    let genesis =
                        self.genesis.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    self.answer(&mut stream, (!genesis.is_empty()).then_some(&genesis)).await?;
                }
                Request::Whole(content) => {
                    let whole = self.whole(content).await?;
                    self.answer(&mut stream, whole.as_deref()).await?;
                }
                Request::Outline(content) => {
                    self.open(&mut open, content).await?;
                    let outline = open.as_ref().map(|open| open.outline.to_bytes());
                    self.answer(&mut stream, outline.as_deref()).await?;
                }
                Request::Chunks { content, first, count } => {
                    self.open(&mut open, content).await?;
                    match &open {
                        Some(open) => self.chunks(&mut stream, open, first, count).await?,
                        None => self.answer(&mut stream, None).await?,
                    }
                }
            }
        }
        stream.close().await
    }

    /// Answers what takes next to nothing at once, without a slot: what time it is has to be said
    /// now, and who looks for peers may be alone. True if it was that.
    async fn talk(&self, stream: &mut Stream, request: Request) -> io::Result<bool> {
        let answer: Arc<[u8]> = match request {
            Request::Peers => self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Request::Time => Arc::from(unix_ms((self.clock)()).to_le_bytes()),
            _ => return Ok(false),
        };
        let said = async {
            Answer::Here(answer.len() as u64).write(stream).await?;
            stream.write_all(&answer).await?;
            stream.flush().await
        };
        timeout(WRITE_MAX, said).await??;
        Ok(true)
    }

    /// Waits for a slot and lets the other side know that it is not forgotten; none if too many
    /// wait already. No peer gets more than its share, however many streams it opens.
    async fn slot<'a>(
        &'a self,
        stream: &mut Stream,
        place: &'a Place,
    ) -> io::Result<Option<[SemaphorePermit<'a>; 2]>> {
        if let Ok(own) = place.slots.try_acquire()
            && let Ok(slot) = self.slots.try_acquire()
        {
            return Ok(Some([own, slot]));
        }
        let Some(_waiter) = Waiter::queue(&self.waiting, UPLOADS_WAITING_MAX) else {
            return Ok(None);
        };
        let Some(_own) = Waiter::queue(&place.waiting, WAITING_PER_PEER_MAX) else {
            return Ok(None);
        };
        let slot = async {
            // In this order: whoever waits for its own takes nothing from others.
            let own = place.slots.acquire().await?;
            Ok::<_, AcquireError>([own, self.slots.acquire().await?])
        };
        tokio::pin!(slot);
        loop {
            match timeout(WAIT_INTERVAL, slot.as_mut()).await {
                Ok(slot) => return slot.map(Some).map_err(io::Error::other),
                Err(_) => timeout(WRITE_MAX, Answer::Wait.write(stream)).await??,
            }
        }
    }

    async fn open(&self, open: &mut Option<Open>, content: ContentId) -> io::Result<()> {
        if open.as_ref().is_some_and(|open| open.content == content) {
            return Ok(());
        }
        *open = None;
        let contents = self.contents.clone();
        let Some(stored) = blocking(move || Ok(contents.open(&content))).await? else {
            return Ok(());
        };
        match self.outlines.of(content, &stored).await? {
            Some(outline) if outline.bytes() == stored.bytes() => {
                *open = Some(Open { content, stored, outline });
            }
            _ => self.broken(content),
        }
        Ok(())
    }

    /// A content that is no longer than a chunk, read and checked; none if it is not here, or longer.
    async fn whole(&self, content: ContentId) -> io::Result<Option<Vec<u8>>> {
        let contents = self.contents.clone();
        let read = blocking(move || {
            let stored = contents.open(&content);
            let Some(stored) = stored.filter(|it| it.bytes() <= CONTENT_CHUNK_BYTES as u64) else {
                return Ok(None);
            };
            let mut bytes = vec![0; usize::try_from(stored.bytes()).map_err(io::Error::other)?];
            stored.read_at(0, &mut bytes)?;
            if content_id(&bytes) == content { Ok(Some(bytes)) } else { Err(malformed("content")) }
        });
        match read.await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.broken(content);
                Ok(None)
            }
            read => read,
        }
    }

    async fn answer(&self, stream: &mut Stream, bytes: Option<&[u8]>) -> io::Result<()> {
        let answer = bytes.map_or(Answer::NotFound, |bytes| Answer::Here(bytes.len() as u64));
        timeout(WRITE_MAX, answer.write(stream)).await??;
        let mut spent = Duration::ZERO;
        self.send(stream, bytes.unwrap_or_default(), &mut spent).await?;
        stream.flush().await
    }

    async fn chunks(
        &self,
        stream: &mut Stream,
        open: &Open,
        first: u32,
        count: u32,
    ) -> io::Result<()> {
        let end = first.checked_add(count).filter(|end| *end <= open.outline.chunks());
        let Some(end) = end.filter(|_| (1..=RANGE_CHUNKS_MAX).contains(&count)) else {
            return Err(malformed("such range"));
        };
        let bytes = open.outline.range(end - 1).end - open.outline.range(first).start;
        let mut spent = Duration::ZERO;
        let mut next = Some(open.read(first));
        timeout(WRITE_MAX, Answer::Here(bytes).write(stream)).await??;
        for chunk in first..end {
            let Some(current) = next.take() else { break };
            let bytes = current.await;
            // The disk works while the network does.
            next = (chunk + 1 < end).then(|| open.read(chunk + 1));
            match bytes {
                Ok(bytes) => self.send(stream, &bytes, &mut spent).await?,
                Err(error) => {
                    if error.kind() == io::ErrorKind::InvalidData {
                        self.broken(open.content);
                    }
                    return Err(error);
                }
            }
        }
        stream.flush().await
    }

    /// Sends bytes in small pieces, each when it may go. What the other side takes longer than
    /// our own cap is added to `spent`: a slot is not to be held by whoever does not read.
    async fn send(
        &self,
        stream: &mut Stream,
        bytes: &[u8],
        spent: &mut Duration,
    ) -> io::Result<()> {
        for piece in bytes.chunks(self.upload.quantum()) {
            let _slice = self.upload.take(piece.len()).await;
            let began = Instant::now();
            let left = RANGE_MAX.saturating_sub(*spent).min(WRITE_MAX);
            timeout(left, stream.write_all(piece)).await??;
            *spent += began.elapsed();
            self.traffic.payload_up.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn broken(&self, content: ContentId) {
        self.outlines.forget(&content);
        // Only a word to people, who have been told often enough if there is no room.
        let _ = self.notices.try_send(Notice::Broken(content));
    }

    /// Whether there is room for few more streams only.
    fn is_crowded(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > CONTENT_STREAMS_MAX / 2
    }

    fn idle_max(&self) -> Duration {
        if self.is_crowded() { IDLE_MAX / 12 } else { IDLE_MAX }
    }

    fn guests(&self) -> MutexGuard<'_, BTreeMap<PeerId, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Reads and checks a chunk: our disk's faults must not look like our lies.
    fn read(&self, chunk: u32) -> impl Future<Output = io::Result<Vec<u8>>> + use<> {
        let (stored, outline) = (self.stored.clone(), self.outline.clone());
        // Begun here and now, whenever it is waited for.
        let reading = tokio::task::spawn_blocking(move || {
            let range = outline.range(chunk);
            let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            stored.read_at(range.start, &mut bytes)?;
            if outline.chunk_is(chunk, &bytes) { Ok(bytes) } else { Err(malformed("such chunk")) }
        });
        async move { reading.await.map_err(io::Error::other)? }
    }
}

/// One of a peer's streams.
struct Place {
    server: Arc<Server>,
    peer: PeerId,
    /// The peer's share of the slots.
    slots: Arc<Semaphore>,
    /// The peer's requests that wait for one.
    waiting: Arc<AtomicUsize>,
}

impl Place {
    fn take(server: &Arc<Server>, peer: PeerId) -> Option<Self> {
        let mut guests = server.guests();
        // A few peers must not take every place.
        let most =
            if server.is_crowded() { STREAMS_WHERE_CROWDED } else { CONTENT_STREAMS_PER_PEER_MAX };
        if guests.get(&peer).is_some_and(|guest| guest.streams >= most) {
            return None;
        }
        let guest = guests.entry(peer).or_insert_with(|| Guest {
            streams: 0,
            slots: Arc::new(Semaphore::new(server.share)),
            waiting: Arc::default(),
        });
        guest.streams += 1;
        server.streams.fetch_add(1, Ordering::Relaxed);
        let (slots, waiting) = (guest.slots.clone(), guest.waiting.clone());
        Some(Self { server: server.clone(), peer, slots, waiting })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server.streams.fetch_sub(1, Ordering::Relaxed);
        let mut guests = self.server.guests();
        if let Some(guest) = guests.get_mut(&self.peer) {
            guest.streams -= 1;
            if guest.streams == 0 {
                guests.remove(&self.peer);
            }
        }
    }
}

/// A request in the queue for a slot.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn queue(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(waiting))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Streams of one peer while more than half of all places are taken.
const STREAMS_WHERE_CROWDED: usize = 4;
/// Requests of one peer that may wait for a slot.
const WAITING_PER_PEER_MAX: usize = UPLOADS_WAITING_MAX / 4;
/// How long a stream may be open without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long the other side may take nothing.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// How long the other side may take for a range. It asks for what it reads in a moment.
const RANGE_MAX: Duration = Duration::from_secs(90);
/// How often a waiting peer is told so.
const WAIT_INTERVAL: Duration = Duration::from_secs(2);
