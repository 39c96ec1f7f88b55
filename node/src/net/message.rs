//! Direct messages: a request carries the bytes, an empty response says that they arrived.

use std::io;
use std::time::Duration;

use atoll_protocol::limits::MESSAGE_BYTES_MAX;
use futures::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::StreamProtocol;
use libp2p::request_response::{self, ProtocolSupport};

/// The behaviour that carries direct messages.
pub(super) type Messages = request_response::Behaviour<MessageCodec>;

/// Direct messages over `protocol`.
pub(super) fn messages(protocol: StreamProtocol) -> Messages {
    let config = request_response::Config::default()
        .with_request_timeout(MESSAGE_TIMEOUT)
        .with_max_concurrent_streams(STREAMS_MAX);
    Messages::with_codec(MessageCodec, [(protocol, ProtocolSupport::Full)], config)
}

/// A message behind its length. Without it, a stream that its sender gave up on would pass for a
/// short message, and an honest peer for one that sends nonsense.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageCodec;

impl request_response::Codec for MessageCodec {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = ();

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut length = [0; 4];
        io.read_exact(&mut length).await?;
        let length = u32::from_le_bytes(length);
        if usize::try_from(length).map_err(io::Error::other)? > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
        }
        // Grows with what comes, whatever was promised.
        let mut bytes = Vec::new();
        io.take(u64::from(length)).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 != u64::from(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<()>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut none = [0];
        io.read(&mut none).await.map(|_| ())
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        bytes: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        io.write_all(&length.to_le_bytes()).await?;
        io.write_all(&bytes).await
    }

    async fn write_response<T>(&mut self, _: &StreamProtocol, _: &mut T, (): ()) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        Ok(())
    }
}

/// A full message over a very slow link.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages to and from one peer at once.
const STREAMS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::io::Cursor;
    use libp2p::request_response::Codec as _;

    use super::*;

    const NAME: StreamProtocol = StreamProtocol::new("/test");

    fn written(message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut io = Cursor::new(&mut bytes);
        block_on(MessageCodec.write_request(&NAME, &mut io, message.to_vec())).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        block_on(MessageCodec.read_request(&NAME, &mut Cursor::new(bytes)))
    }

    #[test]
    fn a_message_that_was_cut_off_is_none() {
        let bytes = written(b"a message");
        assert_eq!(read(&bytes).unwrap(), b"a message");
        assert_eq!(read(&written(b"")).unwrap(), b"");
        for end in 0..bytes.len() {
            let error = read(&bytes[..end]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        }
    }

    #[test]
    fn a_long_message_is_refused_before_it_is_read() {
        let length = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap();
        let error = read(&length.to_le_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
