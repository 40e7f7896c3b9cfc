// SPDX-License-Identifier: GPL-2.0-only

//! Advice for a host. It is based on counters alone, because only guests have curves.

use super::{AdviceReport, ENOUGH, percent, refusals};
use crate::{target::NamedVm, word};
use ddabi::{genl::Mode, ssd::DeviceState};
use ddconf::size::show_pages;
use ddnl::{Device, HostStatus, printable, reply::device_state_word};

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
        "The host has no miss-ratio curves, so it is not known how many hits another capacity or \
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
                "The host is short of memory: it can spare {} of the capacity of {}.",
                show_pages(status.limit),
                show_pages(status.capacity)
            ),
            [format!("ddctl set-capacity {}M", mebibytes(status.limit))],
            "A capacity that the host can spare brings no hits, but shares stop changing with \
             the shortage. A higher floor protects the cache at the cost of other memory.",
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
                mebibytes(status.capacity.saturating_mul(2))
            )],
            "A larger capacity keeps pages longer, if the host has the memory. Each evicted page was read from disk later or \
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
                "As many VMs are registered as the parameter `max_vms` allows, and registrations \
                 were refused ({} of them).",
                counters.refused_limit
            ),
            [],
            "A larger `max_vms` in /etc/modprobe.d lets more VMs use the cache.",
        );
    }
    if counters.refused_unsupported > 0 {
        report.add(
            format!(
                "Guests whose module has another ABI version made calls that were refused ({} of them).",
                counters.refused_unsupported
            ),
            [],
            "The doubledecker_guest of this release in these VMs lets them use the cache.",
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
            "A weight above 0 gives the VM a share, which the other VMs lose in proportion.",
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
                "{name} reads {} % of the pages that it stores again, and {evicted} % are evicted.",
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
            "A larger weight would not help it. Other VMs use the other part of its share already.",
        );
    }
}

fn devices(report: &mut AdviceReport, devices: &[Device]) {
    for device in devices {
        let path = printable(&device.path).into_owned();
        if matches!(device.state, DeviceState::Failed | DeviceState::Suspect) {
            report.add(
                format!(
                    "The device {path} of the SSD tier is {}.",
                    device_state_word(device.state)
                ),
                [format!("ddctl ssd remove {}", word::of_device(device))],
                "Gets do not wait for the device, and its pages are misses until it recovers or is \
                 replaced.",
            );
        }
    }
}
