//! What is said on a content stream: requests of one size, answers of one size before the bytes.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use atoll_protocol::id::ContentId;
use futures::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What a fetching node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The outline of a content.
    Outline(ContentId),
    /// The chunks from `first` on, `count` of them.
    Chunks { content: ContentId, first: u32, count: u32 },
    /// The run's genesis.
    Genesis,
    /// Where the holder's peers are.
    Peers,
    /// What time it is there.
    Time,
    /// All of a content that is no longer than a chunk.
    Whole(ContentId),
}

impl Request {
    pub(super) async fn write(self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (kind, content, first, count) = match self {
            Self::Outline(content) => (1, content, 0, 0),
            Self::Chunks { content, first, count } => (2, content, first, count),
            Self::Genesis => (3, ContentId([0; 32]), 0, 0),
            Self::Peers => (4, ContentId([0; 32]), 0, 0),
            Self::Time => (5, ContentId([0; 32]), 0, 0),
            Self::Whole(content) => (6, content, 0, 0),
        };
        let mut frame = [0; REQUEST_BYTES];
        frame[0] = kind;
        frame[1..33].copy_from_slice(&content.0);
        frame[33..37].copy_from_slice(&u32::to_le_bytes(first));
        frame[37..].copy_from_slice(&u32::to_le_bytes(count));
        io.write_all(&frame).await?;
        io.flush().await
    }

    /// The next request; none if there is no more.
    pub(super) async fn read(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut frame = [0; REQUEST_BYTES];
        if io.read(&mut frame[..1]).await? == 0 {
            return Ok(None);
        }
        io.read_exact(&mut frame[1..]).await?;
        let (kind, rest) = frame.split_at(1);
        let (content, rest) = rest.split_at(32);
        let (first, count) = rest.split_at(4);
        let content = ContentId(content.try_into().expect("32 bytes"));
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        match kind {
            [1] => Ok(Some(Self::Outline(content))),
            [2] => Ok(Some(Self::Chunks { content, first: number(first), count: number(count) })),
            [3] => Ok(Some(Self::Genesis)),
            [4] => Ok(Some(Self::Peers)),
            [5] => Ok(Some(Self::Time)),
            [6] => Ok(Some(Self::Whole(content))),
            _ => Err(malformed("request")),
        }
    }
}

/// What a holder says before it sends anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// So many bytes follow.
    Here(u64),
    /// It is not here, or not for others.
    NotFound,
    /// Too many want something.
    Busy,
    /// Others come first; another answer follows.
    Wait,
}

impl Answer {
    pub(super) async fn write(self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (kind, bytes) = match self {
            Self::Here(bytes) => (1, bytes),
            Self::NotFound => (2, 0),
            Self::Busy => (3, 0),
            Self::Wait => (4, 0),
        };
        let mut frame = [0; ANSWER_BYTES];
        frame[0] = kind;
        frame[1..].copy_from_slice(&u64::to_le_bytes(bytes));
        io.write_all(&frame).await?;
        io.flush().await
    }

    pub(super) async fn read(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut frame = [0; ANSWER_BYTES];
        io.read_exact(&mut frame).await?;
        let bytes = u64::from_le_bytes(frame[1..].try_into().expect("8 bytes"));
        match frame[0] {
            1 => Ok(Self::Here(bytes)),
            2 => Ok(Self::NotFound),
            3 => Ok(Self::Busy),
            4 => Ok(Self::Wait),
            _ => Err(malformed("answer")),
        }
    }
}

pub(super) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no {what}"))
}

/// Milliseconds since 1970, as a peer is told them.
pub(super) fn unix_ms(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH);
    let ms = since.map_or_else(
        |before| -(before.duration().as_millis() as i128),
        |it| it.as_millis() as i128,
    );
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Bytes of a moment: [`unix_ms`], little-endian.
pub(super) const TIME_BYTES: u64 = 8;
const REQUEST_BYTES: usize = 1 + 32 + 4 + 4;
const ANSWER_BYTES: usize = 1 + 8;

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::io::Cursor;

    use super::*;

    #[test]
    fn requests_and_answers_come_back() {
        let content = ContentId([7; 32]);
        let requests = [
            Request::Outline(content),
            Request::Chunks { content, first: 5, count: 1 << 30 },
            Request::Genesis,
            Request::Peers,
            Request::Time,
            Request::Whole(content),
        ];
        block_on(async {
            let mut wire = Cursor::new(Vec::new());
            for request in requests {
                request.write(&mut wire).await.unwrap();
            }
            let mut wire = Cursor::new(wire.into_inner());
            for request in requests {
                assert_eq!(Request::read(&mut wire).await.unwrap(), Some(request));
            }
            assert_eq!(Request::read(&mut wire).await.unwrap(), None);
            for answer in [Answer::Here(1 << 40), Answer::NotFound, Answer::Busy, Answer::Wait] {
                let mut wire = Cursor::new(Vec::new());
                answer.write(&mut wire).await.unwrap();
                let mut wire = Cursor::new(wire.into_inner());
                assert_eq!(Answer::read(&mut wire).await.unwrap(), answer);
            }
            assert!(Answer::read(&mut Cursor::new([9; ANSWER_BYTES])).await.is_err());
            assert!(Request::read(&mut Cursor::new([9; REQUEST_BYTES])).await.is_err());
            assert!(Request::read(&mut Cursor::new([1; 5])).await.is_err());
        });
    }
}
