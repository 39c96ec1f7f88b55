//! The arithmetic of training on a plain CPU: functions on slices, forwards and backwards.
//!
//! Nothing here allocates, spawns or knows a model. Vector units (AVX2, AVX-512, NEON) are picked
//! at run time, so one binary serves every machine of its architecture.
