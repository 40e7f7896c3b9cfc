// SPDX-License-Identifier: GPL-2.0-only

//! A complete Debian with systemd as PID 1: policyd is a service with its own unit, and its
//! containers are started by systemd, podman and crun.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Disk, Guest, Scenario, Target, wait};
use serde_json::json;

use crate::{
    ddctl,
    service::{self, FILE_PATH, UNIT_NAME, detached, journal, main_pid},
    site::Site,
    stage::{GUEST, Stage, attach},
};

/// Restarts, reloads and kills the daemon, and reloads the module.
pub(crate) const SYSTEMD: Scenario = Scenario {
    name: "systemd",
    about: "a Debian with systemd: policyd is a service, containers are systemd's, podman's, crun's",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 96;
/// One container for each program that starts containers, and a limit of guest memory set by
/// policyd.
const FILE: &str = "\
interval_s = 1
default_pool_weight = 5

[[container]]
name = \"web\"
unit = \"web\"
weight = 60

[[container]]
name = \"{}\"
unit = \"job-*.scope\"
weight = 20
manage_memory = true
memory_ceiling = \"48M\"

[[container]]
name = \"podman {}\"
podman = \"d*\"
weight = 30

[[container]]
name = \"app\"
unit = \"crun-app.scope\"
weight = 40
";
/// Pools of this file with their weights.
const POOLS: [(&str, u32); 5] = [
    ("app", 40),
    ("default", 5),
    ("job-1", 20),
    ("podman db", 30),
    ("web", 60),
];
/// Returns [`POOLS`] after the file has given the web server more.
fn heavier() -> [(&'static str, u32); 5] {
    POOLS.map(|(name, weight)| (name, if name == "web" { 70 } else { weight }))
}

/// policyd's ceiling of the job, in bytes.
const CEILING: &str = "50331648";
const JOB_LIMIT: &str = "/sys/fs/cgroup/jobs.slice/job-1.scope/memory.max";
/// Maximum acceptable score of `systemd-analyze security`; it is 1.9.
const EXPOSURE: f64 = 2.0;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage {
        lab: context.debian_lab()?,
    };
    stage.load_host(CAPACITY_MIB)?;
    // The files, each of which is slightly larger than the memory of its container.
    let sizes = [("web", 12), ("job", 64), ("db", 12), ("app", 12)];
    let (guest, images) = service::boot(&stage, sizes)?;
    let init = guest.read_text("/proc/1/comm")?;
    ensure!(init == "systemd", "PID 1 is {init}");

    service::install(&guest, FILE)?;
    attach(&guest)?;
    start_containers(&guest, &images)?;
    let site = Site {
        host: stage.host(),
        guest: &guest,
    };
    site.shows("with all containers", &POOLS)?;
    limited(&guest, CEILING, "policyd limits the job")?;
    given(&guest)?;

    let first = main_pid(&guest)?;
    guest.exec_ok(["systemctl", "restart", UNIT_NAME])?;
    ensure!(
        main_pid(&guest)? != first,
        "a restart did not replace the daemon"
    );
    site.shows("after a restart", &POOLS)?;
    limited(&guest, CEILING, "the job is limited after a restart")?;
    reload(&guest, &site)?;
    service::crash(&guest)?;
    let heavier = heavier();
    site.shows("after a crash", &heavier)?;
    limited(&guest, CEILING, "the job is limited after a crash")?;

    guest.unload_module(GUEST)?;
    attach(&guest)?;
    site.shows("after the guest module was loaded again", &heavier)?;
    given(&guest)?;
    guest.exec_ok(["podman", "rm", "--force", "--time", "0", "db"])?;
    let left: Vec<_> = heavier
        .into_iter()
        .filter(|pool| pool.0 != "podman db")
        .collect();
    site.shows("without podman's container", &left)?;

    guest.exec_ok(["systemctl", "stop", UNIT_NAME])?;
    limited(&guest, "max", "the job's limit is undone")?;
    site.shows("after the daemon's end", &left)?;
    Ok(vec![Target::at_most(
        "systemd: exposure of the unit, by systemd-analyze security",
        EXPOSURE,
        exposure(&guest)?,
        "",
    )])
}

/// Starts a service, a scope, and containers of crun and podman, each of which reads its file again
/// and again.
fn start_containers(guest: &Guest, images: &Disk) -> Result<()> {
    let read = |path: &str| format!("while :; do cat {path} > /dev/null; sleep 1; done");
    let service = [
        "systemd-run",
        "--unit=web",
        "--slice=shop.slice",
        "-pMemoryMax=8M",
        "sh",
        "-c",
    ];
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let with = |mut words: Vec<String>, last: String| {
        words.push(last);
        words
    };
    guest.exec_ok(with(words(&service), read("/srv/web")))?;
    // A scope has the processes of its starter; this one continues in the background.
    guest.shell(format!(
        "systemd-run --scope --unit=job-1 --slice=jobs.slice sh -c '{}' > /dev/null 2>&1 &",
        read("/srv/job")
    ))?;

    guest.shell(
        "mkdir -p /srv/bundle/rootfs/bin && cd /srv/bundle/rootfs && mkdir dev proc sys && \
         cp /bin/busybox bin/ && for name in sh cat sleep; do ln -s busybox bin/$name; done && \
         ln /srv/app data",
    )?;
    guest.write_file("/srv/bundle/config.json", bundle(&read("/data")))?;
    let crun = "crun --systemd-cgroup run --bundle=/srv/bundle --detach app";
    detached(guest, crun)?;

    service::store(guest, images)?;
    // The image is made from the same files, so that no registry is needed.
    guest.shell(
        "cd /srv/bundle/rootfs && tar --exclude=./data -c . > /run/image.tar && cd /srv && \
         tar -rf /run/image.tar --transform=s,db,data, db && \
         podman import --quiet /run/image.tar store && rm /run/image.tar",
    )?;
    // Pages that the import wrote are charged to it and would stay; the container must be their
    // reader.
    guest.shell("sync && echo 3 > /proc/sys/vm/drop_caches")?;
    detached(
        guest,
        &format!(
            "podman run --detach --name db --network none --memory 8m store /bin/sh -c '{}'",
            read("/data")
        ),
    )
}

/// Returns the minimum that crun needs.
fn bundle(script: &str) -> String {
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "cwd": "/",
            "args": ["/bin/sh", "-c", script],
            "env": ["PATH=/bin"],
            "user": { "uid": 0, "gid": 0 },
        },
        "root": { "path": "rootfs" },
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": {
            "cgroupsPath": "system.slice:crun:app",
            "namespaces": [{ "type": "pid" }, { "type": "mount" }],
            "resources": { "memory": { "limit": 8 << 20 } },
        },
    })
    .to_string()
}

/// Waits until the host has returned pages to every container.
fn given(guest: &Guest) -> Result<()> {
    let mut seen = Vec::new();
    let what = "every container got pages from the host";
    let waited = wait::until(what, || {
        seen = ddctl::containers(guest)?;
        let got = |one: &ddctl::Container| {
            let stats = one.stats.as_ref();
            one.name == "default" || stats.is_some_and(|stats| stats.gets > stats.misses)
        };
        Ok(seen.iter().all(got).then_some(()))
    });
    waited.with_context(|| format!("{seen:#?}\n{}", podman(guest)))
}

/// Returns podman's list of its containers as text.
fn podman(guest: &Guest) -> String {
    let ask = "podman ps --all; podman logs db; \
               for file in $(find /sys/fs/cgroup -path '*libpod-*' -name memory.current); do \
               echo $file $(cat $file) $(cat ${file%memory.current}cgroup.procs); done";
    let said = guest.shell(format!("({ask}) 2>&1 || true"));
    said.unwrap_or_else(|error| format!("{error:#}"))
}

/// Waits until the job's limit has this value.
fn limited(guest: &Guest, limit: &str, what: &str) -> Result<()> {
    wait::until(what, || {
        Ok((guest.read_text(JOB_LIMIT)? == limit).then_some(()))
    })
    .with_context(|| journal(guest))
}

/// A new file takes effect, and a wrong one does not.
fn reload(guest: &Guest, site: &Site<'_>) -> Result<()> {
    let pid = main_pid(guest)?;
    let heavier = FILE.replace("60", "70");
    guest.write_file(FILE_PATH, heavier.as_str())?;
    guest.exec_ok(["systemctl", "reload", UNIT_NAME])?;
    let new = self::heavier();
    site.shows("with a new file", &new)?;
    guest.write_file(
        FILE_PATH,
        heavier.replace("weight = 70", "weight = \"heavy\""),
    )?;
    guest.exec_ok(["systemctl", "reload", UNIT_NAME])?;
    wait::until("the journal names the wrong line", || {
        Ok(journal(guest).contains("line 7").then_some(()))
    })?;
    site.shows("with a wrong file", &new)?;
    guest.write_file(FILE_PATH, heavier)?;
    ensure!(main_pid(guest)? == pid, "a reload restarted the daemon");
    Ok(())
}

/// Returns the score of the unit by `systemd-analyze security`: 0 is the best, 10 the worst.
fn exposure(guest: &Guest) -> Result<f64> {
    let text = guest.exec_ok(["systemd-analyze", "security", "--no-pager", UNIT_NAME])?;
    let score = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("Overall exposure level for")?;
        rest.split_once(": ")?.1.split(' ').next()?.parse().ok()
    });
    score.with_context(|| format!("there is no score in:\n{text}"))
}
