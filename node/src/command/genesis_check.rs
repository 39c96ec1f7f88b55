//! `atoll genesis check`: what run a file describes, or what is wrong with it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use atoll_protocol::genesis::Genesis;
use atoll_protocol::limits::GENESIS_BYTES_MAX;

/// Checks `file` and prints the outcome. A file that is no genesis gives exit code 2.
pub(crate) fn run(file: &Path) -> ExitCode {
    let outcome =
        read(file).and_then(|text| Genesis::from_toml(&text).map_err(|it| it.to_string()));
    match outcome {
        Ok(genesis) => match io::stdout().write_all(describe(&genesis).as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody listens any more, as in `atoll genesis check x | head -1`.
            Err(_) => ExitCode::FAILURE,
        },
        Err(reason) => {
            eprintln!("error: {}: {reason}", file.display());
            ExitCode::from(2)
        }
    }
}

fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to see that there are too many.
    let limit = GENESIS_BYTES_MAX as u64 + 1;
    File::open(file)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() > GENESIS_BYTES_MAX {
        return Err(format!("longer than the {GENESIS_BYTES_MAX} bytes a genesis may have"));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("not text: byte {} is not UTF-8", error.utf8_error().valid_up_to())
    })
}

fn describe(genesis: &Genesis) -> String {
    let map = genesis.fragment_map();
    let elements = map.elements();
    let largest = map.fragments().iter().map(|fragment| fragment.elements).max().unwrap_or(0);
    format!(
        "name        {}\n\
         run id      {}\n\
         tensors     {}\n\
         parameters  {elements} ({} bytes)\n\
         fragments   {}, the largest with {largest} parameters\n\
         inner       {}, learning rate up to {}\n\
         genesis     {} bytes\n",
        genesis.name,
        genesis.run_id().to_hex(),
        genesis.tensors.len(),
        4 * elements as u64,
        map.fragments().len(),
        genesis.inner.optimiser.name(),
        genesis.schedule.peak,
        genesis.to_bytes().len(),
    )
}
