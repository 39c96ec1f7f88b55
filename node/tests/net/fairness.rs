//! Whoever passes on in good faith what others refuse does not suffer for it.

use atoll_protocol::fault::Verdict;

use crate::support::row;

/// One node may know of an author what another does not, or may have heard enough of somebody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_passes_on_what_others_refuse_is_still_heard() {
    let (left, mut middle, mut right) = row().await;
    for count in 0..REFUSED {
        left.handle.publish(vec![count]);
        let (_, _, receipt) = middle.message().await;
        middle.handle.judge(receipt, Verdict::Accept);
        let (from, _, receipt) = right.message().await;
        assert_eq!(from, middle.node);
        right.handle.judge(receipt, Verdict::Reject);
    }
    middle.handle.publish(b"its own".to_vec());
    assert_eq!(right.message().await.1, b"its own");
    right.handle.publish(b"to it".to_vec());
    assert_eq!(middle.message().await.1, b"to it");
}

/// Enough for gossipsub to hear somebody no more, if it were to count them.
const REFUSED: u8 = 20;
