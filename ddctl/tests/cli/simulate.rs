// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use insta::assert_snapshot;

/// A trace that reads `pages` pages in order, again and again.
pub(crate) fn looping(pages: u64) -> String {
    let lines = (0..20_000).map(|at| format!("1,{at},28,4096,{}\n", at % pages * 8));
    "version,time,op,size,lbn\n".to_owned() + &lines.collect::<String>()
}

#[test]
fn weights_and_policies_for_traces() {
    let world = World::new();
    world.file("/traces/small.csv", &looping(500));
    world.file("/traces/large.csv", &looping(3000));
    assert_snapshot!(world.run("simulate /traces/small.csv /traces/large.csv --cache 6M"));
    assert_snapshot!(
        "simulate_json",
        world.run("simulate /traces/large.csv --cache 50% --page-cache 400k --json")
    );
}

#[test]
fn invalid_traces_are_refused() {
    let world = World::new();
    world.file("/traces/note.txt", "no trace\n");
    let told = |line: &str| {
        let outcome = world.outcome(line);
        assert_eq!(outcome.code, 1, "{line}");
        outcome.err
    };
    assert!(told("simulate /traces/note.txt").contains("no column op"));
    assert!(told("simulate /traces/none.csv").contains("cannot open"));
    assert_eq!(world.outcome("simulate").code, 2);
}
