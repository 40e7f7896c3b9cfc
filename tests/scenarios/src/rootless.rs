// SPDX-License-Identifier: GPL-2.0-only

//! An unprivileged user of a Debian guest runs podman. The user's containers have the names of the
//! controlled container, and policyd limits them as far as it has the permission.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Disk, Guest, Scenario, Target, wait};

use crate::{
    ddctl,
    service::{self, UNIT_NAME, journal},
    stage::{Stage, attach},
};

/// Runs a rootless podman beside that of root.
pub(crate) const ROOTLESS: Scenario = Scenario {
    name: "rootless",
    about: "a user's containers and units that have the name of a controlled one do not harm it",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 96;
/// Part of the VM's share that the controlled container is entitled to, in percent.
const FLOOR: f64 = 40.0;
/// Maximum number of pools of the user's containers.
const MAX_POOLS: usize = 4;
/// Prefix of their names.
const USERS: &str = "user ";
/// Value in bytes to which policyd lowers `memory.max` of the user's containers.
const CEILING: &str = "50331648";
/// Value that the user sets for one of them while policyd's is in force.
const THEIRS: &str = "104857600";
/// Initial value of the other one.
const BEFORE: &str = "209715200";

const FILE: &str = "interval_s = 1\ndefault_pool_weight = 5\n\n\
    [[container]]\nname = \"gold\"\npodman = \"gold\"\nclass = \"gold\"\ncache_floor = \"40%\"\n\n\
    [[container]]\nname = \"user {}\"\nuser_unit = \"1000/libpod-*.scope\"\nclass = \"bronze\"\n\
    most_cgroups = 4\nmanage_memory = true\nmemory_ceiling = \"48M\"\n";
/// Files of a user's cgroups belong to the user, and root cannot write to them without this
/// capability.
const MAY_WRITE: &str = "[Service]\nCapabilityBoundingSet=CAP_DAC_OVERRIDE\n";

/// Environment of the user's manager.
const SESSION: &str = "XDG_RUNTIME_DIR=/run/user/1000 \
    DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus HOME=/home/tenant";
/// Images would need a filesystem of their own; this podman needs only a directory.
const PODMAN: &str = "podman --storage-driver vfs --cgroup-manager systemd";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage {
        lab: context.debian_lab()?,
    };
    stage.load_host(CAPACITY_MIB)?;
    let (guest, images) = service::boot(&stage, [("gold", 12), ("theirs", 12)])?;
    service::install(&guest, FILE)?;
    attach(&guest)?;
    start(&guest, &images)?;
    let least = contended(&guest).map_err(|error| error.context(journal(&guest)))?;
    Ok(vec![Target::at_least(
        "rootless: smallest share of the container with a floor, beside its namesakes",
        FLOOR - 0.5,
        least,
        "%",
    )])
}

/// Starts root's container and the user's session.
fn start(guest: &Guest, images: &Disk) -> Result<()> {
    service::store(guest, images)?;
    guest.shell(
        "mkdir -p /srv/rootfs/bin && cd /srv/rootfs && mkdir dev proc sys run tmp etc && \
         cp /bin/busybox bin/ && for name in sh cat sleep; do ln -s busybox bin/$name; done && \
         ln /srv/theirs data && tar --exclude=./data -c . > /run/image.tar && cd /srv && \
         tar -rf /run/image.tar --transform=s,gold,data, gold && \
         podman import --quiet /run/image.tar store && rm /run/image.tar && \
         sync && echo 3 > /proc/sys/vm/drop_caches",
    )?;
    service::detached(
        guest,
        &format!("podman run --detach --name gold --network none --memory 100m store {READS}"),
    )?;
    guest.shell(
        "echo tenant:x:1000:1000::/home/tenant:/bin/sh >> /etc/passwd && \
         echo 'tenant:*:20000::::::' >> /etc/shadow && \
         echo tenant:x:1000: >> /etc/group && mkdir -p /home/tenant && \
         chown 1000:1000 /home/tenant && chown -R 1000:1000 /srv/rootfs",
    )?;
    // logind does this when the user logs in.
    let started = guest.exec_ok(["systemctl", "start", "user@1000.service"]);
    started.map(drop).or_else(|error| {
        let said =
            guest.shell("journalctl --no-pager -b -u 'user*@1000' -u dbus -u systemd-logind")?;
        Err(error.context(said))
    })
}

/// Reads a file again and again.
const READS: &str = "/bin/sh -c 'while :; do cat /data > /dev/null; sleep 1; done'";

/// Runs a line in the user's session, as a unit of the user's manager.
fn as_user(guest: &Guest, line: &str) -> Result<String> {
    guest.write_file("/run/line.sh", format!("#!/bin/sh\n{line}\n"))?;
    guest.shell(format!(
        "chmod 755 /run/line.sh && runuser -u tenant -- env {SESSION} systemd-run --user \
         --quiet --collect --wait --pipe -p KillMode=process /run/line.sh < /dev/null"
    ))
}

/// Starts a container of the user. Returns the path of its cgroup's limit.
fn users_container(guest: &Guest, name: &str) -> Result<String> {
    as_user(
        guest,
        &format!(
            "{PODMAN} run --detach --name {name} --network none --memory 200m \
             --rootfs /srv/rootfs {READS} > /dev/null 2>&1"
        ),
    )?;
    let ask = format!("{PODMAN} inspect --format '{{{{.Id}}}}' {name}");
    let id = as_user(guest, &ask)?;
    let scope = format!("libpod-{}.scope", id.trim());
    let found = guest.shell(format!(
        "find /sys/fs/cgroup/user.slice -name {scope} -type d"
    ))?;
    let cgroup = found.trim();
    ensure!(!cgroup.is_empty(), "{scope} has no cgroup");
    Ok(format!("{cgroup}/memory.max"))
}

/// Runs the test after the session has started. Returns the least share of the gold container.
fn contended(guest: &Guest) -> Result<f64> {
    let mut least = share(guest, "at first")?;
    let id = guest.exec_ok(["podman", "inspect", "--format", "{{.Id}}", "gold"])?;
    let (busy, calm) = (
        users_container(guest, "gold")?,
        users_container(guest, "calm")?,
    );
    // Units of the user with the names of root's container, its name and its id.
    let id = id.trim();
    for unit in ["gold", &format!("libpod-{id}"), &format!("docker-{id}")] {
        as_user(
            guest,
            &format!(
                "systemd-run --user --quiet --scope --unit={unit} sleep 9999 > /dev/null 2>&1 &"
            ),
        )?;
    }
    wait::until("the user's containers have pools", || {
        let pools = ddctl::containers(guest)?;
        let users = pools.iter().filter(|one| one.name.starts_with(USERS));
        Ok((users.count() >= 3).then_some(()))
    })?;
    least = least.min(share(guest, "beside namesakes")?);
    wait::until(
        "the journal says why the user's containers are not limited",
        || Ok(journal(guest).contains("CAP_DAC_OVERRIDE").then_some(())),
    )?;
    says(
        guest,
        &busy,
        BEFORE,
        "without permission to write to the user's cgroups",
    )?;

    let directory = format!("/etc/systemd/system/{UNIT_NAME}.d");
    guest.shell(format!("mkdir -p {directory}"))?;
    guest.write_file(&format!("{directory}/rootless.conf"), MAY_WRITE)?;
    guest.exec_ok(["systemctl", "daemon-reload"])?;
    guest.exec_ok(["systemctl", "restart", UNIT_NAME])?;
    becomes(
        guest,
        &busy,
        CEILING,
        "with permission to write to the user's cgroups",
    )?;
    becomes(
        guest,
        &calm,
        CEILING,
        "with permission to write to the user's cgroups",
    )?;
    as_user(guest, &format!("{PODMAN} update --memory 100m gold"))?;
    storm(guest)?;
    least = least.min(share(guest, "in a storm of units")?);
    says(guest, &busy, THEIRS, "after its owner set it")?;
    guest.exec_ok(["systemctl", "stop", UNIT_NAME])?;
    says(guest, &busy, THEIRS, "after the daemon's end")?;
    says(guest, &calm, BEFORE, "after the daemon's end")?;
    Ok(least)
}

/// Starts and ends units, each with the name of a container.
fn storm(guest: &Guest) -> Result<()> {
    as_user(
        guest,
        "for number in $(seq 1 50); do \
         systemd-run --user --quiet --scope --unit=libpod-$(printf %064d $number) true; done",
    )
    .map(drop)
}

/// Returns the part of all weights that root's container has, in percent. There must be only pools
/// of the file, and each only once.
fn share(guest: &Guest, when: &str) -> Result<f64> {
    let mut pools = Vec::new();
    // The pool of a removed cgroup remains until the module looks for such pools, which is soon.
    wait::until(&format!("pools are right {when}"), || {
        pools = ddctl::containers(guest)?;
        let users = pools.iter().filter(|one| one.name.starts_with(USERS));
        let golds = pools.iter().filter(|one| one.name == "gold");
        Ok((users.count() <= MAX_POOLS && golds.count() == 1).then_some(()))
    })
    .with_context(|| format!("{pools:#?}"))?;
    for one in &pools {
        let known = ["default", "gold"].contains(&one.name.as_str());
        ensure!(
            known || one.name.starts_with(USERS),
            "a pool that belongs to no container of the file: {one:#?}"
        );
    }
    service::share(&pools, "gold", FLOOR, when)
}

fn becomes(guest: &Guest, path: &str, value: &str, when: &str) -> Result<()> {
    let mut seen = String::new();
    wait::until(&format!("{path} is {value} {when}"), || {
        seen = guest.read_text(path)?;
        Ok((seen == value).then_some(()))
    })
    .with_context(|| format!("the limit is {seen}"))
}

fn says(guest: &Guest, path: &str, value: &str, when: &str) -> Result<()> {
    let seen = guest.read_text(path)?;
    ensure!(seen == value, "{path} is {seen}, not {value}, {when}");
    Ok(())
}
