// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl set-weight`.

use crate::{
    context::{Context, OpenModule},
    error::{Error, Kind, Result},
    eviction,
    output::Frame,
    report::{WeightReport, WeightsReport},
    save::{self, NOT_SAVED},
    target::{NamedVm, find_pool, find_vm, name_vms, pool_label, split},
    value,
};
use clap::Args;
use ddnl::{GuestControl, HostControl, Pool, PoolChange, Side, VmChange};
use ddvm::{Editor, config::Weights, selector::Pattern};

/// Set the weight of VMs (host) or of containers (guest)
///
/// The share of a VM is its weight divided by the sum of all VMs' weights. The same applies to the
/// containers of a VM. With weight 0 nothing is cached.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl set-weight nginx 300             in a guest: container nginx",
    "\n  ddctl set-weight web 200               on a host: VM web",
    "\n  ddctl set-weight web mail 70 --save    on a host: two VMs, permanently",
    "\n  ddctl set-weight db 70 --save --later  on a host: also if VM db is not running",
    "\n  ddctl set-weight db 70 --save --cgroup /machine.slice  only a VM of libvirt",
))]
pub(crate) struct Arguments {
    /// VM by number, process id, name or uuid (host), or container by name or number (guest)
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
    /// Accept names of VMs that are not registered: they get the weight when they register
    #[arg(long, requires = "save")]
    later: bool,
    /// Accept only VMs in this cgroup, and write the cgroup into the file beside their names
    ///
    /// Any user who may open /dev/kvm can start a VM with the name of another user's VM, but not
    /// in the cgroup of that VM. The cgroup is a path below the root of cgroup v2, or a pattern.
    #[arg(long, value_name = "CGROUP", requires = "save", value_parser = Pattern::cgroup)]
    cgroup: Option<Pattern>,
}

/// The meaning of a target on a host.
enum Subject<'a> {
    /// A VM that is registered.
    Vm(&'a NamedVm),
    /// The name of a VM that is not registered.
    Name(&'a str),
}

impl Subject<'_> {
    fn label(&self) -> String {
        match self {
            Self::Vm(vm) => vm.label(),
            Self::Name(name) => (*name).into(),
        }
    }
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let may_come = arguments.later && context.wanted() != Some(Side::Guest);
    let side = match context.either() {
        Err(error) if may_come && error.kind() == Some(Kind::NoModule) => {
            return vms(context, None, arguments);
        }
        side => side?,
    };
    match side {
        OpenModule::Host(host) => vms(context, Some(host), arguments),
        OpenModule::Guest(_) if arguments.save => Err(Error::new(
            Kind::Usage,
            "`--save` works on the host, not in a guest",
        )
        .hint("write the weights of containers into /etc/doubledecker/policyd.toml")),
        OpenModule::Guest(guest) => {
            let weights = (arguments.weight, arguments.ssd);
            containers(context, guest, &arguments.targets, weights)
        }
    }
}

/// Looks up all targets before it changes the first, so that a wrong name changes nothing.
fn vms(
    context: &mut Context<'_>,
    mut host: Option<Box<dyn HostControl>>,
    arguments: &Arguments,
) -> Result<()> {
    let weight = arguments.weight;
    let registered = match &mut host {
        Some(host) => host.vms()?,
        None => Vec::new(),
    };
    let mut vms = name_vms(context.system, registered);
    if let Some(pattern) = &arguments.cgroup {
        vms.retain(|vm| {
            vm.vmm
                .cgroup
                .as_ref()
                .is_some_and(|cgroup| pattern.is_above(cgroup))
        });
    }
    let subjects: Vec<Subject<'_>> = arguments
        .targets
        .iter()
        .map(|target| match split(target) {
            (vm, None) => match find_vm(&vms, vm) {
                Ok(vm) => Ok(Subject::Vm(vm)),
                Err(error) => match absent(&vms, vm).filter(|_| arguments.later) {
                    Some(name) => Ok(Subject::Name(name)),
                    None => Err(error),
                },
            },
            (vm, Some(container)) => Err(foreign(vm, container, weight)),
        })
        .collect::<Result<_>>()?;
    let weights = Weights {
        memory: weight,
        ssd: arguments.ssd,
    };
    let editor = match arguments.save {
        true => Some(edit(
            context,
            &subjects,
            arguments.cgroup.as_ref(),
            weights,
        )?),
        false => None,
    };
    let mut done = Done::default();
    for subject in &subjects {
        let vm = match subject {
            Subject::Vm(target) => Some(target.vm.id),
            Subject::Name(_) => None,
        };
        if let Some((host, vm)) = host.as_mut().zip(vm) {
            let change = VmChange {
                weight: Some(weight),
                ssd_weight: arguments.ssd,
            };
            let result = host.set_vm(vm, change);
            if done.note(context, result)? > 0 {
                eviction::until_empty(context.system, &mut **host, vm)?;
            }
        }
        let weights = (weight, arguments.ssd);
        let name = subject.label();
        match vm {
            Some(vm) => done.add(
                &format!("VM {name}"),
                weights,
                WeightReport::Vm {
                    vm,
                    weight,
                    ssd_weight: arguments.ssd,
                },
            ),
            None => done.add(
                &format!("VM {name}, when it registers,"),
                weights,
                WeightReport::Later {
                    name,
                    weight,
                    ssd_weight: arguments.ssd,
                },
            ),
        }
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

/// Returns a target as the name of a VM that is not registered, or `None` if it cannot be one.
fn absent<'a>(vms: &[NamedVm], target: &'a str) -> Option<&'a str> {
    let name = match target.split_once(':') {
        Some(("name", name)) => name,
        Some(("id" | "pid" | "uuid", _)) => return None,
        _ if target.parse::<u32>().is_ok() => return None,
        _ => target,
    };
    let is_taken = vms.iter().any(|vm| vm.vmm.name.as_deref() == Some(name));
    (!is_taken && !name.is_empty()).then_some(name)
}

/// Changes the file of the host in memory. VMs are kept by their names.
fn edit<'a>(
    context: &Context<'_>,
    subjects: &'a [Subject<'a>],
    cgroup: Option<&'a Pattern>,
    weights: Weights,
) -> Result<Editor<'a>> {
    let mut editor = save::open(context.system)?;
    for subject in subjects {
        let (name, vmm) = match subject {
            Subject::Vm(target) => (target.vmm.name.as_deref(), Some(&target.vmm)),
            Subject::Name(name) => (Some(*name), None),
        };
        let Some(name) = name else {
            return Err(Error::new(
                Kind::Usage,
                format!(
                    "{} has no name by which its weight could be saved",
                    subject.label()
                ),
            )
            .hint("give the VM a name, or write an entry for its cgroup into the file by hand"));
        };
        editor
            .change(move |file| file.set_weights(name, vmm, cgroup, weights))
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
