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
        Message::Evidence(evidence) => assert!(!evidence.holds(run)),
        Message::History(history) => {
            if let Ok(chain) = Chain::from_history(&history) {
                assert_eq!(Chain::from_history(&chain.to_history()), Ok(chain));
            }
        }
        _ => {}
    }
});
