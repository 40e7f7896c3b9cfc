// SPDX-License-Identifier: GPL-2.0-only

//! Advice for a host. It is based on counters alone, because only guests have curves.

use super::{AdviceReport, ENOUGH, percent, refusals};
use crate::{target::NamedVm, word};
use ddabi::{genl::Mode, ssd::DeviceState};
use ddconf::size::show_pages;
use ddnl::{Device, HostStatus, printable};

/// The state that a host reports.
pub(crate) struct HostView<'a> {
    /// Its status.
    pub(crate) status: &'a HostStatus,
    /// Its VMs with their names.
    pub(crate) vms: &'a [NamedVm],
    /// The devices of its SSD tier.
    pub(crate) devices: &'a [Device],
}

/// Returns the advice for a host.
pub(crate) fn host(view: &HostView<'_>) -> AdviceReport {
    let mut report = AdviceReport::default();
    tier(&mut report, view);
    calls(&mut report, view.status);
    for vm in view.vms {
        examine(&mut report, vm, &word::of_vm(view.vms, vm));
    }
    devices(&mut report, view.devices);
    report.unknown.push(
        "The host has no curves of hits by size, so it is not known how many hits another capacity or \
         another weight would bring. `ddctl advise` in a guest has the curves of its containers."
            .into(),
    );
    report.unknown.push(
        "Counters are sums since each VM registered. They do not tell whether the load is still \
         the same; `ddctl top` shows the load now."
            .into(),
    );
    report
}

fn tier(report: &mut AdviceReport, view: &HostView<'_>) {
    let status = view.status;
    if status.capacity == 0 {
        report.add(
            "The memory tier has no capacity, so nothing is cached.",
            ["ddctl set-capacity 25%".to_owned()],
            "Guests can store pages as soon as there is capacity.",
        );
        return;
    }
    if status.mode == Mode::GlobalFifo {
        report.add(
            "The memory tier is shared without weights (mode fifo).",
            ["ddctl mode weighted".to_owned()],
            "Each VM gets its share; in this mode a VM that stores much evicts the pages of others.",
        );
    }
    if status.limit < status.capacity {
        report.add(
            format!(
                "The host is short of memory now: it can spare {} of the capacity of {}.",
                show_pages(status.limit),
                show_pages(status.capacity)
            ),
            // No command is advised, because the host may be able to spare more or less later.
            [],
            "The cache grows again by itself when the shortage is over. If it is the normal state, \
             set the capacity to the least that the host can spare on a busy day \
             (`ddhostd_memory_limit_bytes`): that brings no hits, but shares stop changing. A \
             floor protects the cache at the cost of other memory.",
        );
        return;
    }
    let sum = |count: fn(&NamedVm) -> u64| view.vms.iter().map(count).fold(0, u64::saturating_add);
    let puts = sum(|vm| vm.vm.stats.puts);
    let evictions = sum(|vm| vm.vm.stats.evictions);
    let used = percent(status.used, status.capacity);
    if puts < ENOUGH {
        report.unknown.push(
            "Guests have stored too few pages since they registered to judge the capacity.".into(),
        );
    } else if used >= 90 && percent(evictions, puts) >= 10 {
        report.add(
            format!(
                "The memory tier is {used} % full, and {} % of the pages that were stored have \
                 been evicted before they were read.",
                percent(evictions, puts)
            ),
            [format!(
                "ddctl set-capacity {}M",
                mebibytes(status.capacity.saturating_add(status.capacity / 4))
            )],
            "A capacity that is larger by a quarter keeps pages longer. It takes only memory that \
             the host does not use otherwise. Each evicted page was read from disk later or \
             never; the counters do not tell which.",
        );
    } else if used < 50 && evictions == 0 {
        report.add(
            format!("The memory tier is {used} % full, and no page has been evicted."),
            [],
            "A larger capacity would not help now.",
        );
    }
}

/// Returns pages in whole mebibytes, of which there is at least one.
fn mebibytes(pages: u64) -> u64 {
    (pages / 256).max(1)
}

fn calls(report: &mut AdviceReport, status: &HostStatus) {
    let counters = &status.counters;
    if counters.refused_limit > 0 {
        report.add(
            format!(
                "Registrations were refused because as many VMs were registered as the parameter \
                 `max_vms` allows: {} since the module was loaded.",
                counters.refused_limit
            ),
            [],
            "A larger `max_vms` in /etc/modprobe.d/doubledecker-host.conf lets more VMs use the \
             cache, once the module is loaded again.",
        );
    }
    if counters.refused_unsupported > 0 {
        report.add(
            format!(
                "Calls of guests whose module has another version of the interface were refused: \
                 {} since the module was loaded.",
                counters.refused_unsupported
            ),
            [],
            "These guests have no cache until doubledecker_guest and doubledecker_host have the \
             same version of the interface; `ddctl status` in a guest shows whether it is refused.",
        );
    }
}

/// Examines a VM, which is called `word` in commands.
fn examine(report: &mut AdviceReport, named: &NamedVm, word: &str) {
    let vm = &named.vm;
    let stats = &vm.stats;
    let name = format!("VM {}", printable(&named.label()));
    if vm.weight == 0 && vm.ssd_weight == 0 {
        report.add(
            format!("{name} has weight 0, so nothing of it is cached."),
            [format!("ddctl set-weight {word} 100")],
            "If that is not wanted, a weight above 0 gives the VM a share, which the other VMs \
             lose in proportion.",
        );
        return;
    }
    refusals(report, &name, stats);
    if stats.puts < ENOUGH {
        return;
    }
    let given = stats.gets.saturating_sub(stats.misses);
    let evicted = percent(stats.evictions, stats.puts);
    let full = percent(vm.used, vm.entitlement) >= 90;
    if percent(given, stats.puts) < 5 && evicted >= 50 {
        report.add(
            format!(
                "{name} reads back only {} % of the pages that it stores, and {evicted} % are \
                 evicted.",
                percent(given, stats.puts)
            ),
            [format!(
                "ddctl set-weight {word} {}",
                (vm.weight / 2).max(1)
            )],
            "A smaller weight costs few hits and leaves room to other VMs. In the guest, a policy \
             such as adaptive or tinylfu stores fewer pages for the same hits.",
        );
    } else if full && evicted >= 25 {
        report.add(
            format!(
                "{name} uses its whole share of {}, and {evicted} % of its pages are evicted.",
                show_pages(vm.entitlement)
            ),
            [format!(
                "ddctl set-weight {word} {}",
                vm.weight.saturating_mul(2).min(ddabi::pool::MAX_WEIGHT)
            )],
            "A larger weight keeps its pages longer, at the cost of the other VMs.",
        );
    } else if percent(vm.used, vm.entitlement) < 50 && stats.evictions == 0 {
        report.add(
            format!(
                "{name} uses {} of its share of {}, and none of its pages has been evicted.",
                show_pages(vm.used),
                show_pages(vm.entitlement)
            ),
            [],
            "A larger weight would not help it. What it does not use is lent to other VMs.",
        );
    }
}

fn devices(report: &mut AdviceReport, devices: &[Device]) {
    for device in devices {
        let path = printable(&device.path).into_owned();
        let word = word::of_device(device);
        match device.state {
            DeviceState::Failed => report.add(
                format!("The device {path} of the SSD tier has failed, and its pages are lost."),
                [format!("ddctl ssd remove {word}")],
                "Guests read their own disks instead. It can then be replaced; `--save` removes it \
                 from the file of ddhostd too.",
            ),
            DeviceState::Suspect => report.add(
                format!("Reads of the device {path} of the SSD tier fail or take too long."),
                [],
                "Guests read their own disks until it has recovered, which is tested every second. \
                 If it does not: see what else uses the device (`iostat -x 5`) and whether it \
                 fails (`smartctl`); `ddctl ssd set --deadline` lets readers wait longer.",
            ),
            DeviceState::Active | DeviceState::Leaving => {}
        }
    }
}
