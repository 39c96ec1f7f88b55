//! The terminal while it is ours.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;

use super::{Scene, Wish, picture};

/// The whole terminal. Dropped, it is as it was.
#[derive(Debug)]
pub(in crate::up) struct Terminal {
    terminal: DefaultTerminal,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { terminal: ratatui::try_init()? })
    }

    pub(super) fn show(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| picture::draw(frame, scene))?;
        Ok(())
    }

    pub(super) fn wish(&mut self, wait: Duration) -> io::Result<Option<Wish>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => Ok(meaning(key)),
            _ => Ok(None),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Ctrl-C is a key here: the terminal does not make a signal of it while it is ours.
fn meaning(key: KeyEvent) -> Option<Wish> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Stop),
        KeyCode::Char('q') => Some(Wish::Finish),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_screen_says() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Finish));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Stop));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
    }
}
