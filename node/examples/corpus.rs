//! Prints the generated corpus, a zero byte after each document.
//!
//! How far it compresses tells how much there is to learn:
//! `cargo run --release -p atoll-node --example corpus -- 4000000 | zstd -19 | wc -c`

use std::io::{self, Write as _};

use atoll_node::island::data::generated::Generated;

fn main() -> io::Result<()> {
    let bytes = std::env::args().nth(1).and_then(|bytes| bytes.parse().ok()).unwrap_or(4096);
    let corpus = Generated::new(0);
    let mut text = Vec::with_capacity(bytes);
    for document in 0.. {
        if text.len() >= bytes {
            break;
        }
        corpus.write(document, &mut text);
        text.push(0);
    }
    io::stdout().write_all(&text[..bytes])
}
