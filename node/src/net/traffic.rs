//! Counts every byte of every stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures::io::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox};

/// What went over the network since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes sent that were no contents: gossip, messages and what keeps connections up.
    pub control_up: u64,
    /// Bytes received that were no contents.
    pub control_down: u64,
    /// Bytes of contents sent.
    pub payload_up: u64,
    /// Bytes of contents received.
    pub payload_down: u64,
    /// Connections open now.
    pub connections: usize,
    /// Messages that were not sent because too many waited, or took too much of a capped line, and
    /// those of others that were too many to be passed on.
    pub dropped_up: u64,
    /// Messages that were not delivered because the driver was behind.
    pub dropped_down: u64,
}

/// A direction, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// What all streams carried in one direction.
#[derive(Debug, Default)]
struct Carried {
    bytes: AtomicU64,
    /// About so many, as bytes that are written or read at once travel together.
    packets: AtomicU64,
}

impl Carried {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.packets.fetch_add(bytes.div_ceil(PACKET_BYTES) as u64, Ordering::Relaxed);
    }
}

/// The counters as the network writes them.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    up: Carried,
    down: Carried,
    pub(super) payload_up: AtomicU64,
    pub(super) payload_down: AtomicU64,
    pub(super) connections: AtomicUsize,
    pub(super) dropped_up: AtomicU64,
    pub(super) dropped_down: AtomicU64,
}

impl Traffic {
    /// Everything so far.
    pub(super) fn counters(&self) -> Counters {
        let [payload_up, payload_down] =
            [&self.payload_up, &self.payload_down].map(|count| count.load(Ordering::Relaxed));
        Counters {
            control_up: self.up.bytes.load(Ordering::Relaxed).saturating_sub(payload_up),
            control_down: self.down.bytes.load(Ordering::Relaxed).saturating_sub(payload_down),
            payload_up,
            payload_down,
            connections: self.connections.load(Ordering::Relaxed),
            dropped_up: self.dropped_up.load(Ordering::Relaxed),
            dropped_down: self.dropped_down.load(Ordering::Relaxed),
        }
    }

    /// About how many bytes went over the wire in one direction besides those of contents: gossip,
    /// messages, the headers of all packets, and acknowledgements of what came the other way.
    pub(super) fn around(&self, direction: Direction) -> u64 {
        let (this, other, payload) = match direction {
            Direction::Up => (&self.up, &self.down, &self.payload_up),
            Direction::Down => (&self.down, &self.up, &self.payload_down),
        };
        // Every second packet is acknowledged by one of its own.
        let packets =
            this.packets.load(Ordering::Relaxed) + other.packets.load(Ordering::Relaxed) / 2;
        let bytes = this.bytes.load(Ordering::Relaxed) + packets * HEADER_BYTES;
        bytes.saturating_sub(payload.load(Ordering::Relaxed))
    }
}

/// Bytes of a stream in a full packet.
const PACKET_BYTES: usize = 1400;
/// Bytes around them on the wire: Ethernet, IPv6, UDP, QUIC with its seal, and a frame's head;
/// TCP with noise and yamux comes to about the same. An acknowledgement is not much else.
const HEADER_BYTES: u64 = 100;

/// A connection whose bytes are counted.
pub(super) struct Counted<T> {
    inner: T,
    traffic: Arc<Traffic>,
}

impl<T> Counted<T> {
    pub(super) fn new(inner: T, traffic: Arc<Traffic>) -> Self {
        Self { inner, traffic }
    }
}

impl StreamMuxer for Counted<StreamMuxerBox> {
    type Substream = Counted<SubstreamBox>;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let inner = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(Counted::new(inner, self.traffic.clone())))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let inner = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(Counted::new(inner, self.traffic.clone())))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}

impl AsyncRead for Counted<SubstreamBox> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        self.traffic.down.add(count);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Counted<SubstreamBox> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.traffic.up.add(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
