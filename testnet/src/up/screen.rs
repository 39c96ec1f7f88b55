//! What a person sees while a swarm runs: a picture on a terminal, lines elsewhere.

mod lines;
mod picture;
mod terminal;

use std::io::{self, IsTerminal};
use std::time::Duration;

use super::recording::Recording;
use lines::Lines;
use terminal::Terminal;

/// What there is to show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// What swarm this is.
    pub(super) title: &'a str,
    /// What is under way, in words.
    pub(super) phase: &'a str,
    /// Seconds since the start.
    pub(super) at: f64,
    /// Seconds of training that are left.
    pub(super) left: Option<f64>,
    /// How much of the training is done, of 1.
    pub(super) done: f64,
    pub(super) recording: &'a Recording,
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Train no longer, and go on to the summary.
    Finish,
    /// Stop everything.
    Stop,
}

/// Where it is shown.
#[derive(Debug)]
pub(super) enum Screen {
    Terminal(Terminal),
    Lines(Lines),
}

impl Screen {
    /// The terminal if there is one.
    pub(super) fn open() -> io::Result<Self> {
        if io::stdout().is_terminal() && io::stdin().is_terminal() {
            return Ok(Self::Terminal(Terminal::open()?));
        }
        Ok(Self::Lines(Lines::default()))
    }

    /// Shows the scene, if it is time to.
    pub(super) fn show(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.show(scene),
            Self::Lines(lines) => lines.show(scene, &mut io::stdout().lock()),
        }
    }

    /// Waits a moment for what the person wants.
    pub(super) fn wish(&mut self, wait: Duration) -> io::Result<Option<Wish>> {
        match self {
            Self::Terminal(terminal) => terminal.wish(wait),
            Self::Lines(_) => {
                std::thread::sleep(wait);
                Ok(None)
            }
        }
    }
}
