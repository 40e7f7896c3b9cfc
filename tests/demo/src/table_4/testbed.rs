// SPDX-License-Identifier: GPL-2.0-only

//! A guest with the four services, and its controls.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use ddlab::{
    Command, Disk, DiskConfig, FileSpec, Format, GUEST_MODULE, Guest, GuestConfig, Lab, Running,
    Throttle, median, wait,
};

use super::{
    outcome::{Figure, PART},
    service::{PAGE_LEN, PAGES, SERVICES, UNPACED},
};
use crate::{ddctl, site};

/// Memory of the guest in MiB, including its kernel's. It is too small for all services.
const MEMORY_MIB: u64 = 400;
/// Capacity of the tier.
pub(super) const CAPACITY_MIB: u64 = 64;
/// Memory of the guest that is reserved for clients and the kernel when limits divide it.
const RESERVE_MIB: u64 = 24;
/// Throttle of the readers' disks and of swap. An emulated machine is slow, and so are its disks.
const DISK: Throttle = Throttle {
    iops: Some(4),
    bytes_per_s: None,
};
/// Time in which figures adapt to a configuration, and number and duration of the measurements: the
/// same for all.
const SETTLE: Duration = Duration::from_secs(10);
const WINDOWS: usize = 3;
const WINDOW: Duration = Duration::from_secs(20);
/// Minimum memory of a service that reads files, when limits are set by hand.
const MIN_MIB: u64 = 16;

const FILE: &str = "/run/policyd.toml";
/// Seconds between two decisions.
const INTERVAL_S: u64 = 3;
/// Number of consecutive looks that find all targets met, looks in a round, and rounds.
const LOOKS: u32 = 3;
const LOOKS_IN_ROUND: u32 = 20;
const ROUNDS: u32 = 5;

/// The guest with the services.
pub(super) struct Testbed<'a> {
    lab: &'a Lab,
    guest: Guest,
    /// Disks, with the throttle of each for measurements.
    disks: Vec<(Disk, Throttle)>,
    services: Vec<Running>,
    /// MiB of a container if all get the same.
    limit_mib: u64,
    /// MiB that each service had, in memory and in swap, without limits.
    holds_mib: Vec<u64>,
}

/// Limits of guest memory.
#[derive(Clone, Copy)]
pub(super) enum Limits {
    /// Equal limits for all.
    Equal,
    /// No limits: the guest's kernel divides its memory.
    None,
    /// Redis and MariaDB, which use memory, have the size of their data; the others share the rest.
    ByHand,
}

impl<'a> Testbed<'a> {
    /// Starts all services, without limits and with fast disks.
    pub(super) fn start(lab: &'a Lab) -> Result<Self> {
        site::load_host(lab.host(), CAPACITY_MIB)?;
        // A batch of the default size is a large part of such a small tier.
        ddctl::run(lab.host(), "set-capacity --batch 128K")?;
        let page = |number: u64| FileSpec::new(number.to_string(), PAGE_LEN, number);
        let make = |name: &str, size_mib, format, files| {
            lab.create_disk(&DiskConfig {
                name: name.to_owned(),
                size_mib,
                format,
                files,
            })
        };
        let disks = [
            (
                "web",
                make("web", 256, Format::Ext4, (0..PAGES).map(page).collect())?,
                DISK,
            ),
            ("store", make("store", 256, Format::Ext4, Vec::new())?, DISK),
            (
                "db",
                make("db", 512, Format::Ext4, Vec::new())?,
                Throttle::NONE,
            ),
            ("swap", make("swap", 512, Format::Blank, Vec::new())?, DISK),
        ];
        let mut config = GuestConfig::new("servers").servers().memory_mib(MEMORY_MIB);
        for (_, disk, _) in &disks {
            config = config.disk(disk, Throttle::NONE);
        }
        let guest = lab.start_guest(&config)?;
        for (name, disk, _) in &disks {
            let path = disk.path_in_guest();
            match *name {
                "swap" => {
                    guest.exec_ok(["mkswap", &path])?;
                    guest.exec_ok(["swapon", &path])?;
                }
                name => guest.mount(&path, &format!("/srv/{name}"), "ext4", "noatime")?,
            }
        }
        guest.load_module(GUEST_MODULE, &[])?;
        wait::until("the guest module has found its host", || {
            let state = ddctl::guest(&guest)?.state;
            Ok((state == "attached").then_some(()))
        })?;
        let mut testbed = Self {
            lab,
            limit_mib: limit_mib(&guest)?,
            guest,
            disks: disks
                .into_iter()
                .map(|(_, disk, limit)| (disk, limit))
                .collect(),
            services: Vec::new(),
            holds_mib: Vec::new(),
        };
        testbed.serve()?;
        Ok(testbed)
    }

    fn serve(&mut self) -> Result<()> {
        let guest = &self.guest;
        guest.cgroup("clients", &[])?;
        ddctl::run(guest, "set-weight default 0")?;
        for service in &SERVICES {
            guest.cgroup(service.name, &[])?;
            ddctl::run(guest, &format!("container add {} --weight 0", service.name))?;
            self.services.extend(service.start(guest)?);
        }
        for service in &SERVICES {
            self.services.push(service.ask(guest)?);
        }
        wait::until("all services answer", || {
            Ok(self
                .counts()
                .is_ok_and(|all| all.iter().all(|one| one.answers > 0))
                .then_some(()))
        })
        .or_else(|error| self.alive().and(Err(error)))
    }

    /// Fails if a service or a client has ended.
    fn alive(&mut self) -> Result<()> {
        for one in &mut self.services {
            if let Some(exit) = one.poll()? {
                bail!("a service ended ({exit:?}): {}", one.output()?);
            }
        }
        Ok(())
    }

    pub(super) const fn limit_mib(&self) -> u64 {
        self.limit_mib
    }

    /// Returns the answers a second with disks that cost almost nothing: the most that this machine
    /// gives to all at the same time.
    pub(super) fn most(&mut self) -> Result<Vec<Figure>> {
        let figures = self.figures(false)?;
        self.holds_mib = SERVICES
            .iter()
            .map(|service| self.holds_mib(service.name))
            .collect::<Result<_>>()?;
        Ok(figures)
    }

    /// Returns the memory of a container, including swap.
    fn holds_mib(&self, name: &str) -> Result<u64> {
        let of = |file: &str| -> Result<u64> {
            let path = format!("/sys/fs/cgroup/{name}/{file}.current");
            Ok(self.guest.read_text(&path)?.trim().parse()?)
        };
        Ok((of("memory")? + of("memory.swap")?) >> 20)
    }

    /// Returns the figures of a fixed partition of the tier between the services that read files.
    pub(super) fn partition(
        &mut self,
        (web, store): (u32, u32),
        limits: Limits,
    ) -> Result<Vec<Figure>> {
        self.throttle(false)?;
        for (name, weight) in [("web", web), ("store", store)] {
            ddctl::run(&self.guest, &format!("set-weight {name} {weight}"))?;
        }
        let limits = match limits {
            Limits::Equal => [self.limit_mib; SERVICES.len()].map(Some),
            Limits::None => [None; SERVICES.len()],
            Limits::ByHand => by_hand(&self.holds_mib, self.limit_mib * SERVICES.len() as u64),
        };
        self.limit(&limits)?;
        self.figures(true)
    }

    /// Returns policyd's figures for these targets, and whether it found all met.
    pub(super) fn promised(&mut self, targets: &[f64]) -> Result<(bool, String, Vec<Figure>)> {
        self.throttle(false)?;
        self.limit(&[None; SERVICES.len()])?;
        self.guest.write_file(FILE, policy(targets))?;
        let mut policyd = self
            .guest
            .spawn(&Command::new(["policyd", "run", "--config", FILE]))?;
        self.pace(true)?;
        let met = self.becomes_met()?;
        let figures = self.figures(true)?;
        let explained = self.guest.exec_ok(["policyd", "explain"])?;
        let ended = policyd.poll()?;
        ensure!(ended.is_none(), "policyd ended: {}", policyd.output()?);
        Ok((met, explained, figures))
    }

    /// Lets policyd decide on slow disks until all targets are met, in several rounds. Between them
    /// swapped-out memory is read back, which on such a slow disk takes longer than any wait.
    fn becomes_met(&self) -> Result<bool> {
        for _ in 0..ROUNDS {
            self.throttle(false)?;
            self.warm()?;
            self.throttle(true)?;
            if self.met()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sets the limit of each container in MiB, or none. The limit slows down and never kills.
    fn limit(&self, limits: &[Option<u64>]) -> Result<()> {
        for (service, limit) in SERVICES.iter().zip(limits) {
            let limit = limit.map_or("max".to_owned(), |mib| format!("{mib}M"));
            self.guest
                .cgroup(service.name, &[("memory.high", limit.as_str())])?;
        }
        Ok(())
    }

    /// Sets whether clients ask at their steady rate, or as soon as they are answered.
    fn pace(&self, paced: bool) -> Result<()> {
        match paced {
            true => self.guest.exec_ok(["rm", "-f", UNPACED]).map(drop),
            false => self.guest.write_file(UNPACED, ""),
        }
    }

    /// Slows the disks down, or removes their limits.
    fn throttle(&self, slow: bool) -> Result<()> {
        for (disk, limit) in &self.disks {
            let limit = if slow { *limit } else { Throttle::NONE };
            self.lab.throttle(disk, limit)?;
        }
        Ok(())
    }

    /// Makes every service touch all its data, so that memory and caches are as full as their
    /// limits allow, whatever they contained before.
    fn warm(&self) -> Result<()> {
        for service in &SERVICES {
            let touch = Command::shell(format!("{} > /dev/null", service.touch));
            self.guest.run_ok(&touch.cgroup(service.name))?;
        }
        Ok(())
    }

    /// Returns the figures of a configuration, on slow disks or fast ones. All are measured in the
    /// same way: all data is touched on fast disks; then clients ask as soon as they are answered,
    /// and a fixed time later the windows begin.
    fn figures(&mut self, slow: bool) -> Result<Vec<Figure>> {
        self.throttle(false)?;
        self.warm()?;
        self.throttle(slow)?;
        self.pace(false)?;
        thread::sleep(SETTLE);
        let windows = (0..WINDOWS).map(|_| self.rates());
        let windows = windows.collect::<Result<Vec<_>>>()?;
        let vms = ddctl::vms(self.lab.host())?;
        let vm = vms.first().context("the host has no VM")?;
        let figure = |(at, service): (usize, &super::service::Service)| {
            let name = service.name;
            let rates: Vec<f64> = windows.iter().map(|window| window[at]).collect();
            let pool = vm.container(name)?;
            let path = format!("/sys/fs/cgroup/{name}/memory.current");
            let bytes: f64 = self.guest.read_text(&path)?.parse()?;
            Ok(Figure {
                service: name,
                answers_per_s: median(rates.iter().copied()).unwrap_or_default(),
                worst_per_s: rates.into_iter().fold(f64::INFINITY, f64::min),
                memory_mib: bytes / f64::from(1 << 20),
                cache_mib: pool.used_pages as f64 / 256.0,
                weight: pool.weight,
            })
        };
        SERVICES.iter().enumerate().map(figure).collect()
    }

    /// Returns the answers a second of all services over a window.
    fn rates(&mut self) -> Result<Vec<f64>> {
        let before = self.counts()?;
        thread::sleep(WINDOW);
        let after = self.counts()?;
        self.alive()?;
        let rate = |(now, then): (&Count, &Count)| {
            (now.answers - then.answers) as f64 / (now.seconds - then.seconds)
        };
        Ok(after.iter().zip(&before).map(rate).collect())
    }

    fn counts(&self) -> Result<Vec<Count>> {
        let of = |service: &super::service::Service| {
            Count::read(&self.guest.read_text(&service.metrics())?)
        };
        SERVICES.iter().map(of).collect()
    }

    /// Returns whether policyd finds all targets met within a round.
    fn met(&self) -> Result<bool> {
        let mut looks = 0;
        for _ in 0..LOOKS_IN_ROUND {
            // Each query takes much of a second in the emulated guest.
            thread::sleep(Duration::from_secs(INTERVAL_S));
            let (_, verdicts) = ddctl::policy(&self.guest)?;
            let met = verdicts.iter().all(|verdict| verdict == "met");
            looks = if met { looks + 1 } else { 0 };
            if looks == LOOKS {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The publication of a client.
struct Count {
    seconds: f64,
    answers: u64,
}

impl Count {
    fn read(text: &str) -> Result<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.with_context(|| format!("there is no {key}in {text:?}"))
        };
        Ok(Self {
            seconds: value("asked_seconds ")?.parse()?,
            answers: value("answers_total ")?.parse()?,
        })
    }
}

/// Returns a quarter of the memory that a guest without services has left.
fn limit_mib(guest: &Guest) -> Result<u64> {
    let text = guest.read_text("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = kib.context("the guest has no MemAvailable")?.parse()?;
    Ok((kib >> 10).saturating_sub(RESERVE_MIB) / SERVICES.len() as u64)
}

/// Returns the target of each service: a fraction of the steady rate of its clients' questions, or
/// of its answers on fast disks if that is less.
pub(super) fn targets(most: &[Figure]) -> Vec<f64> {
    let rates = SERVICES.iter().map(|service| f64::from(service.rate));
    let most = most.iter().map(|figure| figure.answers_per_s);
    rates
        .zip(most)
        .map(|(rate, most)| rate.min(most) * PART)
        .collect()
}

/// Returns limits in MiB that give Redis and MariaDB the size of their data plus a tenth, and the
/// others equal parts of the rest.
fn by_hand(holds_mib: &[u64], all_mib: u64) -> [Option<u64>; SERVICES.len()] {
    let lives_from_memory = |at: usize| at < 2;
    let wanted = |at: usize| holds_mib.get(at).map_or(0, |mib| mib * 11 / 10);
    let memory: u64 = (0..SERVICES.len())
        .filter(|at| lives_from_memory(*at))
        .map(wanted)
        .sum();
    let rest = all_mib.saturating_sub(memory) / 2;
    std::array::from_fn(|at| match lives_from_memory(at) {
        true => Some(wanted(at)),
        false => Some(rest.max(MIN_MIB)),
    })
}

/// Returns policyd's file.
fn policy(targets: &[f64]) -> String {
    let mut file = format!("interval_s = {INTERVAL_S}\ndefault_pool_weight = 1\n");
    for (service, target) in SERVICES.iter().zip(targets) {
        let (name, metrics) = (service.name, service.metrics());
        file += &format!(
            "\n[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\nmanage_memory = true\n\
             target = {{ throughput = {target:.2}, source = {{ file = \"{metrics}\", \
             metric = \"answers_total\" }} }}\n"
        );
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publications_of_clients_are_parsed() {
        let count = Count::read("asked_seconds 1.250\nanswers_total 7\n").unwrap();
        assert_eq!((count.seconds, count.answers), (1.25, 7));
        assert!(Count::read("answers_total 7\n").is_err());
    }

    #[test]
    fn limits_by_hand_leave_memory_to_the_services_that_depend_on_it() {
        let limits = by_hand(&[100, 80, 70, 120], 270);
        assert_eq!(limits, [Some(110), Some(88), Some(36), Some(36)]);
        assert_eq!(by_hand(&[200, 100, 9, 9], 270)[2], Some(MIN_MIB));
    }

    #[test]
    fn every_service_has_its_target() {
        let file = policy(&[1.0, 2.0, 3.0, 4.5]);
        assert_eq!(file.matches("manage_memory = true").count(), 4);
        assert!(file.contains("cgroup = \"/store\"") && file.contains("throughput = 4.50"));
    }
}
