//! Build, test, demo: the only entry.

fn main() {}
