//! Command line of DoubleDecker.

fn main() {}
