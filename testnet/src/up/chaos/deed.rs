//! What can be done to a swarm.

use serde::Deserialize;

use crate::links::bits;
use crate::up::happening::island;

/// What a plan asks for, by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::up) enum Verb {
    /// `kill -9`.
    Kill,
    /// Ends it in order and starts it again; starts one that was killed.
    Restart,
    /// Stops its process where it stands.
    Freeze,
    /// Lets a frozen one go on.
    Thaw,
    /// It says goodbye and goes.
    Leave,
    /// A new island comes, or one that has left comes back.
    Join,
    /// Two sides hear nothing of each other.
    Partition,
    /// They do again.
    Heal,
    /// Its link becomes thin.
    Throttle,
    /// Its link is as before.
    Unthrottle,
    /// Somebody joins who signs twice for everything: two processes with one key.
    Lie,
    /// The bootstrap is killed.
    LoseBootstrap,
    /// It is there again.
    RestoreBootstrap,
}

impl Verb {
    /// What takes it back, where a plan says for how long.
    pub(super) fn undone_by(self) -> Option<Self> {
        match self {
            Self::Kill => Some(Self::Restart),
            Self::Freeze => Some(Self::Thaw),
            Self::Leave => Some(Self::Join),
            Self::Join => Some(Self::Leave),
            Self::Partition => Some(Self::Heal),
            Self::Throttle => Some(Self::Unthrottle),
            Self::LoseBootstrap => Some(Self::RestoreBootstrap),
            _ => None,
        }
    }

    /// Whether it needs an island to do it to.
    pub(super) fn has_victim(self) -> bool {
        !matches!(
            self,
            Self::Join | Self::Heal | Self::Lie | Self::LoseBootstrap | Self::RestoreBootstrap
        )
    }

    /// Whether only namespaces can do it.
    pub(super) fn needs_links(self) -> bool {
        matches!(self, Self::Partition | Self::Heal | Self::Throttle | Self::Unthrottle)
    }

    /// Whether it takes somebody who has to find the run first.
    pub(super) fn needs_bootstrap(self) -> bool {
        matches!(self, Self::Join | Self::Lie)
    }
}

/// One thing that is done, to islands by their index.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::up) enum Deed {
    Kill(usize),
    /// Starts one that was killed.
    Revive(usize),
    Restart(usize),
    Freeze(usize),
    Thaw(usize),
    Leave(usize),
    /// One that has left comes back.
    Return(usize),
    Join(usize),
    /// These hear nothing of the others.
    Partition(Vec<usize>),
    Heal,
    /// To so many bits in a second.
    Throttle(usize, f64),
    Unthrottle(usize),
    Lie,
    LoseBootstrap,
    RestoreBootstrap,
}

impl Deed {
    /// The island it is done to, if it is one.
    pub(in crate::up) fn island(&self) -> Option<usize> {
        match self {
            Self::Kill(index)
            | Self::Revive(index)
            | Self::Restart(index)
            | Self::Freeze(index)
            | Self::Thaw(index)
            | Self::Leave(index)
            | Self::Return(index)
            | Self::Join(index)
            | Self::Throttle(index, _)
            | Self::Unthrottle(index) => Some(*index),
            _ => None,
        }
    }

    /// All islands that are worse off for it.
    pub(in crate::up) fn victims(&self) -> Vec<usize> {
        match self {
            Self::Partition(side) => side.clone(),
            other if other.is_bad() || matches!(other, Self::Restart(_)) => {
                other.island().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Its word in a plan.
    pub(in crate::up) fn name(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Revive(_) | Self::Restart(_) => "restart",
            Self::Freeze(_) => "freeze",
            Self::Thaw(_) => "thaw",
            Self::Leave(_) => "leave",
            Self::Return(_) | Self::Join(_) => "join",
            Self::Partition(_) => "partition",
            Self::Heal => "heal",
            Self::Throttle(..) => "throttle",
            Self::Unthrottle(_) => "unthrottle",
            Self::Lie => "lie",
            Self::LoseBootstrap => "lose-bootstrap",
            Self::RestoreBootstrap => "restore-bootstrap",
        }
    }

    /// Whether it is more than another one taken back.
    pub(in crate::up) fn is_counted(&self) -> bool {
        self.is_bad() || matches!(self, Self::Restart(_) | Self::Join(_))
    }

    /// Whether the swarm is worse off for it.
    pub(in crate::up) fn is_bad(&self) -> bool {
        !matches!(
            self,
            Self::Thaw(_)
                | Self::Join(_)
                | Self::Return(_)
                | Self::Revive(_)
                | Self::Restart(_)
                | Self::Heal
                | Self::Unthrottle(_)
                | Self::RestoreBootstrap
        )
    }

    /// In words, as the report and the screen tell it.
    pub(in crate::up) fn words(&self) -> String {
        match self {
            Self::Kill(_) => "killed with signal 9".into(),
            Self::Revive(_) => "started again".into(),
            Self::Restart(_) => "told to end and start again".into(),
            Self::Freeze(_) => "frozen with SIGSTOP".into(),
            Self::Thaw(_) => "thawed with SIGCONT".into(),
            Self::Leave(_) => "told to leave".into(),
            Self::Return(_) => "comes back".into(),
            Self::Join(_) => "joins".into(),
            Self::Partition(side) => {
                let names: Vec<String> = side.iter().map(|index| island(*index)).collect();
                format!("partition: {} cut off from the rest", names.join(", "))
            }
            Self::Heal => "the partition heals".into(),
            Self::Throttle(_, rate) => format!("its link throttled to {}", bits(*rate)),
            Self::Unthrottle(_) => "its link is as before".into(),
            Self::Lie => "a liar joins, who will be two processes with one key".into(),
            Self::LoseBootstrap => "the bootstrap is killed".into(),
            Self::RestoreBootstrap => "the bootstrap is there again".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_have_words() {
        assert_eq!(
            Deed::Partition(vec![0, 2]).words(),
            "partition: island 1, island 3 cut off from the rest"
        );
        assert_eq!(Deed::Throttle(0, 500e3).words(), "its link throttled to 500kbit");
        assert_eq!(Deed::Heal.victims(), [0_usize; 0]);
        assert_eq!(Deed::Partition(vec![0, 2]).victims(), [0, 2]);
        assert_eq!((Deed::Revive(1).victims(), Deed::Restart(1).victims()), (vec![], vec![1]));
    }
}
