//! A pool with threads, for tests and benchmarks.

use atoll_protocol::pool::Pool;
use rayon::prelude::*;

/// A rayon pool with a fixed number of threads.
#[derive(Debug)]
pub(crate) struct Threads(rayon::ThreadPool);

impl Threads {
    pub(crate) fn new(threads: usize) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Self(pool.expect("the system has threads to give"))
    }

    /// Keeps every thread busy for some milliseconds. One that slept may for so long share a core
    /// with another, and what is measured then is the operating system.
    #[allow(dead_code, reason = "tests measure nothing")]
    pub(crate) fn wake(&self) {
        self.0.broadcast(|_| (0..500_000).for_each(|_| std::hint::spin_loop()));
    }
}

impl Pool for Threads {
    fn run(&self, jobs: usize, job: &(dyn Fn(usize) + Sync)) {
        // Whoever is free takes the next job: two cores are rarely equally fast.
        self.0.install(|| (0..jobs).into_par_iter().with_max_len(1).for_each(job));
    }
}
