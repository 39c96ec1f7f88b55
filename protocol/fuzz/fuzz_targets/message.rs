//! Any bytes as a message: an error, or a value whose one encoding they are.

#![no_main]

use atoll_protocol::chain::Chain;
use atoll_protocol::id::RunId;
use atoll_protocol::message::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(message.encode(), bytes);
    let run = RunId([7; 32]);
    match message {
        Message::Announce(signed) => drop(signed.verify(run)),
        Message::Frontier(signed) => drop(signed.verify(run)),
        Message::Evidence(evidence) => {
            if evidence.holds(run) {
                assert!(!evidence.holds(RunId([8; 32])), "a signature is for one run");
            }
        }
        Message::History(history) => {
            if let Ok(chain) = Chain::from_history(&history) {
                let again = Chain::from_history(&chain.to_history()).expect("written by us");
                assert_eq!(again.base(), chain.base());
                assert_eq!(again.base_trail(), chain.base_trail());
            }
        }
        _ => {}
    }
});
