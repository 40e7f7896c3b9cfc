// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl set-weight`.

use crate::{
    context::{Context, Either},
    error::{Error, Kind, Result},
    eviction,
    output::Frame,
    report::{WeightReport, WeightsReport},
    save::{self, NOT_SAVED},
    target::{NamedVm, find_pool, find_vm, name_vms, pool_label, split},
    value,
};
use clap::Args;
use ddnl::{GuestControl, HostControl, Pool, PoolChange, VmChange};
use ddvm::{Editor, config::Weights};

/// Set the weight of VMs (host) or of containers (guest)
///
/// The share of a VM is its weight divided by the sum of all VMs' weights. The same applies to the
/// containers of a VM. With weight 0 nothing is cached.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl set-weight web 200            on a host: VM web",
    "\n  ddctl set-weight web mail 70 --save  on a host: two VMs, and keep it",
    "\n  ddctl set-weight nginx 300           in a guest: container nginx",
))]
pub(crate) struct Arguments {
    /// VM by number, process, name or uuid (host), or container by name or number (guest)
    #[arg(required = true, value_name = "TARGET", allow_negative_numbers = true)]
    targets: Vec<String>,
    /// Weight from 0 to 10000
    #[arg(value_parser = value::last_weight, allow_negative_numbers = true)]
    weight: u32,
    /// Weight in the SSD tier, if it differs
    #[arg(long, value_name = "WEIGHT", value_parser = value::weight, allow_negative_numbers = true)]
    ssd: Option<u32>,
    /// Make the weight permanent: write it into /etc/doubledecker/host.toml for ddhostd (host)
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    match context.either()? {
        Either::Host(host) => vms(context, host, arguments),
        Either::Guest(_) if arguments.save => Err(Error::new(
            Kind::Usage,
            "`--save` works on the host, not in a guest",
        )
        .hint("write the weights of containers into /etc/doubledecker/policyd.toml")),
        Either::Guest(guest) => {
            let weights = (arguments.weight, arguments.ssd);
            containers(context, guest, &arguments.targets, weights)
        }
    }
}

/// Looks up all targets before it changes the first, so that a wrong name changes nothing.
fn vms(
    context: &mut Context<'_>,
    mut host: Box<dyn HostControl>,
    arguments: &Arguments,
) -> Result<()> {
    let weight = arguments.weight;
    let vms = name_vms(context.system, host.vms()?);
    let targets: Vec<&NamedVm> = arguments
        .targets
        .iter()
        .map(|target| match split(target) {
            (vm, None) => find_vm(&vms, vm),
            (vm, Some(container)) => Err(foreign(vm, container, weight)),
        })
        .collect::<Result<_>>()?;
    let weights = Weights {
        memory: weight,
        ssd: arguments.ssd,
    };
    let editor = match arguments.save {
        true => Some(edit(context, &targets, weights)?),
        false => None,
    };
    let mut done = Done::default();
    for target in targets {
        let change = VmChange {
            weight: Some(weight),
            ssd_weight: arguments.ssd,
        };
        let result = host.set_vm(target.vm.id, change);
        if done.note(context, result)? > 0 {
            eviction::until_empty(context.system, &mut *host, target.vm.id)?;
        }
        let weights = (weight, arguments.ssd);
        done.add(
            &format!("VM {}", target.label()),
            weights,
            WeightReport::Vm {
                vm: target.vm.id,
                weight,
                ssd_weight: arguments.ssd,
            },
        );
    }
    match editor {
        None => done.text += &format!("{NOT_SAVED}\n"),
        Some(editor) => match save::finish(context.system, editor) {
            Ok(saved) => {
                done.text += &format!("{}\n", saved.text());
                done.report.saved = Some(saved.path());
            }
            Err(error) => {
                done.print(context)?;
                return Err(error);
            }
        },
    }
    done.print(context)
}

/// Changes the file of the host in memory. VMs are kept by their names.
fn edit(context: &Context<'_>, targets: &[&NamedVm], weights: Weights) -> Result<Editor> {
    let mut editor = save::open(context.system)?;
    for target in targets {
        let Some(name) = &target.vmm.name else {
            return Err(Error::new(
                Kind::Usage,
                format!(
                    "{} has no name by which its weight could be saved",
                    target.label()
                ),
            )
            .hint("give the VM a name, or write an entry for its cgroup into the file by hand"));
        };
        editor
            .set_weights(name, &target.vmm, weights)
            .map_err(|error| Error::new(Kind::Failed, error).hint("nothing was changed"))?;
    }
    Ok(editor)
}

/// The weights set so far, as text and JSON.
#[derive(Default)]
struct Done {
    text: String,
    report: WeightsReport,
}

impl Done {
    fn add(&mut self, what: &str, (weight, ssd): (u32, Option<u32>), report: WeightReport) {
        self.text += &format!("Weight of {what} is now {weight}");
        if let Some(ssd) = ssd {
            self.text += &format!(", and {ssd} in the SSD tier");
        }
        self.text += "\n";
        self.report.weights.push(report);
    }

    /// If `result` is an error, prints the changes made before it and returns the error.
    fn note<T>(&mut self, context: &mut Context<'_>, result: ddnl::Result<T>) -> Result<T> {
        if result.is_err() && !self.report.weights.is_empty() {
            std::mem::take(self).print(context)?;
        }
        Ok(result?)
    }

    fn print(self, context: &mut Context<'_>) -> Result<()> {
        Frame::new(self.text, &self.report).print(context)
    }
}

/// Sets the weights of containers, for `set-weight` and `container set-weight`.
pub(crate) fn containers(
    context: &mut Context<'_>,
    mut guest: Box<dyn GuestControl>,
    targets: &[String],
    (weight, ssd): (u32, Option<u32>),
) -> Result<()> {
    let pools = guest.pools()?;
    let targets: Vec<&Pool> = targets
        .iter()
        .map(|target| find_pool(&pools, target))
        .collect::<Result<_>>()?;
    let mut done = Done::default();
    for pool in targets {
        let change = PoolChange {
            weight: Some(weight),
            ssd_weight: ssd,
            ..PoolChange::default()
        };
        let result = guest.set_pool(pool.id, change);
        done.note(context, result)?;
        let what = format!("container {}", pool_label(pool));
        done.add(
            &what,
            (weight, ssd),
            WeightReport::Container {
                container: pool.id,
                weight,
                ssd_weight: ssd,
            },
        );
    }
    done.print(context)
}

fn foreign(vm: &str, container: &str, weight: u32) -> Error {
    Error::new(
        Kind::Usage,
        format!("containers divide their own VM's share: `{vm}/{container}` has no weight here"),
    )
    .hint(format!(
        "run `ddctl set-weight {container} {weight}` in VM {vm}, or edit its policyd.toml"
    ))
}
