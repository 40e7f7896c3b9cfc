// SPDX-License-Identifier: GPL-2.0-only

//! Targets: policyd finds the weights that meet them where equal weights do not.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, Running, Scenario, Target, Throttle, wait};
use ddload::{Load, Profile};

use crate::{accounting, cgroup::Stat, ddctl, stage::Stage};

/// Runs two containers with targets beside one that uses all room that it can get.
pub(crate) const SLA: Scenario = Scenario {
    name: "sla",
    about: "policyd meets targets that equal weights miss",
    quick: false,
    run,
};

/// Capacity of the tier, less than half of the data that is read.
const CAPACITY_MIB: u64 = 24;
/// Memory of a container, little more than that of its program.
const LIMIT: &str = "8M";
const FILE: &str = "/run/policyd.toml";
/// Seconds between two decisions.
const INTERVAL_S: u64 = 3;
/// Number of consecutive looks that must find all targets met.
const LOOKS: u32 = 3;
/// Number of pages read again over which a figure is judged.
const JUDGED: u64 = 20_000;
/// Number of parts of them, each of which may take as long as any wait.
const PARTS: u64 = 10;
const SIGHUP: i32 = 1;

/// A container: the data that it reads, and the fraction of its repeated reads that must hit at the
/// host.
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) profile: Profile,
    pub(crate) set_mib: u64,
    pub(crate) hit_ratio: Option<f64>,
}

/// The shop needs half of the tier and the mail a fifth; the batch has no hits.
const SERVICES: [Service; 3] = [
    Service {
        name: "shop",
        profile: Profile::Zipf,
        set_mib: 48,
        hit_ratio: Some(0.5),
    },
    Service {
        name: "mail",
        profile: Profile::Zipf,
        set_mib: 24,
        hit_ratio: Some(0.3),
    },
    Service {
        name: "batch",
        profile: Profile::Scan,
        set_mib: 64,
        hit_ratio: None,
    },
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let (equal, promised, intervals) = measure(&Stage::set(context, CAPACITY_MIB)?)?;
    context.say(format!("hit ratios under equal weights: {equal:.2?}"));
    context.say(format!("with policyd: {promised:.2?}"));
    let goals = || SERVICES.iter().map(|service| service.hit_ratio);
    let misses = |(goal, ratio): (Option<f64>, &f64)| goal.is_some_and(|goal| *ratio < goal);
    ensure!(
        goals().zip(&equal).any(misses),
        "equal weights meet all targets: {equal:.2?}"
    );
    let mut targets = vec![Target::at_most(
        "sla: intervals until all targets are met",
        // The longest measured time was 4.2 intervals.
        6.0,
        intervals,
        "",
    )];
    for (service, ratio) in SERVICES.iter().zip(&promised) {
        if let Some(goal) = service.hit_ratio {
            let name = format!("sla: hit ratio of the {}", service.name);
            targets.push(Target::at_least(name, goal, *ratio, ""));
        }
    }
    Ok(targets)
}

/// Returns the hit ratios under equal weights, those with targets, and the number of intervals
/// until the targets were met.
fn measure(stage: &Stage<'_>) -> Result<(Vec<f64>, Vec<f64>, f64)> {
    // A batch of the default size is a large part of such a small tier.
    ddctl::run(stage.host(), "set-capacity --batch 128K")?;
    let disk = stage.disk("data", SERVICES.iter().map(Service::file).collect())?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    let mut loads = Vec::new();
    for service in &SERVICES {
        loads.push(service.start(&guest)?);
    }
    guest.write_file(FILE, file(false))?;
    let policyd = guest.spawn(&Command::new(["policyd", "run", "--config", FILE]))?;
    wait::until("the tier is full", || {
        let host = ddctl::host(stage.host())?;
        Ok((host.used_pages * 100 >= host.capacity_pages * 95).then_some(()))
    })?;
    // The content of the tier follows the weights only after some time.
    hit_ratios(&guest)?;
    let equal = hit_ratios(&guest)?;

    guest.write_file(FILE, file(true))?;
    policyd.kill(SIGHUP)?;
    let change = Instant::now();
    met(&guest).with_context(|| policyd.output().unwrap_or_default())?;
    let intervals = change.elapsed().as_secs_f64() / guest.at_its_pace(INTERVAL_S as f64);
    let promised = hit_ratios(&guest)?;
    for load in &mut loads {
        let alive = load.poll()?.is_none();
        ensure!(alive, "a load ended: {}", load.output()?);
    }
    drop((loads, policyd));
    accounting::check(stage.host())?;
    Ok((equal, promised, intervals))
}

impl Service {
    fn load(&self, dir: &str) -> Load {
        let load = Load::new(self.profile, format!("{dir}{}", self.name));
        load.threads(1).file_size(self.set_mib << 20)
    }

    /// Returns its file, as its load would make it.
    pub(crate) fn file(&self) -> FileSpec {
        let sets = self.load("").sets();
        let file = &sets[0].files()[0];
        FileSpec::new(file.path.display().to_string(), file.len, 1)
    }

    /// Starts its load in a cgroup of its name, on the disk at `/mnt`.
    pub(crate) fn start(&self, guest: &Guest) -> Result<Running> {
        guest.cgroup(self.name, &[("memory.max", LIMIT)])?;
        let words = ["ddload".to_owned()].into_iter();
        let words = words.chain(self.load("/mnt/").arguments());
        guest.spawn(&Command::new(words).cgroup(self.name))
    }
}

/// Returns policyd's file, with or without the targets.
fn file(targets: bool) -> String {
    let mut file = format!("interval_s = {INTERVAL_S}\ndefault_pool_weight = 1\n");
    for Service {
        name, hit_ratio, ..
    } in &SERVICES
    {
        file += &format!("[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\n");
        match hit_ratio {
            Some(goal) if targets => file += &format!("target = {{ hit_ratio = {goal} }}\n"),
            None if targets => file += "class = \"bronze\"\n",
            _ => file += "weight = 100\n",
        }
    }
    file
}

/// Waits until policyd finds all targets met, and several further looks do so.
fn met(guest: &Guest) -> Result<()> {
    let mut looks = 0;
    let mut before = String::new();
    wait::until("all targets are met", || {
        let (text, verdicts) = ddctl::policy(guest)?;
        // The same report is not a further look.
        if text != before {
            let all = verdicts.iter().filter(|verdict| *verdict != "best_effort");
            looks = match all.clone().count() > 0 && all.clone().all(|verdict| verdict == "met") {
                true => looks + 1,
                false => 0,
            };
            before = text;
        }
        Ok((looks >= LOOKS).then_some(()))
    })
}

/// Returns the fraction of each service's pages read again that the store had, over the next pages
/// of each.
fn hit_ratios(guest: &Guest) -> Result<Vec<f64>> {
    let before = Counted::now(guest)?;
    let came_back = |pages: u64| {
        wait::until("enough pages were read again", || {
            let now = Counted::now(guest)?;
            let enough = |(now, before): (&Counted, &Counted)| now.back - before.back >= pages;
            Ok(now.iter().zip(&before).all(enough).then_some(now))
        })
    };
    for part in 1..PARTS {
        came_back(JUDGED * part / PARTS)?;
    }
    let now = came_back(JUDGED)?;
    let ratio = |(now, before): (&Counted, &Counted)| {
        (now.given - before.given) as f64 / (now.back - before.back) as f64
    };
    Ok(now.iter().zip(&before).map(ratio).collect())
}

/// Counters of a service so far, in pages.
struct Counted {
    /// Pages read again soon after they were reclaimed, according to the kernel.
    back: u64,
    /// Pages that came from the store.
    given: u64,
}

impl Counted {
    /// Returns the counters of all services.
    fn now(guest: &Guest) -> Result<Vec<Self>> {
        let containers = ddctl::containers(guest)?;
        let of = |service: &Service| {
            let name = service.name;
            let stats = ddctl::container(&containers, name)?.stats;
            let stats = stats.with_context(|| format!("{name} is not enrolled"))?;
            Ok(Self {
                back: Stat::of(guest, name)?.get("workingset_refault_file")?,
                given: stats.gets - stats.misses,
            })
        };
        SERVICES.iter().map(of).collect()
    }
}
