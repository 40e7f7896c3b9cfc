// SPDX-License-Identifier: GPL-2.0-only

//! Idle guests give their page cache back: policyd pushes it out slowly, the store keeps the useful
//! part, and free frames go back to the host.

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, Disk, FileSpec, Guest, GuestConfig, Scenario, Target, Throttle, report, wait,
};
use ddload::{Line, Load, Profile, Summary};
use serde::Serialize;

use crate::{
    accounting,
    cgroup::{self, Stat},
    ddctl,
    memory::Memory,
    stage::{self, Stage},
};

/// Runs two guests that are busy alternately, in three ways.
pub(crate) const OFFLOAD: Scenario = Scenario {
    name: "offload",
    about: "idle guests' page cache goes to the store: this saves memory, and guests resume fast",
    quick: false,
    run,
};

/// Capacity of the store.
const STORE_MIB: u64 = 80;
/// Data that each guest reads again and again, and data that it reads once.
const HOT_MIB: u64 = 48;
const ONCE_MIB: u64 = 192;
const NAMES: [&str; 2] = ["a", "b"];
/// An emulated machine is about 20 times slower than a real one, and so is its disk.
const DISK: Throttle = Throttle {
    iops: Some(150),
    bytes_per_s: Some(60 << 20),
};
/// Number of requests right after a guest was idle, and of those that follow. The latter take half
/// a minute, in which each page is fetched from the store once.
const FIRST: u64 = 3_000;
const REST: u64 = 600_000;
/// Memory that policyd leaves to each container: the last 16 MiB.
const IDLE_MIB: f64 = 20.0;
/// Memory that a VMM may have beyond that used by its guest: its own, that of the guest's kernel,
/// which guests do not count, and frames whose neighbours are in use.
const SLACK_MIB: f64 = 128.0;
/// The container that works.
const WORK: &str = "work";
const FILE_PATH: &str = "/run/policyd.toml";
/// policyd has its defaults while a guest works. While the guest is idle steps are large and
/// frequent, so that a minute stands for days.
const FAST: [&str; 2] = ["interval_s = 1\n", "period_s = 1\nstep_percent = 10\n"];
/// Size to which the store is shrunk by hand at the end.
const SHRUNK_MIB: u64 = 8;

/// A treatment of the page cache of idle guests.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// It stays, as without the project.
    Kept,
    /// It is dropped, and the guests have the store's memory in addition.
    Dropped,
    /// It goes to the store.
    Offloaded,
}

/// The results of one treatment.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    way: Way,
    /// Memory of the host in MiB that VMMs and store used at the end of each phase.
    held_mib: Vec<f64>,
    /// Requests a second in the busy phases as a whole.
    rate: f64,
    /// Requests a second at the beginning of busy phases.
    rate_after_idle: f64,
}

/// Memory that the store gave back when its capacity was lowered by hand.
#[derive(Clone, Copy, Debug, Serialize)]
struct Shrunk {
    mib: f64,
    seconds: f64,
    /// Increase of the host's free memory in MiB.
    freed_mib: f64,
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let output = context.output_dir()?;
    let stage = Stage {
        lab: context.lab()?,
    };
    let (kept, _) = measure(&stage, Way::Kept)?;
    let (dropped, _) = measure(&stage, Way::Dropped)?;
    let (offloaded, shrunk) = measure(&stage, Way::Offloaded)?;
    let shrunk = shrunk.context("there is no measurement of the shrunk store")?;
    for one in [&kept, &dropped, &offloaded] {
        context.say(format!("{one:.0?}"));
    }
    context.say(format!("{shrunk:.2?}"));
    let result = serde_json::json!({ "ways": [&kept, &dropped, &offloaded], "shrunk": shrunk });
    report::write_json(&output.join("result.json"), &result)?;
    Ok(vec![
        Target::at_least(
            "offload: memory saved compared with guests that keep their page cache",
            // The measured value was 39.2.
            37.0,
            (1.0 - offloaded.held() / kept.held()) * 100.0,
            "%",
        ),
        Target::at_least(
            "offload: throughput, relative to theirs",
            90.0,
            offloaded.rate * 100.0 / kept.rate,
            "%",
        ),
        Target::at_least(
            "offload: throughput after idle, relative to guests that drop it",
            // The measured value was 6.4.
            4.0,
            offloaded.rate_after_idle / dropped.rate_after_idle,
            "times",
        ),
        Target::at_least(
            "offload: part of the store's released memory that the host had free at once",
            90.0,
            shrunk.freed_mib * 100.0 / shrunk.mib,
            "%",
        ),
    ])
}

impl Measured {
    /// Returns the average memory in MiB.
    fn held(&self) -> f64 {
        self.held_mib.iter().sum::<f64>() / self.held_mib.len() as f64
    }
}

fn load(dir: &str) -> Load {
    let load = Load::new(Profile::Zipf, format!("{dir}hot"));
    load.threads(1).file_size(HOT_MIB << 20)
}

/// Returns the file that is read again and again.
fn hot(dir: &str) -> String {
    load(dir).sets()[0].files()[0].path.display().to_string()
}

fn disk(stage: &Stage<'_>, name: &str) -> Result<Disk> {
    let hot = FileSpec::new(hot(""), HOT_MIB << 20, 1);
    stage.disk(name, vec![hot, FileSpec::new("once", ONCE_MIB << 20, 2)])
}

/// Makes two guests read much, then work alternately.
fn measure(stage: &Stage<'_>, way: Way) -> Result<(Measured, Option<Shrunk>)> {
    if way == Way::Offloaded {
        stage.load_host(STORE_MIB)?;
        ddctl::run(stage.host(), "set-capacity --batch 128K")?;
    }
    let site = Site { stage, way };
    let disks = NAMES.map(|name| disk(stage, name));
    let guests: Vec<Guest> = NAMES
        .iter()
        .zip(disks)
        .map(|(name, disk)| site.guest(name, &disk?))
        .collect::<Result<_>>()?;
    for guest in &guests {
        for file in ["/mnt/once", &hot("/mnt/")] {
            let read = Command::shell(format!("cat {file} > /dev/null"));
            guest.run_ok(&read.cgroup(WORK))?;
        }
        work(guest, FIRST, 1)?;
    }
    for (name, guest) in NAMES.iter().zip(&guests) {
        site.idle(name, guest)?;
    }
    let mut held_mib = vec![site.held_mib()?];
    let mut spent = [0.0; 2];
    for (name, guest) in NAMES.iter().zip(&guests) {
        for (spent, (operations, seed)) in spent.iter_mut().zip([(FIRST, 2), (REST, 3)]) {
            *spent += work(guest, operations, seed)?.seconds;
        }
        held_mib.push(site.held_mib()?);
        site.idle(name, guest)?;
        held_mib.push(site.held_mib()?);
    }
    let shrunk = match way {
        Way::Offloaded => Some(shrink(stage)?),
        _ => None,
    };
    drop(guests);
    if way == Way::Offloaded {
        stage.host().unload_module(stage::HOST)?;
    }
    let all = NAMES.len() as f64;
    let measured = Measured {
        way,
        held_mib,
        rate: all * (FIRST + REST) as f64 / (spent[0] + spent[1]),
        rate_after_idle: all * FIRST as f64 / spent[0],
    };
    Ok((measured, shrunk))
}

/// Makes a number of requests. Those of another seed need pages that the earlier ones have not left
/// in the cache.
fn work(guest: &Guest, operations: u64, seed: u64) -> Result<Summary> {
    let words = ["ddload".to_owned()].into_iter();
    let words = words.chain(load("/mnt/").seed(seed).arguments());
    let words = words.chain(["--operations".to_owned(), operations.to_string()]);
    let text = guest.run_ok(&Command::new(words).cgroup(WORK))?;
    let last = text.lines().last().context("ddload printed nothing")?;
    match serde_json::from_str(last)? {
        Line::Summary(summary) => Ok(summary),
        other => anyhow::bail!("ddload ended with {other:?}"),
    }
}

/// Shrinks the store by hand, which gives most of its pages back.
fn shrink(stage: &Stage<'_>) -> Result<Shrunk> {
    let host = stage.host();
    accounting::check(host)?;
    let free = || Memory::now(host)?.free_kib();
    let (used, before) = (ddctl::host(host)?.used_pages, free()?);
    let capacity = format!("{SHRUNK_MIB}M");
    let ran = host.exec(["ddctl", "set-capacity", &capacity])?;
    let (left, after) = (ddctl::host(host)?.used_pages, free()?);
    ensure!(
        ran.exit.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ensure!(left * 4096 <= SHRUNK_MIB << 20, "{left} pages are left");
    Ok(Shrunk {
        mib: (used - left) as f64 / 256.0,
        seconds: ran.seconds,
        freed_mib: after.saturating_sub(before) as f64 / 1024.0,
    })
}

/// The host of the two guests.
struct Site<'a> {
    stage: &'a Stage<'a>,
    way: Way,
}

impl Site<'_> {
    /// Starts a guest that reports free pages, with policyd if its cache is pushed out.
    fn guest(&self, name: &str, disk: &Disk) -> Result<Guest> {
        let stage = self.stage;
        let more = match self.way {
            Way::Dropped => STORE_MIB / NAMES.len() as u64,
            Way::Kept | Way::Offloaded => 0,
        };
        stage.host().cgroup(&vmm_cgroup(name), &[])?;
        let config = GuestConfig::new(name)
            .memory_mib(512 + more)
            .cgroup(vmm_cgroup(name))
            .disk(disk, DISK)
            // Reclaim of files leaves single free frames between frames in use.
            .kernel_arg("page_reporting.page_reporting_order=0")
            .vmm_arg("-device")
            .vmm_arg("virtio-balloon-pci,free-page-reporting=on");
        let guest = stage.lab.start_guest(&config)?;
        guest.exec_ok(["modprobe", "virtio_balloon"])?;
        guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
        guest.cgroup(WORK, &[])?;
        if self.way == Way::Offloaded {
            stage::attach(&guest)?;
        }
        if self.way != Way::Kept {
            guest.write_file(FILE_PATH, file(false))?;
            // The program ends with the guest.
            guest.shell(format!(
                "policyd run --config {FILE_PATH} > /run/policyd.log 2>&1 & echo $! > /run/policyd.pid"
            ))?;
        }
        Ok(guest)
    }

    /// Tells policyd whether the guest is idle.
    fn tell(&self, guest: &Guest, idle: bool) -> Result<()> {
        guest.write_file(FILE_PATH, file(idle))?;
        guest.shell("kill -HUP $(cat /run/policyd.pid)").map(drop)
    }

    /// Keeps a guest idle until no more memory can be taken from it.
    fn idle(&self, name: &str, guest: &Guest) -> Result<()> {
        if self.way == Way::Kept {
            return Ok(());
        }
        self.tell(guest, true)?;
        let mut now = (0.0, 0.0, 0.0);
        let waited = wait::until("the idle guest gave its memory back", || {
            let container = cgroup::held_mib(guest, WORK)?;
            let memory = Memory::now(guest)?;
            let used = memory.kib("MemTotal")? - memory.kib("MemFree")?;
            now = (container, used as f64 / 1024.0, self.vmm_mib(name)?);
            Ok((now.0 <= IDLE_MIB && now.2 <= now.1 + SLACK_MIB).then_some(()))
        });
        waited.with_context(|| {
            let log = guest.read_text("/run/policyd.log").unwrap_or_default();
            format!("container, guest, VMM in MiB: {now:?}; policyd: {log}")
        })?;
        self.tell(guest, false)
    }

    /// Returns the memory in MiB of both VMMs and the store.
    fn held_mib(&self) -> Result<f64> {
        let mut held = match self.way {
            Way::Offloaded => ddctl::host(self.stage.host())?.used_pages as f64 / 256.0,
            _ => 0.0,
        };
        for name in NAMES {
            held += self.vmm_mib(name)?;
        }
        Ok(held)
    }

    /// Returns the memory in MiB of a VMM without page cache.
    fn vmm_mib(&self, name: &str) -> Result<f64> {
        let stat = Stat::of(self.stage.host(), &vmm_cgroup(name))?;
        Ok(stat.get("anon")? as f64 / f64::from(1 << 20))
    }
}

/// Returns policyd's file.
fn file(idle: bool) -> String {
    let [interval, steps] = if idle { FAST } else { [""; 2] };
    format!(
        "{interval}default_pool_weight = 0\n\n[offload]\n{steps}\n\
         [[container]]\nname = \"work\"\ncgroup = \"/work\"\n"
    )
}

/// Returns the cgroup of a guest's VMM.
fn vmm_cgroup(name: &str) -> String {
    format!("offload/{name}")
}
