//! Policy daemon of a guest.

fn main() {}
