// SPDX-License-Identifier: GPL-2.0-only

//! A test of cgroups that are created and removed faster than the daemon follows.

use policyd::{
    allowance::thread_time,
    config::Config,
    tree::{Change, Tree},
};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::time::timeout;

/// Duration of the storm.
const STORM: Duration = Duration::from_secs(8);
/// Processor time of a change on a slow machine.
const DEAR: Duration = Duration::from_millis(2);
/// Allowed processor time during the storm: the burst, and one percent of the time.
const MAX_TIME: Duration = Duration::from_millis(250 + 80);

/// A user creates and removes cgroups continually. That takes little of the processor, and a cgroup
/// that is created during the storm is still found.
#[test]
fn a_storm_takes_little_and_hides_nothing() {
    let root = TempDir::new().unwrap();
    let config = Config::parse("[[container]]\nname = \"{}\"\ncgroup = \"/*\"\n").unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| storm(root.path(), &over));
        tokio.block_on(async {
            let mut tree = Tree::open(root.path(), config.reach()).unwrap();
            tree.scan();
            let (begin, before) = (Instant::now(), thread_time());
            let mut told = 0;
            while begin.elapsed() < STORM {
                // The wait is dropped now and then, because the daemon waits for other events as
                // well.
                if let Ok(change) = timeout(Duration::from_millis(300), tree.next()).await {
                    told += 1;
                    handle(&mut tree, &change);
                }
            }
            let spent = thread_time().saturating_sub(before);
            assert!(told > 20, "{told}");
            assert!(spent <= MAX_TIME, "{spent:?} for {told} changes");
            fs::create_dir(root.path().join("late")).unwrap();
            over.store(true, Relaxed);
            let late = async {
                loop {
                    let change = tree.next().await;
                    if handle(&mut tree, &change) {
                        return;
                    }
                }
            };
            timeout(Duration::from_secs(60), late).await.unwrap();
        });
    });
}

/// Creates and removes cgroups until `over` is set.
fn storm(root: &Path, over: &AtomicBool) {
    let paths: Vec<_> = (0..200).map(|n| root.join(format!("c{n}"))).collect();
    while !over.load(Relaxed) {
        for path in &paths {
            fs::create_dir(path).unwrap();
        }
        for path in &paths {
            fs::remove_dir(path).unwrap();
        }
    }
}

/// Handles a change as the daemon does. Returns whether it reports the late cgroup.
fn handle(tree: &mut Tree, change: &Change) -> bool {
    let until = thread_time() + DEAR;
    while thread_time() < until {}
    match change {
        Change::Lost => tree.scan().contains_key("/late"),
        Change::Appeared(path, _) => path == "/late",
        Change::Vanished(_) => false,
    }
}
