//! Any bytes as a disk record: an error, or a value whose one encoding they are.

#![no_main]

use atoll_protocol::engine::Record;
use atoll_protocol::limits::GENESIS_BYTES_MAX;
use atoll_protocol::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = wire::decode::<Record>(bytes, GENESIS_BYTES_MAX) {
        assert_eq!(wire::encode(&record), bytes);
        let _ = record.contribution_round();
    }
});
