// SPDX-License-Identifier: GPL-2.0-only

//! The packages on the machines of the quick start are upgraded, downgraded and removed by the
//! commands of the page, while programs in the guest read and change files, and visitors come to
//! the shop. Every read is compared.

use anyhow::{Result, ensure};
use ddlab::{Context, Guest, Lab, Machine, Scenario, Target, Throttle};

use super::{
    MIN_SERVED, guest_config, login_in,
    packages::{Daemon, Versions, left},
    set_up,
    settings::Settings,
    shop::Shop,
    visited::Visited,
    walk::{self, Side, Step, Upgrade},
};
use crate::{
    ddctl,
    stage::{GUEST, HOST, Stage, attached},
    torture::{CONTAINERS, ONE, Storm},
};

/// Runs by name only, because it needs the same machines as the quick start.
pub(crate) const UPGRADE: Scenario = Scenario {
    name: "upgrade",
    about: "packages on a Debian host and guest under load: the next version, the former, none",
    quick: false,
    run,
};

/// The directories where an administrator types the commands of the page. `old` in the second one
/// has the packages of the installed version (`xtask/src/installed/next.sh`).
const NEW: &str = "/root/new";
const HOME: &str = "/root";
/// Weight of the load's containers for processor time. Units of systemd have 100, so that apt gets
/// most of it.
const CPU_WEIGHT: &str = "20";
/// Where Debian keeps until a purge which units were enabled.
const UNITS: &str = "/var/lib/systemd/deb-systemd-helper-enabled/";
/// Number of reads that must have been compared.
const MIN_READS: u64 = 1_000;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let steps = walk::quick_start()?;
    let page = Upgrade::of_page()?;
    let lab = context.installed_lab()?;
    let targets = upgrade(lab, &steps, &page)?;
    context.end_lab()?;
    Ok(targets)
}

fn upgrade(lab: &Lab, steps: &[Step], page: &Upgrade) -> Result<Vec<Target>> {
    let disks = Stage { lab }.blank_disks(ONE.map(|site| site.name()), 512)?;
    let config = guest_config().disks(&disks, Throttle::NONE);
    let (guest, _) = set_up(lab, steps, &config)?;
    let site = Site {
        lab,
        guest: &guest,
        visited: Visited::new(Shop::of(&guest))?,
        versions: Versions::of(&guest)?,
    };
    ensure!(Versions::of(lab.host())? == site.versions);
    let Versions { old, new } = &site.versions;
    let storm = site.start_load()?;
    site.has("before the upgrade", old, old)?;

    site.bring(&page.upgrade, NEW)?;
    site.has("after the upgrade", old, new)?;
    site.settings().in_force("after the upgrade")?;
    site.settings().no_warnings()?;

    site.perform(&page.reload, HOME)?;
    site.has("after the new modules were loaded", new, new)?;
    site.works("after the new modules were loaded")?;

    site.bring(&page.downgrade, HOME)?;
    site.has("after the downgrade", old, old)?;
    site.works("after the downgrade")?;
    let served = site.visited.shop().served("after the downgrade")?;

    // The load lasts until the modules are unloaded.
    let remove = page.remove.iter().cloned();
    let (apt, others): (Vec<Step>, Vec<Step>) = remove.partition(is_apt);
    site.perform(&others, HOME)?;
    storm.stop(&guest)?;
    let mut targets = Vec::from(storm.verdict("upgrade", MIN_READS)?);
    site.perform(&apt, HOME)?;
    site.keeps("after the removal", |path| {
        path.starts_with("/etc/") || path.starts_with(UNITS)
    })?;
    let purge = apt.into_iter().map(|step| Step {
        command: step.command.replace("apt remove ", "apt purge "),
        ..step
    });
    site.perform(&purge.collect::<Vec<_>>(), HOME)?;
    site.keeps("after the purge", |_| false)?;
    site.settings().no_kernel_warnings()?;
    targets.push(Target::some(
        "upgrade: visits of the shop while apt worked",
        site.visited.visits(),
    ));
    targets.push(Target::at_least(
        "upgrade: pages of a visit that the host returned after the downgrade",
        MIN_SERVED,
        served,
        "%",
    ));
    Ok(targets)
}

fn is_apt(step: &Step) -> bool {
    step.command.starts_with("apt ")
}

/// Both machines, with what is known about them.
struct Site<'a> {
    lab: &'a Lab,
    guest: &'a Guest,
    visited: Visited<'a>,
    versions: Versions,
}

impl Site<'_> {
    fn machine(&self, side: Side) -> &Machine {
        match side {
            Side::Host => self.lab.host(),
            Side::Guest => self.guest,
        }
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            host: self.lab.host(),
            guest: self.guest,
        }
    }

    /// Starts the programs that read and change files. Their pages belong to the default pool: the
    /// settings name their containers as little as those of most programs of a VM.
    fn start_load(&self) -> Result<Storm> {
        let storm = Storm::start(self.guest, &ONE, u64::MAX)?;
        for name in CONTAINERS {
            self.guest.cgroup(name, &[("cpu.weight", CPU_WEIGHT)])?;
            ddctl::run(self.guest, &format!("container remove {name}"))?;
        }
        Storm::some_hits(self.guest)?;
        Ok(storm)
    }

    /// Executes commands that bring the packages of another version, and checks that they restart
    /// the daemons.
    fn bring(&self, steps: &[Step], dir: &str) -> Result<()> {
        let daemons = Side::BOTH.map(|side| Daemon::running(self.machine(side), side));
        let daemons: Vec<Daemon<'_>> = daemons.into_iter().collect::<Result<_>>()?;
        self.perform(steps, dir)?;
        daemons.iter().try_for_each(Daemon::has_restarted)
    }

    /// Executes commands in a directory, in the order of the page. Visitors come while apt works,
    /// which takes minutes.
    fn perform(&self, steps: &[Step], dir: &str) -> Result<()> {
        for step in steps {
            for side in Side::BOTH.into_iter().filter(|&side| step.is_for(side)) {
                let machine = self.machine(side);
                if is_apt(step) {
                    self.visited.during(machine, dir, &step.command)?;
                } else {
                    let said = login_in(dir, machine, &step.command)?;
                    eprintln!("    {}# {}\n{said}", machine.name(), step.command);
                }
            }
        }
        Ok(())
    }

    /// Checks the versions of the loaded modules, and of everything that is installed.
    fn has(&self, when: &str, loaded: &str, installed: &str) -> Result<()> {
        for (side, module) in [(Side::Host, HOST), (Side::Guest, GUEST)] {
            let machine = self.machine(side);
            let found = Versions::found(machine, module)?;
            let [runs, is_built, are_tools] = found.each_ref().map(String::as_str);
            ensure!(
                [runs, is_built, are_tools] == [loaded, installed, installed],
                "{when}, {} has the module {runs} loaded and {is_built} built, and tools of \
                 {are_tools}, not {loaded} loaded and {installed} installed",
                machine.name()
            );
            machine.check_taint()?;
        }
        Ok(())
    }

    /// Checks that the settings are in force again, those of the host's module included, and waits
    /// until the guest gets pages from the host.
    fn works(&self, when: &str) -> Result<()> {
        attached(self.guest)?;
        self.settings().in_force(when)?;
        self.settings().of_the_module()?;
        Storm::some_hits(self.guest)
    }

    /// Checks that the machines have no files of the packages, except those that are `allowed`, and
    /// no modules.
    fn keeps(&self, when: &str, allowed: fn(&str) -> bool) -> Result<()> {
        for (side, module) in [(Side::Host, HOST), (Side::Guest, GUEST)] {
            let machine = self.machine(side);
            let left = left(machine)?;
            let wrong = left.iter().find(|path| !allowed(path));
            ensure!(
                wrong.is_none(),
                "{when}, {} still has {left:?}",
                machine.name()
            );
            ensure!(!machine.has_module(module)?, "{module} is loaded {when}");
        }
        Ok(())
    }
}
