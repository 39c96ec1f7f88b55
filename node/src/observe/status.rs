//! Where a node stands, in one value: what `atoll status --json` prints and scripts read.
//!
//! Names here stay as they are: a field may be added, none is renamed or taken away. A reader
//! that meets a status without a field it knows takes the field's default.

mod network;
mod parts;

use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{NodeId, RunId};
use serde::{Deserialize, Serialize};

use super::written;

pub use network::{Bootstrap, ClockSkew, Nat, NatKind, Network};
pub use parts::{
    Disk, Fates, Fragment, Gauges, How, Lane, Lanes, Loss, Merged, Peer, Reachable, Receipt,
    Training, Warning, YesNo,
};

/// Where a node stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The run's id, 64 hexadecimal digits.
    #[serde(with = "written")]
    pub run: RunId,
    /// What its people call the run.
    pub name: String,
    /// This node's id, 64 hexadecimal digits.
    #[serde(with = "written")]
    pub node: NodeId,
    /// How often this node was started, this time included.
    pub incarnation: u64,
    /// The version of the program.
    pub program: String,
    /// When this was so, RFC 3339.
    pub at: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Whether the node takes part: `joining`, `caught_up` or `muted`.
    #[serde(with = "written")]
    pub standing: Standing,
    /// The four questions people ask first.
    pub gauges: Gauges,
    /// Each fragment, in order.
    pub fragments: Vec<Fragment>,
    /// How well the model does.
    pub loss: Loss,
    /// How the island does.
    pub training: Training,
    /// Where own tokens are, summed over the fragments: a token trains every fragment, so it
    /// counts once for each of them.
    pub fates: Fates,
    /// Bytes over the network since the start.
    pub bytes: Lanes,
    /// Where others can reach this node, as far as it knows.
    pub addresses: Vec<String>,
    /// What is known of the network in between.
    pub network: Network,
    /// Tokens that the swarm has merged, averaged over the fragments.
    pub swarm_tokens: u64,
    /// The peers that are connected.
    pub peers: Vec<Peer>,
    /// How far the last own contributions have come, newest last.
    pub receipts: Vec<Receipt>,
    /// Bytes on disk.
    pub disk: Disk,
    /// What a person should look at.
    pub warnings: Vec<Warning>,
}

impl Status {
    /// The status of a node that has just started.
    pub fn new(run: RunId, node: NodeId) -> Self {
        Self {
            run,
            name: String::new(),
            node,
            incarnation: 0,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            at: String::new(),
            uptime_s: 0,
            standing: Standing::Joining,
            gauges: Gauges::default(),
            fragments: Vec::new(),
            loss: Loss::default(),
            training: Training::default(),
            fates: Fates::default(),
            bytes: Lanes::default(),
            addresses: Vec::new(),
            network: Network::default(),
            swarm_tokens: 0,
            peers: Vec::new(),
            receipts: Vec::new(),
            disk: Disk::default(),
            warnings: Vec::new(),
        }
    }
}

/// What a reader takes for fields that an older node does not send.
impl Default for Status {
    fn default() -> Self {
        Self::new(RunId([0; 32]), NodeId([0; 32]))
    }
}

/// A node that has lived for a while, for tests of everything that shows one.
#[cfg(test)]
pub(super) mod example {
    use atoll_protocol::id::{ContentId, FragmentId, RoundId};

    use super::*;

    pub(in crate::observe) fn status() -> Status {
        let fates = Fates {
            trained: 2_500_000,
            merged: 2_000_000,
            pending: 300_000,
            fresh: 200_000,
            reissued: 0,
            orphaned: 0,
        };
        let fragment = |number: u16, version| Fragment {
            fragment: FragmentId(number),
            version,
            base: version - 3,
            digest: ContentId([0x10 + u8::try_from(number).unwrap(); 32]),
            staleness: u32::from(number),
            fates,
        };
        let round = |number| RoundId { fragment: FragmentId(0), number };
        Status {
            name: "reef".into(),
            incarnation: 3,
            at: "2026-11-16T20:08:44.123Z".into(),
            uptime_s: 8_040,
            standing: Standing::CaughtUp,
            gauges: Gauges {
                alive: 8,
                alive_window_s: 30,
                reachable: Reachable { answer: YesNo::Yes, how: Some(How::Direct) },
                merged_in_last_round: Merged::of(vec![true, false]),
                staleness: 1,
            },
            fragments: vec![fragment(0, 41), fragment(1, 40)],
            loss: Loss { last: Some(3.2142), smoothed: Some(3.2301), held_out: Some(3.3) },
            training: Training {
                step: 12_345,
                tokens: 2_500_000,
                tokens_per_s: 1234.5,
                step_ms: 412.0,
                training_share: 0.981,
            },
            fates: [fates, fates].into_iter().sum(),
            bytes: Lanes {
                control: Lane { up: 1_200_000, down: 3_400_000 },
                content: Lane { up: 12_345_678_901, down: 9_876_543_210 },
            },
            network: network::example(),
            peers: peers(),
            receipts: vec![
                Receipt { round: round(40), merged_by: 8, of: 8 },
                Receipt { round: round(41), merged_by: 6, of: 8 },
            ],
            disk: Disk { used: 1_234_567_890, budget: Some(20_000_000_000), ..Disk::default() },
            warnings: vec![Warning {
                message: "the clock is off by 3 min".into(),
                hint: "let the system set it: timedatectl set-ntp true".into(),
            }],
            ..Status::new(RunId([0x3f; 32]), NodeId([0x12; 32]))
        }
    }

    fn peers() -> Vec<Peer> {
        vec![
            Peer {
                node: NodeId([0xcd; 32]),
                address: Some("/ip4/203.0.113.7/udp/4001/quic-v1".into()),
                relayed: false,
                how: Some(How::HolePunched),
                bytes_per_s: Some(1.5e6),
                rtt_ms: Some(23.4),
                standing: Some(Standing::CaughtUp),
                version: Some(41),
            },
            Peer {
                node: NodeId([0xef; 32]),
                address: None,
                relayed: true,
                how: Some(How::Relayed),
                bytes_per_s: None,
                rtt_ms: None,
                standing: None,
                version: None,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_find_these_names() {
        let value = serde_json::to_value(example::status()).unwrap();
        for (pointer, wanted) in [
            ("/run", serde_json::json!("3f".repeat(32))),
            ("/node", serde_json::json!("12".repeat(32))),
            ("/standing", "caught_up".into()),
            ("/gauges/alive", 8.into()),
            ("/gauges/reachable/answer", "yes".into()),
            ("/gauges/reachable/how", "direct".into()),
            ("/gauges/merged_in_last_round/fragments", serde_json::json!([true, false])),
            ("/gauges/merged_in_last_round/share", 0.5.into()),
            ("/gauges/staleness", 1.into()),
            ("/fragments/1/fragment", 1.into()),
            ("/fragments/1/digest", serde_json::json!("11".repeat(32))),
            ("/fragments/1/fates/pending", 300_000.into()),
            ("/loss/held_out", 3.3.into()),
            ("/training/training_share", 0.981.into()),
            ("/fates/trained", 5_000_000.into()),
            ("/bytes/content/down", 9_876_543_210_u64.into()),
            ("/network/reachable", "no".into()),
            ("/network/nat/kind", "cone".into()),
            ("/network/clock/skew_ms", (-120).into()),
            ("/network/bootstraps/0/connected", true.into()),
            ("/peers/0/how", "hole_punched".into()),
            ("/peers/0/rtt_ms", 23.4.into()),
            ("/peers/1/standing", serde_json::Value::Null),
            ("/receipts/1/round", "f0/r41".into()),
            ("/receipts/1/merged_by", 6.into()),
            ("/disk/budget", 20_000_000_000_u64.into()),
            ("/warnings/0/hint", "let the system set it: timedatectl set-ntp true".into()),
        ] {
            assert_eq!(value.pointer(pointer), Some(&wanted), "{pointer}");
        }
        assert_eq!(serde_json::from_value::<Status>(value).unwrap(), example::status());
    }

    #[test]
    fn a_status_of_another_version_can_be_read() {
        let text = format!(r#"{{"run":"{}","mood":"good"}}"#, "3f".repeat(32));
        let status: Status = serde_json::from_str(&text).unwrap();
        assert_eq!(status.run, RunId([0x3f; 32]));
        assert_eq!(status.gauges, Gauges::default());
    }

    #[test]
    fn a_loss_that_is_no_number_is_null() {
        let mut status = example::status();
        status.loss.last = Some(f64::NAN);
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap().loss.last, None);
    }
}
