//! A ring all-reduce over TCP: what a rival sends its gradients with.
//!
//! Every member sends to the next and receives from the one before, both at once. The values are
//! cut into as many chunks as there are members; a chunk is summed on its way around the ring,
//! then goes around once more. Each member so sends `2 (M - 1) / M` of the values, the least there
//! can be. A chunk travels in small segments, and a segment goes on as soon as it is there, so
//! that the links are never idle.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::half;

/// A member's two connections.
#[derive(Debug)]
pub(super) struct Ring {
    number: usize,
    members: usize,
    elements: usize,
    before: TcpStream,
    /// To the thread that sends.
    sending: SyncSender<Vec<u8>>,
    /// Buffers that were sent.
    spare: Receiver<Vec<u8>>,
    received: Vec<u8>,
}

impl Ring {
    /// Member `number` of a ring that averages so many values. All members call this at about
    /// the same time.
    pub(super) fn join(
        number: usize,
        members: usize,
        elements: usize,
        listener: &TcpListener,
        next: SocketAddr,
    ) -> io::Result<Self> {
        let to_next = connect(next)?;
        to_next.set_nodelay(true)?;
        let (before, _) = listener.accept()?;
        // Everything that is under way at once fits, so that nobody waits for a sender that waits.
        let segments = elements.div_ceil(members).div_ceil(SEGMENT);
        let room = 2 * members * segments;
        let (sending, queue) = sync_channel::<Vec<u8>>(room);
        let (used, spare) = sync_channel(room);
        thread::spawn(move || send(to_next, &queue, &used));
        let received = Vec::new();
        Ok(Self { number, members, elements, before, sending, spare, received })
    }

    /// Puts the mean over all members in place of `values`, the same bits everywhere.
    ///
    /// # Panics
    ///
    /// If there are not as many values as were announced.
    pub(super) fn mean(&mut self, values: &mut [f32]) -> io::Result<()> {
        assert_eq!(values.len(), self.elements, "a ring is made for so many values");
        let legs = 2 * (self.members - 1);
        for segment in self.segments(self.number) {
            let mut bytes = self.buffer();
            half::encode(&values[segment], &mut bytes);
            self.send(bytes)?;
        }
        for leg in 0..legs {
            // Each leg brings the chunk before the last one's.
            let chunk = (self.number + 2 * self.members - 1 - leg % self.members) % self.members;
            for segment in self.segments(chunk) {
                self.receive(segment.len())?;
                let part = &mut values[segment];
                let bytes = self.take_in(part, leg);
                if leg + 1 < legs {
                    self.send(bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Adds or stores what came, and gives what goes on to the next member.
    fn take_in(&mut self, part: &mut [f32], leg: usize) -> Vec<u8> {
        let whole = self.members - 1;
        if leg >= whole {
            half::decode(&self.received, part, |value, sent| *value = sent);
            let empty = self.buffer();
            return std::mem::replace(&mut self.received, empty);
        }
        half::decode(&self.received, part, |value, sent| *value += sent);
        if leg + 1 == whole {
            // The sum is whole: from here on everybody has the same rounded mean.
            let share = 1.0 / self.members as f32;
            part.iter_mut().for_each(|value| *value = half::rounded(*value * share));
        }
        let mut bytes = self.buffer();
        half::encode(part, &mut bytes);
        bytes
    }

    fn receive(&mut self, elements: usize) -> io::Result<()> {
        self.received.resize(elements * half::BYTES, 0);
        self.before.read_exact(&mut self.received)
    }

    fn send(&self, bytes: Vec<u8>) -> io::Result<()> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the next member is gone");
        self.sending.send(bytes).map_err(gone)
    }

    /// An empty buffer, used before if possible.
    fn buffer(&self) -> Vec<u8> {
        let mut buffer = self.spare.try_recv().unwrap_or_default();
        buffer.clear();
        buffer
    }

    fn segments(&self, chunk: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let edge = |chunk: usize| chunk * self.elements / self.members;
        let (start, end) = (edge(chunk), edge(chunk + 1));
        (start..end).step_by(SEGMENT).map(move |from| from..(from + SEGMENT).min(end))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The one before may have gone already.
        let _ = self.before.shutdown(Shutdown::Both);
    }
}

/// The next member may not listen yet.
fn connect(next: SocketAddr) -> io::Result<TcpStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(next) {
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => thread::sleep(BETWEEN_TRIES),
            connected => return connected,
        }
    }
}

/// Sends until the ring is dropped or the next member has gone.
fn send(mut next: TcpStream, queue: &Receiver<Vec<u8>>, used: &SyncSender<Vec<u8>>) {
    while let Ok(bytes) = queue.recv() {
        if next.write_all(&bytes).is_err() {
            return;
        }
        // There are enough spare ones if it does not fit.
        let _ = used.try_send(bytes);
    }
}

/// Values that go on as soon as they are there: 32 kB, a few packets.
const SEGMENT: usize = 1 << 14;
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// What each member has after a mean of these values.
    fn means(values: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
        let members = values.len();
        let listeners: Vec<TcpListener> =
            (0..members).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|it| it.local_addr().unwrap()).collect();
        let threads: Vec<_> = (0..members)
            .zip(values)
            .zip(listeners)
            .map(|((number, mut values), listener)| {
                let next = addresses[(number + 1) % members];
                thread::spawn(move || {
                    let elements = values.len();
                    let mut ring = Ring::join(number, members, elements, &listener, next).unwrap();
                    // Twice: nothing is left in a connection.
                    ring.mean(&mut values).unwrap();
                    ring.mean(&mut values).unwrap();
                    values
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    }

    #[test]
    fn everybody_has_the_mean() {
        for (members, elements) in [(2, 5), (3, 1), (4, 3 * SEGMENT + 7), (5, 100_003)] {
            let values = |number: usize| {
                (0..elements).map(|index| ((index % 64) * (number + 1)) as f32).collect()
            };
            let means = means((0..members).map(values).collect());
            assert!(means.windows(2).all(|pair| pair[0] == pair[1]), "the same bits");
            let factor = (members + 1) as f32 / 2.0;
            for (index, mean) in means[0].iter().enumerate() {
                let exact = (index % 64) as f32 * factor;
                assert!((mean - exact).abs() <= exact / 50.0, "{mean} for {exact}");
            }
        }
    }
}
