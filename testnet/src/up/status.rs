//! What a node says of itself at `/status`: the part that is looked at here.
//!
//! These are copies of the node's own types, so that this crate needs neither its network nor
//! its trainer. The node promises to keep the names; what is missing takes its default.

use serde::{Deserialize, Serialize};

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) node: String,
    /// How often the node was started, this time included.
    pub(super) incarnation: u64,
    pub(super) program: String,
    /// `joining`, `caught_up` or `muted`.
    pub(super) standing: String,
    pub(super) gauges: Gauges,
    pub(super) fragments: Vec<Fragment>,
    pub(super) loss: Loss,
    pub(super) training: Training,
    pub(super) fates: Fates,
    pub(super) bytes: Lanes,
    /// Tokens that the swarm has merged, as far as the node knows.
    pub(super) swarm_tokens: u64,
    pub(super) receipts: Vec<Receipt>,
    pub(super) warnings: Vec<Warning>,
}

impl Status {
    /// Whether the node takes part.
    pub(super) fn is_caught_up(&self) -> bool {
        self.standing == "caught_up"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Gauges {
    pub(super) alive: u32,
    pub(super) reachable: Reachable,
    pub(super) merged_in_last_round: Merged,
    pub(super) staleness: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Reachable {
    /// `yes`, `no` or `unknown`.
    pub(super) answer: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Merged {
    pub(super) fragments: Vec<bool>,
    pub(super) share: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Fragment {
    pub(super) version: u32,
    /// The version up to which rounds no longer change.
    pub(super) base: u32,
    pub(super) digest: String,
    pub(super) fates: Fates,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Loss {
    pub(super) last: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Training {
    pub(super) step: u64,
    pub(super) tokens: u64,
    pub(super) tokens_per_s: f64,
    pub(super) training_share: f64,
}

/// Where tokens are. The five add up to `trained`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Fates {
    pub(super) trained: u64,
    pub(super) merged: u64,
    pub(super) pending: u64,
    pub(super) fresh: u64,
    pub(super) reissued: u64,
    pub(super) orphaned: u64,
}

impl Fates {
    /// Whether every token has one fate.
    pub(super) fn add_up(&self) -> bool {
        let parts = [self.merged, self.pending, self.fresh, self.reissued, self.orphaned];
        parts.iter().sum::<u64>() == self.trained
    }

    /// The five with their names, in the order that a token takes.
    pub(super) fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("merged", self.merged),
            ("pending", self.pending),
            ("fresh", self.fresh),
            ("re-issued", self.reissued),
            ("orphaned", self.orphaned),
        ]
    }
}

impl std::iter::Sum for Fates {
    fn sum<I: Iterator<Item = Self>>(fates: I) -> Self {
        fates.fold(Self::default(), |sum, it| Self {
            trained: sum.trained + it.trained,
            merged: sum.merged + it.merged,
            pending: sum.pending + it.pending,
            fresh: sum.fresh + it.fresh,
            reissued: sum.reissued + it.reissued,
            orphaned: sum.orphaned + it.orphaned,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Lanes {
    pub(super) control: Lane,
    pub(super) content: Lane,
}

impl Lanes {
    pub(super) fn up(&self) -> u64 {
        self.control.up + self.content.up
    }

    pub(super) fn down(&self) -> u64 {
        self.control.down + self.content.down
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Lane {
    pub(super) up: u64,
    pub(super) down: u64,
}

/// How far one contribution has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Receipt {
    pub(super) round: String,
    pub(super) merged_by: u32,
    pub(super) of: u32,
}

/// What a person should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Warning {
    pub(super) message: String,
    pub(super) hint: String,
}

#[cfg(test)]
pub(super) mod example {
    use super::*;

    /// An island of two fragments that has lived for a while.
    pub(in crate::up) fn status(node: u8, version: u32, loss: f64) -> Status {
        let fates =
            Fates { trained: 1000, merged: 700, pending: 200, fresh: 100, ..Fates::default() };
        let fragment = |number: u32| Fragment {
            version: version + number,
            base: version.saturating_sub(2),
            digest: format!("{:02x}", version + number).repeat(32),
            fates,
        };
        Status {
            node: format!("{node:02x}").repeat(32),
            standing: "caught_up".into(),
            gauges: Gauges {
                alive: 4,
                reachable: Reachable { answer: "yes".into() },
                merged_in_last_round: Merged { fragments: vec![true, false], share: 0.5 },
                staleness: 1,
            },
            fragments: vec![fragment(0), fragment(1)],
            loss: Loss { last: Some(loss) },
            training: Training {
                step: 100,
                tokens: 102_400,
                tokens_per_s: 5200.0,
                training_share: 0.98,
            },
            fates: [fates, fates].into_iter().sum(),
            bytes: Lanes {
                control: Lane { up: 50_000, down: 60_000 },
                content: Lane { up: 900_000, down: 2_700_000 },
            },
            swarm_tokens: 400_000,
            receipts: vec![Receipt { round: "f0/r3".into(), merged_by: 3, of: 3 }],
            ..Status::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_own_words_are_understood() {
        let text = r#"{"run":"3f","name":"reef","node":"12","incarnation":3,"standing":"caught_up",
            "gauges":{"alive":8,"alive_window_s":30,"reachable":{"answer":"yes","how":"direct"},
              "merged_in_last_round":{"fragments":[true,false],"share":0.5},"staleness":1},
            "fragments":[{"fragment":0,"version":41,"base":38,"digest":"10","staleness":0,
              "fates":{"trained":5,"merged":2,"pending":1,"fresh":1,"reissued":0,"orphaned":1}}],
            "loss":{"last":3.2,"smoothed":null,"held_out":3.3},
            "training":{"step":12345,"tokens":25,"tokens_per_s":1.5,"step_ms":4.0,
              "training_share":0.981},
            "fates":{"trained":5,"merged":2,"pending":1,"fresh":1,"reissued":0,"orphaned":1},
            "bytes":{"control":{"up":1,"down":3},"content":{"up":10,"down":30}},
            "receipts":[{"round":"f0/r41","merged_by":6,"of":8}],"disk":{"used":3},
            "warnings":[{"message":"m","hint":"h"}]}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert!(status.is_caught_up());
        assert_eq!(status.fragments[0].version, 41);
        assert_eq!(status.loss, Loss { last: Some(3.2) });
        assert_eq!((status.bytes.up(), status.bytes.down()), (11, 33));
        assert!(status.fates.add_up());
        assert_eq!(status.receipts[0].of, 8);
        assert_eq!(serde_json::from_str::<Status>("{}").unwrap(), Status::default());
    }

    #[test]
    fn a_lost_token_is_noticed() {
        let fates = Fates { trained: 10, merged: 9, ..Fates::default() };
        assert!(!fates.add_up());
        let sum: Fates = [fates, fates].into_iter().sum();
        assert_eq!((sum.trained, sum.named()[0]), (20, ("merged", 18)));
    }
}
