//! What is under way, shown while it takes its time.

use std::time::{Duration, Instant};

use super::error::UpError;
use super::interrupt::Interrupt;
use super::process::{Process, describe};
use super::recording::Recording;
use super::screen::{Scene, Screen, Wish};

/// The screen, the recording, and the time.
#[derive(Debug)]
pub(super) struct Stage {
    screen: Screen,
    pub(super) recording: Recording,
    interrupt: Interrupt,
    title: String,
    phase: String,
    began: Instant,
    training: Option<Training>,
    /// Whether somebody wants to come to the end, as soon as there is something to end.
    finish: bool,
}

/// The time that the swarm trains.
#[derive(Clone, Copy, Debug)]
struct Training {
    began: Instant,
    lasts: Duration,
    over: bool,
}

impl Stage {
    pub(super) fn open(
        title: String,
        recording: Recording,
        interrupt: &Interrupt,
    ) -> Result<Self, UpError> {
        let screen = Screen::open()?;
        let interrupt = interrupt.clone();
        let (phase, began) = (String::new(), Instant::now());
        Ok(Self {
            screen,
            recording,
            interrupt,
            title,
            phase,
            began,
            training: None,
            finish: false,
        })
    }

    /// Something else is under way from now on.
    pub(super) fn begin(&mut self, phase: impl Into<String>) -> Result<(), UpError> {
        self.phase = phase.into();
        self.show()
    }

    /// Time counts from now.
    pub(super) fn restart_clock(&mut self) {
        self.began = Instant::now();
    }

    /// Seconds since the start.
    pub(super) fn at(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Training is to last so long from now.
    pub(super) fn train(&mut self, lasts: Duration) {
        self.training = Some(Training { began: Instant::now(), lasts, over: false });
    }

    /// Training is over, as planned or not; gives the seconds it took.
    pub(super) fn trained(&mut self) -> f64 {
        let Some(training) = &mut self.training else { return 0.0 };
        training.over = true;
        training.began.elapsed().as_secs_f64()
    }

    /// Seconds since training began.
    pub(super) fn training_for(&self) -> f64 {
        self.training.map_or(0.0, |it| it.began.elapsed().as_secs_f64())
    }

    /// Whether training has lasted as long as it should, or as somebody wants.
    pub(super) fn training_is_over(&self) -> bool {
        self.finish || self.training.is_some_and(|it| it.began.elapsed() >= it.lasts)
    }

    /// Shows how things are and waits a moment. Fails if somebody wants everything to stop.
    pub(super) fn turn(&mut self) -> Result<(), UpError> {
        self.show()?;
        match self.screen.wish(TURN)? {
            Some(Wish::Stop) => self.interrupt.set(),
            // Kept, because whoever waits for a process in the middle of training must not lose it.
            Some(Wish::Finish) => self.finish = true,
            None => {}
        }
        self.interrupt.check()
    }

    /// Waits until a process has done its work; fails if it could not, or takes too long.
    pub(super) fn wait_for(
        &mut self,
        process: &mut Process,
        patience: Duration,
    ) -> Result<(), UpError> {
        let until = Instant::now() + patience;
        while process.ended().is_none() {
            if Instant::now() >= until {
                let what = format!("did not end within {} s", patience.as_secs());
                return Err(process.failure(what));
            }
            self.turn()?;
        }
        match process.ended() {
            Some(status) if !status.success() => Err(process.failure(describe(status))),
            _ => Ok(()),
        }
    }

    fn show(&mut self) -> Result<(), UpError> {
        let (left, done) = match self.training {
            Some(Training { over: true, .. }) => (None, 1.0),
            Some(Training { began, lasts, .. }) => {
                let left = lasts.saturating_sub(began.elapsed()).as_secs_f64();
                (Some(left), 1.0 - left / lasts.as_secs_f64().max(f64::EPSILON))
            }
            None => (None, 0.0),
        };
        let scene = Scene {
            title: &self.title,
            phase: &self.phase,
            at: self.began.elapsed().as_secs_f64(),
            left,
            done,
            recording: &self.recording,
        };
        Ok(self.screen.show(&scene)?)
    }
}

/// Often enough to look alive, seldom enough to cost nothing.
const TURN: Duration = Duration::from_millis(200);
