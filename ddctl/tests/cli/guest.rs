// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use ddabi::genl::LinkState;
use insta::assert_snapshot;

#[test]
fn status() {
    let world = World::guest();
    assert_snapshot!(world.run("status"));
    assert_snapshot!("guest_status_json", world.run("status --json"));
    world.guest.with(|state| {
        state.status.state = LinkState::Alone;
        state.status.vm = None;
    });
    assert_snapshot!("guest_status_alone", world.run("status"));
}

#[test]
fn container_list() {
    let world = World::guest();
    assert_snapshot!(world.run("container list"));
    assert_snapshot!("container_list_json", world.run("container list --json"));
}

#[test]
fn stats() {
    let world = World::guest();
    assert_snapshot!(world.run("stats"));
    assert_snapshot!("guest_stats_container", world.run("stats nginx"));
    assert_snapshot!(
        "guest_curves",
        world.runs(&["stats --curve", "stats postgres --curve --json"])
    );
    world.guest.with(|state| state.pools[1].stats = None);
    assert_snapshot!("guest_stats_without_host", world.run("stats nginx"));
}

#[test]
fn containers_come_and_go() {
    let world = World::guest();
    assert_snapshot!(world.runs(&[
        "container add /sys/fs/cgroup/user.slice",
        "container add machine.slice/db --name db --weight 700 --policy tinylfu",
        "container add /off --store none --json",
        "container set-weight db user.slice 5",
        "set-weight /off 6",
        "set-weight default 0",
        "container set-policy default mru",
        "container set-policy db s3 --json",
        "container set-policy db best",
        "container remove db",
        "container remove 1",
        "container list",
    ]));
}

#[test]
fn set_store() {
    let world = World::guest();
    assert_snapshot!(world.runs(&[
        "container set-store nginx ssd",
        "container set-store nginx mem --json",
        "container set-store nginx disk",
        "container set-store nginx hybrid --ssd-admit second",
        "container set-store nginx hybrid --ssd-admit all --json",
        "set-weight nginx 5 --ssd 7",
    ]));
}

#[test]
fn flush() {
    let world = World::guest();
    assert_snapshot!(world.runs(&["flush nginx", "flush --all", "flush 2 --json"]));
    let flushed = world.guest.with(|state| state.flushed.clone());
    assert_eq!(flushed, [Some(1), None, Some(2)]);
}

/// A host that is a guest itself.
#[test]
fn both_at_once() {
    let world = World::host();
    world
        .guest
        .with(|state| state.fault = ddnl::fake::Fault::None);
    assert_snapshot!(world.runs(&[
        "stats",
        "stats --guest",
        "set-weight web 1",
        "set-weight web 1 --host",
        "vm list --guest",
        "container list --host",
        "status --host --guest",
    ]));
    let status = world.outcome("status --json").out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(status["host"].is_object() && status["guest"].is_object());
}

/// A user has named a container after the number of another one, or after the default pool.
#[test]
fn a_number_is_not_a_name() {
    for (name, wanted, code) in [
        ("1", "1", 0),
        ("9", "9", 5),
        ("default", "default", 0),
        (
            "/system.slice/nginx.service",
            "/system.slice/nginx.service",
            5,
        ),
    ] {
        let world = World::guest();
        let before = world.guest.with(|state| {
            state.pools[2].name = name.into();
            state.pools[2].weight
        });
        let outcome = world.outcome(&format!("container set-weight {wanted} 777"));
        assert_eq!(outcome.code, code, "{name}: {}{}", outcome.out, outcome.err);
        let after = world.guest.with(|state| state.pools[2].weight);
        assert_eq!(after, before, "{name}");
    }
}

/// Names that would control a terminal, or resemble other names.
#[test]
fn names_are_shown_as_they_are_spelt() {
    const NAME: &str = "ng\u{202e}x\u{1b}[2Jni\u{200b}";
    let world = World::guest();
    world.guest.with(|state| {
        state.pools[1].name = NAME.into();
        state.pools[1].cgroup = Some(format!("/{NAME}"));
    });
    for line in [
        "container list",
        "container list --json",
        "stats",
        "stats --json",
        "stats --watch=1 --count 2 --json",
        "stats nobody",
    ] {
        let outcome = world.outcome(line);
        let text = outcome.out + &outcome.err;
        assert!(text.contains("ng\\u"), "{line}: {text}");
        let hidden = text
            .chars()
            .find(|one| ddnl::is_hidden(*one) && *one != '\n');
        assert_eq!(hidden, None, "{line}: {text:?}");
    }
    let json = world.outcome("container list --json").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["containers"][1]["name"], NAME);
}

#[test]
fn advise() {
    let world = World::guest();
    assert_snapshot!("guest_advice", world.run("advise"));
    world
        .guest
        .with(|state| state.status.state = ddabi::genl::LinkState::Alone);
    assert_snapshot!("guest_advice_without_host", world.run("advise"));
}
