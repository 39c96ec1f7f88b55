//! Any bytes as a genesis, canonical and TOML: an error, or a run that can be split and written.

#![no_main]

use atoll_protocol::genesis::Genesis;
use atoll_protocol::wire::tag::Domain;
use atoll_protocol::wire::version::WIRE_VERSION;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The tag and the version are what every input would fail at; most skip them.
    let mut tagged = Domain::Genesis.tag().to_vec();
    tagged.extend_from_slice(&WIRE_VERSION.to_le_bytes());
    tagged.extend_from_slice(bytes);
    for bytes in [bytes, tagged.as_slice()] {
        if let Ok(genesis) = Genesis::from_bytes(bytes) {
            assert_eq!(genesis.to_bytes(), bytes);
            check(&genesis);
        }
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(genesis) = Genesis::from_toml(text)
    {
        check(&genesis);
    }
});

fn check(genesis: &Genesis) {
    genesis.validate().expect("only good ones are read");
    let again = Genesis::from_toml(&genesis.to_toml()).expect("what is written can be read");
    assert_eq!(again.run_id(), genesis.run_id());
    let again = Genesis::from_bytes(&genesis.to_bytes()).expect("what is encoded can be decoded");
    assert_eq!(again.run_id(), genesis.run_id());
    let elements: usize = genesis.tensors.iter().map(|tensor| tensor.elements()).sum();
    assert_eq!(genesis.fragment_map().elements(), elements);
}
