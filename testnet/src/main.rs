//! `atoll-testnet`: swarms on one machine.

fn main() {}
