//! Why a test failed, said once more after the logs: whoever sees only the end of an output sees it.

use std::panic;
use std::sync::{Mutex, Once};

/// Keeps what panics say from now on, beside what happens with it anyway.
pub(super) fn keep() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            lock().push(panic.to_string());
            usual(panic);
        }));
    });
}

/// Says what panics have said.
pub(super) fn repeat() {
    for words in lock().iter() {
        eprintln!("---- it failed: {words}");
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<String>> {
    WORDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

static WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());
