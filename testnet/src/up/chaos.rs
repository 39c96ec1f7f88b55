//! What is done to a swarm while it trains: plans, and what they come to for a seed.

mod deed;
mod plan;
mod raw;
mod schedule;
mod span;

pub(super) use deed::Deed;
pub(super) use plan::Plan;
pub(super) use schedule::Schedule;

/// Plans that have a name.
const PRESETS: [(&str, &str); 5] = [
    ("calm", include_str!("chaos/calm.toml")),
    ("storm", include_str!("chaos/storm.toml")),
    ("split", include_str!("chaos/split.toml")),
    ("churn", include_str!("chaos/churn.toml")),
    ("byzantine", include_str!("chaos/byzantine.toml")),
];
