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

/// The bytes of a message up to the end of the stream's writing half.
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
        let mut bytes = Vec::new();
        io.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
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
