//! A small disk for a node, to be filled.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::shell::{attempt, run};

/// A disk of a few megabytes at a folder of the lab; it is gone when this is dropped, and with the
/// lab in any case.
pub(crate) struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Mounts an empty disk of `size`, such as `32m`, over `at`.
    pub(crate) fn mount(at: &Path, size: &str) -> Self {
        run(&format!("mount -t tmpfs -o size={size} tmpfs {}", at.display()));
        Self { at: at.to_owned() }
    }

    /// Takes all the room there is; to be called again, for whoever works there frees some.
    pub(crate) fn fill(&self) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        let mut size = 1 << 16;
        while size > 0 {
            match file.write(&vec![0; size]) {
                Ok(count) if count > 0 => {}
                _ => size /= 2,
            }
        }
    }

    /// Gives the room back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still works there has it until it ends.
        let _ = attempt(&format!("umount -l {}", self.at.display()));
    }
}
