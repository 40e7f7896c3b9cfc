// SPDX-License-Identifier: GPL-2.0-only

//! The walk of a new user: a Debian host and a Debian guest, each with systemd, its own kernel and
//! the project's packages, from the commands of the quick start to a container's hit ratio on the
//! screen. Both are rebooted then, and everything must come back as configured. At last the guest
//! boots a kernel for which the module could not be built.

mod packages;
mod settings;
mod shop;
mod upgrade;
mod visited;
pub(crate) mod walk;

use anyhow::{Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, GuestConfig, Lab, Machine, Scenario, Target};
use serde_json::json;

use crate::{
    service,
    stage::{GUEST, HOST, attached},
    vmm::Vmm,
};
use settings::Settings;
use shop::Shop;
pub(crate) use upgrade::UPGRADE;
use walk::{REBOOT, Side, Step};

/// Runs by name only, because it first builds the packages and two systems with them.
pub(crate) const INSTALLED: Scenario = Scenario {
    name: "installed",
    about: "the quick start of the documents on a Debian host and guest, and a reboot of both",
    quick: false,
    run,
};

/// Name of the VM in the quick start.
const VM: &str = "web-vm";
/// Maximum number of commands of the quick start, each counted on each machine.
const MAX_COMMANDS: f64 = 20.0;
/// Maximum time in seconds that a person needs to type them.
const MAX_SECONDS: f64 = 300.0;
/// Time to type a character and to think about a command, by the keystroke-level model for an
/// average typist without completion or a clipboard.
const KEY_S: f64 = 0.28;
const THOUGHT_S: f64 = 1.35;
/// Minimum hit ratio on the screen, in percent, and of the pages that the shop's visitor reads, the
/// percentage that the host returns.
const MIN_RATIO: f64 = 90.0;
const MIN_SERVED: f64 = 50.0;

/// Returns the file that the container in the guest serves.
#[must_use]
pub fn shop() -> FileSpec {
    FileSpec::new("shop", shop::LEN, 1)
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let steps = walk::quick_start()?;
    let lab = context.installed_lab()?;
    let targets = walk(lab, &steps)?;
    context.end_lab()?;
    Ok(targets)
}

fn walk(lab: &Lab, steps: &[Step]) -> Result<Vec<Target>> {
    let host = lab.host();
    let (guest, ratio) = set_up(lab, steps, &guest_config())?;
    let settings = Settings {
        host,
        guest: &guest,
    };

    let vmm = Vmm::new(host, &guest);
    guest.restart(|| {
        let action = json!({"reboot": "reset"});
        vmm.ask(&json!({"execute": "set-action", "arguments": action}))?;
        login(&guest, REBOOT).map(drop)
    })?;
    came_up(&guest, GUEST)?;
    settings.in_force("after a reboot of the guest")?;
    let mut served = vec![Shop::of(&guest).served("after a reboot of the guest")?];

    power_off(guest)?;
    lab.restart(|| login(host, REBOOT).map(drop))?;
    came_up(host, HOST)?;
    let guest = start_guest(lab, &guest_config())?;
    let settings = Settings {
        host,
        guest: &guest,
    };
    settings.in_force("after a reboot of the host")?;
    settings.of_the_module()?;
    served.push(Shop::of(&guest).served("after a reboot of the host")?);
    settings.no_warnings()?;
    let content = Shop::of(&guest).visit()?;
    power_off(guest)?;
    without_module(lab, &content)?;
    Ok(targets(steps, ratio, &served))
}

/// Boots the guest with its former kernel, for which the module could not be built. It works as if
/// the packages were not installed, and `ddctl doctor` says why there is no cache.
fn without_module(lab: &Lab, content: &str) -> Result<()> {
    let guest = lab.start_guest(&guest_config().former_kernel())?;
    service::booted(&guest)?;
    guest.check_taint()?;
    ensure!(!guest.has_module(GUEST)?, "{GUEST} is loaded");
    ensure!(Shop::of(&guest).visit()? == content, "the file has changed");
    let doctor = guest.exec(["ddctl", "doctor", "--guest"])?;
    let said = doctor.text();
    eprintln!("    {}# ddctl doctor --guest\n{said}", guest.name());
    for reason in ["lacks CONFIG_RUST", "it is not installed for this kernel"] {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(said.contains(reason), "ddctl doctor does not say: {reason}");
    }
    ensure!(!doctor.exit.success(), "ddctl doctor has found no fault");
    Ok(())
}

/// Starts the guest, and executes the commands of the quick start on both machines. Returns the
/// guest, and the hit ratio that the page lets the user see.
fn set_up(lab: &Lab, steps: &[Step], config: &GuestConfig) -> Result<(Guest, Option<f64>)> {
    let host = lab.host();
    came_up(host, HOST)?;
    let guest = start_guest(lab, config)?;
    let shop = Shop::open(&guest)?;

    // The image was made by the commands before the reboot, and its boot is the reboot.
    let first = walk::reboot(steps)? + 1;
    let mut ratio = None;
    for step in &steps[first..] {
        if step.command == shop::WATCH {
            ratio = Some(shop.watched(&step.command)?);
            // The page lets the administrators edit their files now.
            Settings::edit(host, &guest)?;
        } else {
            perform(step, host, &guest)?;
        }
    }
    let settings = Settings {
        host,
        guest: &guest,
    };
    settings.in_force("after the quick start")?;
    Ok((guest, ratio))
}

fn targets(steps: &[Step], ratio: Option<f64>, served: &[f64]) -> Vec<Target> {
    let commands: usize = steps.iter().map(Step::machines).sum();
    let least = served.iter().copied().fold(f64::INFINITY, f64::min);
    vec![
        Target::at_most(
            "installed: commands of the quick start, on host and guest together",
            MAX_COMMANDS,
            commands as f64,
            "",
        ),
        Target::at_most(
            "installed: time to type them, by the keystroke-level model",
            MAX_SECONDS,
            steps.iter().map(typing).sum::<f64>(),
            "s",
        ),
        Target::at_least(
            "installed: hit ratio of the container on the screen",
            MIN_RATIO,
            ratio,
            "%",
        ),
        Target::at_least(
            "installed: pages of a visit that the host returned after a reboot",
            MIN_SERVED,
            least,
            "%",
        ),
    ]
}

/// Returns how long a person types a command, with the Enter key, on all its machines.
fn typing(step: &Step) -> f64 {
    let keys = step.command.chars().count() + 1;
    step.machines() as f64 * (THOUGHT_S + KEY_S * keys as f64)
}

/// Executes a command of the page where it belongs. It must succeed.
fn perform(step: &Step, host: &Machine, guest: &Guest) -> Result<()> {
    for (side, machine) in [(Side::Host, host), (Side::Guest, guest)] {
        if step.is_for(side) {
            let said = login(machine, &step.command)?;
            eprintln!("    {}# {}\n{said}", machine.name(), step.command);
        }
    }
    Ok(())
}

/// Executes a line in a shell as root has it after a login, which finds the installed programs and
/// not those of the test.
fn login(machine: &Machine, line: &str) -> Result<String> {
    login_in("/root", machine, line)
}

/// Does [`login`], and changes to a directory first.
fn login_in(dir: &str, machine: &Machine, line: &str) -> Result<String> {
    machine.run_ok(&as_typed(line).cwd(dir))
}

fn as_typed(line: &str) -> Command {
    Command::new(["bash", "--login", "-c", line]).cwd("/root")
}

/// Waits until systemd has started all units, and checks that the module is loaded, which the test
/// never does.
fn came_up(machine: &Machine, module: &str) -> Result<()> {
    service::booted(machine)?;
    machine.exec_ok(["systemctl", "is-active", "systemd-modules-load"])?;
    ensure!(
        machine.has_module(module)?,
        "{module} was not loaded at boot"
    );
    machine.check_taint()
}

/// Returns the guest of the quick start.
fn guest_config() -> GuestConfig {
    GuestConfig::new(VM).installed().memory_mib(1024)
}

/// Starts the guest from its disk, and waits until it has found its host.
fn start_guest(lab: &Lab, config: &GuestConfig) -> Result<Guest> {
    let guest = lab.start_guest(config)?;
    came_up(&guest, GUEST)?;
    attached(&guest)?;
    Ok(guest)
}

/// Ends a guest as its administrator does. Its disk keeps what was written.
fn power_off(mut guest: Guest) -> Result<()> {
    login(&guest, "systemctl poweroff")?;
    guest.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_takes_time_on_each_machine() {
        let step = |side| Step {
            side,
            command: "123456789".to_owned(),
        };
        let alone = typing(&step(Some(Side::Host)));
        assert!((alone - (1.35 + 2.8)).abs() < 1e-9, "{alone}");
        assert!((typing(&step(None)) - 2.0 * alone).abs() < 1e-9);
    }

    #[test]
    fn the_page_names_the_vm_and_watches_the_container() {
        let steps = walk::quick_start().unwrap();
        let has = |text: &str| steps.iter().any(|step| step.command.contains(text));
        assert!(has(&format!("ddctl set-weight {VM} ")) && has("--save"));
        assert!(has(shop::WATCH) && has(shop::ENROL));
    }
}
