// SPDX-License-Identifier: GPL-2.0-only

//! A busy and hostile Debian: owners change the limits that policyd has set, a user with a
//! delegated subtree does everything that users can do, and commands leave processes behind. In the
//! end the limits have the values that their owners set, the controlled container keeps its share,
//! and policyd stays small.

mod account;
mod owner;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Disk, Guest, Scenario, Target, wait};

use crate::{
    ddctl,
    service::{self, UNIT_NAME, journal},
    stage::{Stage, attach},
};
use account::Account;
use owner::Owners;

/// Runs the owners, the user and the commands at the same time.
pub(crate) const TENANTS: Scenario = Scenario {
    name: "tenants",
    about: "despite owners and a hostile user, policyd keeps shares, undoes its limits, is small",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 96;
/// policyd's ceiling, and its value in `memory.max`.
const CEILING: &str = "memory_ceiling = \"64M\"\n";
const CEILING_BYTES: &str = "67108864";
/// Part of the VM's share that the controlled container is entitled to, in percent.
const FLOOR: f64 = 40.0;
/// Pools of the file that always exist.
const POOLS: [&str; 6] = ["default", "figures", "gold", "one", "three", "two"];
/// Prefix of the user's pools, and their maximum number.
const USERS: &str = "user ";
const MAX_USERS: usize = 4;
/// Time over which policyd's use of the processor is measured.
const WINDOW: Duration = Duration::from_secs(40);
/// Number of rounds of changes during the storm.
const ROUNDS: u32 = 3;

/// Returns policyd's file; `limit` has the keys of containers whose memory is managed.
fn file(limit: &str) -> String {
    let unit = |name: &str| {
        format!(
            "[[container]]\nname = \"{name}\"\nunit = \"{name}\"\nmanage_memory = true\n{limit}\n"
        )
    };
    let command = |name: &str, program: &str| {
        format!(
            "[[container]]\nname = \"{name}\"\nunit = \"{name}\"\n[container.target]\n\
             throughput = 1\nsource = {{ command = [\"/usr/local/bin/{program}\"], \
             every_s = 2, timeout_s = 60 }}\n\n"
        )
    };
    format!(
        "interval_s = 1\ndefault_pool_weight = 5\n\n\
         [[container]]\nname = \"gold\"\npodman = \"gold\"\nclass = \"gold\"\n\
         cache_floor = \"{FLOOR}%\"\nmanage_memory = true\n{limit}\n\
         {}{}{}{}{}\
         [[container]]\nname = \"{USERS}{{}}\"\nuser_unit = \"1000/web*\"\nclass = \"bronze\"\n\
         most_cgroups = {MAX_USERS}\n",
        unit("one"),
        unit("two"),
        unit("three"),
        command("figures", "escape"),
        command("greedy", "hog"),
    )
}

/// Prints a figure, and leaves processes behind that have left its process group and its parent.
const ESCAPE: &str = "#!/bin/sh\n\
    setsid sh -c 'sleep 77777 & exec sleep 77777' > /dev/null 2>&1 &\n\
    echo 5\n";
/// Takes more memory than a command may have, then prints a figure.
const HOG: &str = "#!/bin/sh\nhead -c 120M /dev/zero | tail -c 120M > /dev/null\necho 5\n";
/// The user's program, in a subtree that is delegated as systemd does for users' managers.
const STORM: &str = include_str!("tenants/storm.sh");
const STORM_UNIT: &str = "[Service]\nSlice=user-1000.slice\nUser=1000\nDelegate=yes\n\
    ExecStart=/bin/sh /run/storm.sh\n";
/// The user's unit. Its cgroup is that of a user's manager.
const STORM_NAME: &str = "user@1000.service";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    // Commands and programs that take too much memory are killed.
    context.allow_console(r"\b(head|tail|sh|sleep) invoked oom-killer");
    let stage = Stage {
        lab: context.debian_lab()?,
    };
    stage.load_host(CAPACITY_MIB)?;
    let names = ["figures", "gold", "greedy", "one", "three", "two"];
    let (guest, images) = service::boot(&stage, names.map(|name| (name, 12)))?;
    for (name, text) in [("escape", ESCAPE), ("hog", HOG)] {
        guest.write_file(&format!("/usr/local/bin/{name}"), text)?;
    }
    guest.shell("chmod 755 /usr/local/bin/*")?;
    service::install(&guest, &file(CEILING))?;
    attach(&guest)?;
    start(&guest, &images)?;
    let said = |error: anyhow::Error| error.context(journal(&guest));
    let result = stormy(context, &guest).map_err(said)?;
    Ok(result)
}

/// Runs the test after the containers have started.
fn stormy(context: &Context, guest: &Guest) -> Result<Vec<Target>> {
    let owners = Owners::new(guest)?;
    pools(guest, "at first")?;
    owners.limited("at first")?;

    let quiet = account::over(guest, WINDOW, || Ok(()))?;
    guest.shell(format!("echo {} > /run/storm/begin", owners.podman_id()))?;
    wait::until("the user's storm has begun", || {
        Ok((account::storms(guest)? > 2).then_some(()))
    })?;
    let mut least = f64::MAX;
    let storms = account::storms(guest)?;
    let storm = account::over(guest, WINDOW, || {
        least = least.min(share(guest)?);
        Ok(())
    })?;
    let storms = account::storms(guest)? - storms;
    for round in 0..ROUNDS {
        owners.round(round)?;
        least = least.min(share(guest)?);
    }
    confined(guest)?;
    let memory = account::peak_mib(guest)?;
    let before = service::main_pid(guest)?;
    service::crash(guest)?;
    owners.limited("after a crash")?;
    ensure!(service::main_pid(guest)? != before);
    owners.last_words()?;
    least = least.min(share(guest)?);
    guest.exec_ok(["systemctl", "stop", UNIT_NAME])?;
    owners.have_what_they_set("after the daemon's end")?;
    let sleepers = guest.shell("pgrep -c -f '[s]leep 77777' || true")?;
    ensure!(
        sleepers.trim() == "0",
        "commands have left {sleepers} processes behind"
    );
    printable(guest)?;

    context.say(format!(
        "quiet {quiet:?}, storm of {storms} rounds {storm:?}"
    ));
    Ok(vec![
        Target::at_least(
            "tenants: smallest share of the container with a floor, in a storm",
            FLOOR - 0.5,
            least,
            "%",
        ),
        Target::at_most(
            "tenants: additional processor time of policyd in a storm",
            1.0,
            storm.processor - quiet.processor,
            "%",
        ),
        Target::at_most("tenants: maximum memory of policyd", 20.0, memory, "MiB"),
        Target::at_most(
            "tenants: lines in the journal in a storm",
            Account::LINES,
            storm.lines,
            "",
        ),
    ])
}

/// Starts the controlled containers, each of which reads its file again and again, and the user's
/// program, which waits for a signal.
fn start(guest: &Guest, images: &Disk) -> Result<()> {
    let read = |path: &str| format!("while :; do cat {path} > /dev/null; sleep 1; done");
    for (name, limit) in [
        ("figures", ""),
        ("greedy", ""),
        ("one", ""),
        ("two", ""),
        ("three", "-pMemoryMax=40M"),
    ] {
        let words = ["systemd-run", "--slice=shop.slice"];
        let script = read(&format!("/srv/{name}"));
        let unit = format!("--unit={name}");
        let words = words.into_iter().chain([unit.as_str()]);
        let words = words.chain(Some(limit).filter(|limit| !limit.is_empty()));
        let words = words.chain(["sh", "-c", script.as_str()]);
        guest.exec_ok(words.map(str::to_owned))?;
    }
    service::store(guest, images)?;
    guest.shell(
        "mkdir -p /run/rootfs/bin && cd /run/rootfs && mkdir dev proc sys && \
         cp /bin/busybox bin/ && for name in sh cat sleep; do ln -s busybox bin/$name; done && \
         cp /srv/gold data && tar -c . | podman import --quiet - store && rm -r /run/rootfs && \
         sync && echo 3 > /proc/sys/vm/drop_caches",
    )?;
    service::detached(
        guest,
        &format!(
            "podman run --detach --name old --network none --memory 100m store /bin/sh -c '{}'",
            read("/data")
        ),
    )?;
    guest.write_file("/run/storm.sh", STORM)?;
    guest.write_file(&format!("/etc/systemd/system/{STORM_NAME}"), STORM_UNIT)?;
    guest.shell(
        "echo tenant:x:1000:1000::/:/bin/sh >> /etc/passwd && echo tenant:x:1000: >> /etc/group && \
         mkdir /run/storm && chown 1000:1000 /run/storm && systemctl daemon-reload",
    )?;
    guest.exec_ok(["systemctl", "start", STORM_NAME])?;
    // The name is changed while the container runs.
    guest.exec_ok(["podman", "rename", "old", "gold"])?;
    Ok(())
}

/// Waits until the pools of the file exist, and at most the allowed number of the user's.
fn pools(guest: &Guest, when: &str) -> Result<()> {
    let mut seen = Vec::new();
    wait::until(&format!("pools are right {when}"), || {
        seen = ddctl::containers(guest)?;
        let all = POOLS.iter().chain(&["greedy"]);
        let mut found = all.map(|name| seen.iter().any(|one| one.name == **name));
        Ok(found.all(|is| is).then_some(()))
    })
    .with_context(|| format!("{seen:#?}"))
}

/// Returns the part of all weights that the controlled container has, in percent. No cgroup outside
/// of the file may have a pool.
fn share(guest: &Guest) -> Result<f64> {
    let pools = ddctl::containers(guest)?;
    let known = |name: &str| POOLS.contains(&name) || name == "greedy" || name.starts_with(USERS);
    for (at, one) in pools.iter().enumerate() {
        let twice = pools[..at].iter().any(|other| other.name == one.name);
        ensure!(
            known(&one.name) && !twice,
            "a pool that belongs to no container of the file: {one:#?}"
        );
    }
    let share = service::share(&pools, "gold", FLOOR, "in a storm")?;
    // The pool of a removed cgroup remains until the module looks for such pools, which is soon.
    wait::until("the user has no more pools than the file allows", || {
        let pools = ddctl::containers(guest)?;
        let users = pools.iter().filter(|one| one.name.starts_with(USERS));
        Ok((users.count() <= MAX_USERS).then_some(()))
    })?;
    Ok(share)
}

/// Processes left by commands are in the commands' cgroups, of which there are few, and the daemon
/// survived programs that took too much memory.
fn confined(guest: &Guest) -> Result<()> {
    const BASE: &str = "/sys/fs/cgroup/system.slice/doubledecker-policyd.service";
    let escaped = guest.shell(
        "for one in $(pgrep -f '[s]leep 77777'); do cat /proc/$one/cgroup 2> /dev/null; done | \
         grep -v /command- || true",
    )?;
    ensure!(
        escaped.is_empty(),
        "processes left the cgroups of commands: {escaped}"
    );
    let leaves = guest.shell(format!("ls -d {BASE}/command-* 2> /dev/null | wc -l"))?;
    ensure!(
        leaves.trim().parse::<u32>()? <= 8,
        "there are {leaves} cgroups of commands"
    );
    let events = guest.read_text(&format!("{BASE}/memory.events"))?;
    let killed = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    ensure!(
        killed.is_some_and(|killed| killed != "0"),
        "no command was killed: {events}"
    );
    ensure!(
        !journal(guest).contains("process groups"),
        "commands ran without cgroups"
    );
    Ok(())
}

/// No name that the user chose controls a terminal.
fn printable(guest: &Guest) -> Result<()> {
    for text in [journal(guest), ddctl::run(guest, "container list")?] {
        let hidden = |letter: &char| letter.is_control() && !"\n\t".contains(*letter);
        let found = text.chars().find(hidden);
        ensure!(found.is_none(), "{found:?} in {text:?}");
        ensure!(
            !text.contains('\u{202e}'),
            "a name changes the direction of writing in {text}"
        );
    }
    Ok(())
}
