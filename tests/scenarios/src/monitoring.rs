// SPDX-License-Identifier: GPL-2.0-only

//! A real Prometheus scrapes both daemons with the shipped jobs, evaluates the shipped rules, and
//! answers the queries of the dashboard. Alerts fire when something fails, and only then.

pub(crate) mod dashboard;
mod prometheus;
mod recorded;
mod relay;

use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, Guest, Machine, Running, Scenario, Target, Throttle, wait};
use ddload::Profile;

use crate::{
    accounting, ddctl, ddhostd,
    sla::Service,
    ssd::faulty::Faulty,
    stage::{self, HOST, Stage},
};
use dashboard::{Query, dashboard};
use prometheus::{Alert, Prometheus, Sample};
use relay::Relay;

/// A host and a guest under load, of which several parts fail one after the other.
pub(crate) const MONITORING: Scenario = Scenario {
    name: "monitoring",
    about: "Prometheus scrapes both daemons, and its alerts fire when something fails",
    quick: false,
    run,
};

/// Capacity of the memory tier, less than the data of the shop.
const CAPACITY_MIB: u64 = 32;
/// The guest, and a container in each tier.
const NAME: &str = "one";
const SHOP: Service = Service {
    name: "shop",
    profile: Profile::Zipf,
    set_mib: 64,
    hit_ratio: None,
};
const ARCHIVE: Service = Service {
    name: "archive",
    profile: Profile::Scan,
    set_mib: 48,
    hit_ratio: None,
};
/// The alert of a target that is missed.
const MISSED: &str = "DoubleDeckerTargetMissed";
/// Targets of the shop: one that is always met, and one that its capacity cannot meet.
const MODEST: f64 = 0.01;
const TOO_MUCH: f64 = 0.999;
/// The file of policyd.
const GUEST_FILE: &str = "/run/policyd.toml";
/// Ports of the daemons.
const HOST_PORT: u16 = 19470;
const GUEST_PORT: u16 = 19469;
const SIGHUP: i32 = 1;

/// Queries of the dashboard that have no answer in a run: policyd's targets are neither latencies
/// nor throughputs here, and nothing is refused.
const NO_ANSWER: [&str; 3] = ["> 0", "_latency_seconds", "_throughput"];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    Faulty::allow_console(context);
    let program = context.prometheus()?;
    let output = context.output_dir()?;
    let kernel = context.lab_config().artifacts.release;
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let host = stage.host();
    // A batch of the default size is a large part of such a small tier.
    ddctl::run(host, "set-capacity --batch 128K")?;
    // An emulated host may be slow for other reasons than its device.
    let faulty = Faulty::add(host)?;
    ddctl::run(host, "ssd set --deadline 5000")?;
    host.write_file(
        ddhostd::FILE_PATH,
        format!("metrics = \"127.0.0.1\"\n[memory]\ncapacity = \"{CAPACITY_MIB}MiB\"\n"),
    )?;
    let ddhostd = ddhostd::start(host)?;
    let disk = stage.disk("data", vec![SHOP.file(), ARCHIVE.file()])?;
    let guest = stage.guest_with(NAME, &disk, Throttle::NONE)?;
    let loads = [SHOP.start(&guest)?, ARCHIVE.start(&guest)?];
    promise(&guest, MODEST)?;
    let policyd = guest.spawn(&Command::new(["policyd", "run", "--config", GUEST_FILE]))?;

    let (of_host, of_guest) = (
        Relay::start(host, HOST_PORT)?,
        Relay::start(&guest, GUEST_PORT)?,
    );
    // Without the label `instance`, the port of the relay would be in the names of the series.
    let label = |relay: &Relay, labels: &str| {
        let address = relay.address();
        format!("- targets: [\"{address}\"]\n  labels: {{ host: l1, instance: {labels} }}\n")
    };
    let start = SystemTime::now();
    let watch = Watch(Prometheus::start(
        &program,
        &output.join("prometheus"),
        &[
            ("doubledecker-hosts.yml", label(&of_host, "l1")),
            (
                "doubledecker-guests.yml",
                label(&of_guest, &format!("{NAME}, vm_name: {NAME}")),
            ),
        ],
    )?);
    watch.is_up()?;
    watch.moves(host)?;
    watch.draws()?;
    watch.is_calm()?;
    let site = Site {
        stage: &stage,
        guest: &guest,
        watch: &watch,
    };
    site.target_is_missed(&policyd)?;
    site.device_has_errors(&faulty)?;
    site.device_fails(faulty)?;
    site.module_is_missing()?;
    let ddhostd = site.daemon_is_down(ddhostd)?;
    watch.moves_in_memory()?;
    let end = SystemTime::now();
    drop(loads);
    watch.agrees(&guest)?;
    drop((ddhostd, policyd));
    accounting::check(host)?;
    // A record exists only of a run that has passed all checks.
    let run = recorded::Run {
        kernel: &kernel,
        start,
        end,
    };
    recorded::write(&watch.0, &run, &output.join("dashboard.json"))?;
    Ok(Vec::new())
}

/// Writes policyd's file with a target for the shop.
fn promise(guest: &Machine, hit_ratio: f64) -> Result<()> {
    let file = format!(
        "interval_s = 3\n\
         metrics = \"127.0.0.1\"\n\
         [[container]]\nname = \"shop\"\ncgroup = \"/shop\"\n\
         target = {{ hit_ratio = {hit_ratio} }}\n\
         [[container]]\nname = \"archive\"\ncgroup = \"/archive\"\n\
         store = \"ssd\"\npolicy = \"fifo\"\n"
    );
    guest.write_file(GUEST_FILE, file)
}

/// Prometheus, and the expectations of a run.
struct Watch(Prometheus);

impl Watch {
    /// Waits until an expression has an answer.
    fn sees(&self, expression: &str) -> Result<Vec<Sample>> {
        wait::until(&format!("there is {expression}"), || {
            let samples = self.0.query(expression)?;
            Ok((!samples.is_empty()).then_some(samples))
        })
        .with_context(|| self.state())
    }

    /// Returns what helps to understand a wait that was too long.
    fn state(&self) -> String {
        let up = self.0.query("up or scrape_duration_seconds");
        format!("{up:?}\n{:?}", self.0.alerts())
    }

    /// Waits until both daemons are scraped. There are no other targets.
    fn is_up(&self) -> Result<()> {
        self.sees("count(up == 1) == 2")?;
        for series in [
            "up{job=\"ddhostd\",host=\"l1\"}".to_owned(),
            format!("up{{job=\"policyd\",host=\"l1\",vm_name=\"{NAME}\"}}"),
        ] {
            let found = self.0.query(&series)?;
            ensure!(found.len() == 1, "{series}: {found:?}");
        }
        Ok(())
    }

    /// Waits until the figures of the memory tier move: those of the host, the VM and a container,
    /// as both daemons report them.
    fn moves_in_memory(&self) -> Result<()> {
        for series in [
            "ddhostd_hypercalls_total{host=\"l1\"}",
            "ddhostd_vm_hit_bytes_total{vm_name=\"one\"}",
            "ddhostd_vm_put_bytes_total{vm_name=\"one\"}",
            "ddhostd_container_hit_bytes_total{vm_name=\"one\",container=\"shop\",store=\"mem\"}",
            "policyd_hit_bytes_total{vm_name=\"one\"}",
            "policyd_container_hit_bytes_total{vm_name=\"one\",container=\"shop\"}",
        ] {
            let found = self.sees(&format!("rate({series}[30s]) > 0"))?;
            ensure!(found.len() == 1, "{series}: {found:?}");
        }
        Ok(())
    }

    /// Waits until all figures move, those of the SSD tier as well.
    fn moves(&self, host: &Machine) -> Result<()> {
        self.moves_in_memory()?;
        // Pages are evicted from then on.
        wait::until("the tier is full", || {
            let host = ddctl::host(host)?;
            Ok((host.used_pages * 100 >= host.capacity_pages * 95).then_some(()))
        })?;
        for series in [
            "ddhostd_container_put_bytes_total{vm_name=\"one\",container=\"archive\",store=\"ssd\"}",
            "ddhostd_ssd_written_bytes_total{host=\"l1\",path=\"/dev/mapper/cache\"}",
            "ddhostd_evicted_bytes_total{host=\"l1\"}",
        ] {
            let found = self.sees(&format!("rate({series}[30s]) > 0"))?;
            ensure!(found.len() == 1, "{series}: {found:?}");
        }
        for exists in [
            "ddhostd_vm_used_bytes{host=\"l1\",vm_name=\"one\"} > 0",
            "ddhostd_ssd_state{host=\"l1\",state=\"active\"} == 1",
            "policyd_container_target_met{container=\"shop\"} == 1",
        ] {
            self.sees(exists)?;
        }
        // Both sides have the same containers.
        let joined = "ddhostd_container_used_bytes and on (host, vm_name, container) \
                      policyd_container_used_bytes";
        let found = self.sees(&format!("count({joined}) >= 2"))?;
        ensure!(found.len() == 1, "{found:?}");
        Ok(())
    }

    /// Asks all queries of the dashboard.
    fn draws(&self) -> Result<()> {
        let mut count = 0;
        for Query {
            panel, expression, ..
        } in dashboard("1m")?
        {
            if NO_ANSWER.iter().any(|known| expression.contains(known)) {
                self.0
                    .query(&expression)
                    .with_context(|| format!("the panel {panel}"))?;
            } else {
                self.sees(&expression)
                    .with_context(|| format!("the panel {panel} is empty"))?;
                count += 1;
            }
        }
        ensure!(count > 25, "only {count} queries have answers");
        Ok(())
    }

    /// Waits until no alert is pending or firing.
    fn is_calm(&self) -> Result<()> {
        wait::until("no alert is pending or firing", || {
            Ok(self.0.alerts()?.is_empty().then_some(()))
        })
        .with_context(|| self.state())
    }

    /// Breaks something while no alert is pending, waits until all `expected` alerts fire, mends
    /// it, and waits until none is left. Only `consequences` may fire beside them.
    fn alerts<T>(
        &self,
        expected: &[Expected<'_>],
        consequences: &[&str],
        break_it: impl FnOnce() -> Result<T>,
        mend: impl FnOnce(T) -> Result<()>,
    ) -> Result<()> {
        let names: Vec<_> = expected.iter().map(|one| one.name).collect();
        let names = names.join(", ");
        self.is_calm().with_context(|| format!("before {names}"))?;
        let broken = break_it()?;
        let firing = wait::until(&format!("{names} fire"), || {
            let mut firing = self.0.alerts()?;
            firing.retain(|alert| alert.state == "firing");
            let all = expected.iter().all(|one| one.is_among(&firing));
            Ok(all.then_some(firing))
        })
        .with_context(|| self.state())?;
        for alert in &firing {
            let name = alert.labels.get("alertname").map_or("", String::as_str);
            let known = expected.iter().any(|one| one.is(alert)) || consequences.contains(&name);
            ensure!(known, "{alert:?} fires with {names}");
        }
        mend(broken)?;
        eprintln!("    alerts that fired: {names}");
        self.is_calm().with_context(|| format!("after {names}"))
    }

    /// The figures of both daemons are those of the module, once no page moves.
    fn agrees(&self, guest: &Guest) -> Result<()> {
        let containers = ddctl::containers(guest)?;
        let stats = ddctl::container(&containers, SHOP.name)?.stats;
        let hits = stats.context("the shop has no figures")?.hits * 4096;
        ensure!(hits > 0, "the shop has no hits");
        for daemon in ["ddhostd", "policyd"] {
            self.sees(&format!(
                "{daemon}_container_hit_bytes_total{{container=\"shop\"}} == {hits}"
            ))?;
        }
        Ok(())
    }
}

/// An alert that must fire.
struct Expected<'a> {
    name: &'a str,
    /// Labels that it must have, with their values.
    labels: &'a [(&'a str, &'a str)],
}

impl Expected<'_> {
    fn is(&self, alert: &Alert) -> bool {
        let has = |(label, value): &(&str, &str)| {
            alert.labels.get(*label).is_some_and(|found| found == value)
        };
        has(&("alertname", self.name)) && self.labels.iter().all(has)
    }

    fn is_among(&self, alerts: &[Alert]) -> bool {
        alerts.iter().any(|alert| self.is(alert))
    }
}

/// The machines, and Prometheus.
struct Site<'a> {
    stage: &'a Stage<'a>,
    guest: &'a Guest,
    watch: &'a Watch,
}

impl Site<'_> {
    /// policyd gets a target that it cannot meet.
    fn target_is_missed(&self, policyd: &Running) -> Result<()> {
        let set = |hit_ratio| {
            promise(self.guest, hit_ratio)?;
            policyd.kill(SIGHUP)
        };
        let missed = Expected {
            name: MISSED,
            labels: &[("container", "shop"), ("host", "l1"), ("vm_name", NAME)],
        };
        self.watch
            .alerts(&[missed], &[], || set(TOO_MUCH), |()| set(MODEST))
    }

    /// Reads of the device of the SSD tier fail, so that it is not trusted until reads succeed.
    fn device_has_errors(&self, faulty: &Faulty<'_>) -> Result<()> {
        let errors = Expected {
            name: "DoubleDeckerDeviceErrors",
            labels: &[("path", faulty.path()), ("host", "l1")],
        };
        self.watch.alerts(
            &[errors],
            &["DoubleDeckerDeviceSuspect"],
            || faulty.fail("error_reads"),
            |()| faulty.heal(),
        )
    }

    /// The device of the SSD tier refuses writes, and is removed.
    fn device_fails(&self, faulty: Faulty<'_>) -> Result<()> {
        let path = faulty.path().to_owned();
        let failed = Expected {
            name: "DoubleDeckerDeviceFailed",
            labels: &[("path", &path), ("host", "l1"), ("severity", "critical")],
        };
        let fail = || {
            faulty.fail("error_writes")?;
            Ok(faulty)
        };
        self.watch.alerts(&[failed], &[], fail, |faulty| {
            faulty.heal()?;
            faulty.remove()?;
            faulty.forget()
        })
    }

    /// The host module is unloaded, and loaded again. In between no settings are in force, and no
    /// page comes from the host.
    fn module_is_missing(&self) -> Result<()> {
        let host = self.stage.host();
        let missing = Expected {
            name: "DoubleDeckerModuleMissing",
            labels: &[("job", "ddhostd"), ("host", "l1")],
        };
        let lost = Expected {
            name: "DoubleDeckerHostLost",
            labels: &[("job", "policyd"), ("host", "l1"), ("vm_name", NAME)],
        };
        self.watch.alerts(
            &[missing, lost],
            &["DoubleDeckerFileNotInForce", MISSED],
            || host.unload_module(HOST),
            |()| {
                self.stage.load_host(CAPACITY_MIB)?;
                stage::attached(self.guest).map(drop)
            },
        )
    }

    /// The daemon of the host ends. Returns another one.
    fn daemon_is_down(&self, mut running: Running) -> Result<Running> {
        let mut another = None;
        let down = Expected {
            name: "DoubleDeckerDaemonDown",
            labels: &[("job", "ddhostd"), ("host", "l1")],
        };
        let stop = || ddhostd::stop(&mut running);
        self.watch.alerts(&[down], &[], stop, |()| {
            another = Some(ddhostd::start(self.stage.host())?);
            Ok(())
        })?;
        another.context("ddhostd was started again")
    }
}
