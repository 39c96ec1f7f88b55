//! Leaving the processor to others.

use std::io;

/// Lets this thread, and those that it starts from now on, leave the processor to others: 0 is as
/// usual, 19 the most. It cannot be taken back.
pub fn be_nice(level: i32) -> io::Result<()> {
    if level == 0 {
        return Ok(());
    }
    // Where threads have no priority of their own it is that of the process.
    rustix::process::setpriority_process(None, level).map_err(io::Error::from)
}
