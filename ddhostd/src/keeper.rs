// SPDX-License-Identifier: GPL-2.0-only

//! Decides which VM gets which weight, and when.
//!
//! A VM gets its weight once for each registration, and again when the file gives it another one.
//! In between, the administrator may change it by `ddctl set-weight`.

use crate::report::Rule;
use ddnl::{Vm, VmChange};
use ddvm::{
    Vmm,
    config::{Config, Unlisted, Weights},
};
use std::{collections::BTreeMap, time::Duration};

/// How long a VM keeps the weight that it has while its VMM withholds its name. Then it is treated
/// as a VM without a name.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The registered VMs, and the settings that are due.
#[derive(Debug)]
pub struct Keeper {
    config: Config,
    vms: BTreeMap<u32, Known>,
    /// Whether the sizes of the memory tier have to be set.
    sizes_due: bool,
    /// Whether settings of all devices of the SSD tier have to be set.
    ssd_due: bool,
}

/// A VM that is registered.
#[derive(Clone, Debug)]
pub struct Known {
    /// The VM as the module listed it last.
    pub vm: Vm,
    /// Its names, as far as they are known.
    pub vmm: Vmm,
    /// Whether the VMM has been asked for its names and has answered.
    pub named: bool,
    /// The time of the caller at which it became known.
    since: Duration,
    /// Whether its weight has to be set.
    due: bool,
    /// The reason why its weight could not be set.
    pub trouble: Option<String>,
}

impl Keeper {
    /// Creates a keeper that knows no VM yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            vms: BTreeMap::new(),
            sizes_due: true,
            ssd_due: true,
        }
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the registered VMs, by number.
    pub fn vms(&self) -> &BTreeMap<u32, Known> {
        &self.vms
    }

    /// Puts another configuration in force, also for VMs that are registered already. Settings that
    /// it does not change are left to the administrator.
    pub fn reload(&mut self, config: Config) {
        let before = std::mem::replace(&mut self.config, config);
        let ssd = |config: &Config| {
            let ssd = &config.ssd;
            (ssd.deadline, ssd.wait, ssd.retain, ssd.index_memory)
        };
        self.sizes_due |= before.memory != self.config.memory;
        self.ssd_due |= ssd(&before) != ssd(&self.config);
        for known in self.vms.values_mut() {
            known.due |= before.weights(&known.vmm) != self.config.weights(&known.vmm);
        }
    }

    /// Forgets all VMs, and makes sizes due, because the module was loaded again.
    pub fn forget(&mut self) {
        self.vms.clear();
        self.sizes_due = true;
        self.ssd_due = true;
    }

    /// Handles a list of all VMs. Returns number and process of those that are new.
    pub fn listed(&mut self, now: Duration, vms: Vec<Vm>) -> Vec<(u32, u32)> {
        let mut new = Vec::new();
        let mut before = std::mem::take(&mut self.vms);
        for vm in vms {
            // A VM that another process took over has other names.
            let known = before.remove(&vm.id).filter(|one| one.vm.pid == vm.pid);
            let known = match known {
                Some(known) => Known { vm, ..known },
                None => {
                    new.push((vm.id, vm.pid));
                    Known {
                        vm,
                        vmm: Vmm::default(),
                        named: false,
                        since: now,
                        due: true,
                        trouble: None,
                    }
                }
            };
            self.vms.insert(known.vm.id, known);
        }
        new
    }

    /// Notes that a VM has registered, possibly once more.
    pub fn registered(&mut self, vm: u32) {
        if let Some(known) = self.vms.get_mut(&vm) {
            known.due = true;
        }
    }

    /// Notes the identity of a VM: with all its names if `named`, and otherwise only with what the
    /// kernel knows of its process.
    pub fn identified(&mut self, vm: u32, pid: u32, vmm: Vmm, named: bool) {
        let known = self.vms.get_mut(&vm).filter(|known| known.vm.pid == pid);
        if let Some(known) = known {
            known.vmm = vmm;
            known.named = named;
            known.due = true;
        }
    }

    /// Returns whether the sizes of the memory tier are to be set.
    pub fn sizes_due(&self) -> bool {
        self.sizes_due && !self.config.memory.is_empty()
    }

    /// Notes that the sizes of the memory tier were set.
    pub fn sizes_set(&mut self) {
        self.sizes_due = false;
    }

    /// Returns whether settings of all devices are to be set.
    pub fn ssd_due(&self) -> bool {
        self.ssd_due && self.config.ssd.has_settings()
    }

    /// Notes that the settings of all devices were set.
    pub fn ssd_set(&mut self) {
        self.ssd_due = false;
    }

    /// Returns the VMs whose weights are to be set, with their weights and the changes that give
    /// them.
    pub fn due(&mut self, now: Duration) -> Vec<(u32, Weights, VmChange)> {
        let mut due = Vec::new();
        // VMs whose weight is not due are not compared with the entries, of which there may be
        // many.
        let may_be_set =
            |known: &Known| known.due && (known.named || now >= known.since + PATIENCE);
        for (vm, known) in self.vms.iter_mut().filter(|(_, known)| may_be_set(known)) {
            let weights = self.config.weights(&known.vmm);
            if weights.are_those_of(&known.vm) {
                known.due = false;
                known.trouble = None;
            } else {
                due.push((*vm, weights, weights.change(&known.vm)));
            }
        }
        due
    }

    /// Notes that the weights of a VM were set, or the reason why they could not be.
    pub fn weights_set(&mut self, vm: u32, result: Result<Weights, String>) {
        let Some(known) = self.vms.get_mut(&vm) else {
            return;
        };
        match result {
            Ok(weights) => {
                known.vm.weight = weights.memory;
                known.vm.ssd_weight = weights.ssd();
                known.due = false;
                known.trouble = None;
            }
            Err(trouble) => known.trouble = Some(trouble),
        }
    }
}

/// Returns the rule by which a VM gets its weight.
pub fn rule(config: &Config, vmm: &Vmm) -> Rule {
    match (config.entry(vmm), config.unlisted) {
        (Some((_, entry)), _) => Rule::Entry {
            line: entry.line,
            selector: entry.selector.text(),
        },
        (None, Unlisted::Allow(_)) => Rule::Allow,
        (None, Unlisted::Deny) => Rule::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::PoolStats;

    const START: Duration = Duration::ZERO;

    fn vm(id: u32, pid: u32, weight: u32) -> Vm {
        Vm {
            id,
            pid,
            weight,
            ssd_weight: weight,
            used: 0,
            entitlement: 0,
            pools: 1,
            stats: PoolStats::default(),
        }
    }

    fn named(name: &str) -> Vmm {
        Vmm {
            name: Some(name.into()),
            ..Vmm::default()
        }
    }

    fn keeper(text: &str) -> Keeper {
        Keeper::new(Config::parse(text, 8 << 30).unwrap())
    }

    /// The weights that are to be set.
    fn due(keeper: &mut Keeper, now: Duration) -> Vec<(u32, u32)> {
        let due = keeper.due(now).into_iter();
        due.map(|(vm, weights, _)| (vm, weights.memory)).collect()
    }

    const WEB: &str = "default = \"deny\"\n[[vm]]\nname = \"web\"\nweight = 300\n";

    #[test]
    fn a_vm_gets_its_weight_once() {
        let mut keeper = keeper(WEB);
        assert_eq!(keeper.listed(START, vec![vm(1, 10, 100)]), [(1, 10)]);
        // A VM without a known name keeps its weight.
        assert_eq!(due(&mut keeper, START), []);
        keeper.identified(1, 10, named("web"), true);
        assert_eq!(due(&mut keeper, START), [(1, 300)]);
        keeper.weights_set(1, Ok(Weights::both(300)));
        assert_eq!(due(&mut keeper, START), []);
        // The weight was set by hand.
        assert_eq!(keeper.listed(START, vec![vm(1, 10, 7)]), []);
        assert_eq!(due(&mut keeper, START), []);
        keeper.registered(1);
        assert_eq!(due(&mut keeper, START), [(1, 300)]);
    }

    #[test]
    fn the_ssd_tier_has_weights_of_its_own_where_they_are_given() {
        let change = |weight, ssd_weight| VmChange {
            weight: Some(weight),
            ssd_weight,
        };
        let changes = |text: &str, ssd_weight| {
            let mut keeper = keeper(text);
            let vm = Vm {
                ssd_weight,
                ..vm(1, 10, 100)
            };
            keeper.listed(START, vec![vm]);
            keeper.identified(1, 10, named("web"), true);
            let changes = keeper.due(START).into_iter().map(|(_, _, change)| change);
            changes.collect::<Vec<VmChange>>()
        };
        // The weight in the SSD tier follows that in the memory tier until it is set.
        assert_eq!(changes(WEB, 100), [change(300, None)]);
        assert_eq!(changes(WEB, 5), [change(300, Some(300))]);
        let own = format!("{WEB}ssd-weight = 7\n");
        assert_eq!(changes(&own, 100), [change(300, Some(7))]);
        let same = own.replace("300", "100");
        assert_eq!(changes(&same, 7), []);
    }

    #[test]
    fn failed_changes_are_tried_again() {
        let mut keeper = keeper(WEB);
        keeper.listed(START, vec![vm(1, 10, 100)]);
        keeper.identified(1, 10, named("web"), true);
        keeper.weights_set(1, Err("no".into()));
        assert_eq!(keeper.vms()[&1].trouble.as_deref(), Some("no"));
        assert_eq!(due(&mut keeper, START), [(1, 300)]);
        keeper.listed(START, vec![vm(1, 10, 300)]);
        assert_eq!(due(&mut keeper, START), []);
        assert_eq!(keeper.vms()[&1].trouble, None);
    }

    #[test]
    fn a_name_that_is_withheld_is_not_waited_for_for_ever() {
        let mut keeper = keeper(WEB);
        keeper.listed(START, vec![vm(1, 10, 100)]);
        keeper.identified(1, 10, Vmm::default(), false);
        let almost = PATIENCE - Duration::from_millis(1);
        assert_eq!(due(&mut keeper, almost), []);
        assert_eq!(due(&mut keeper, PATIENCE), [(1, 0)]);
        keeper.weights_set(1, Ok(Weights::both(0)));
        keeper.identified(1, 10, named("web"), true);
        assert_eq!(due(&mut keeper, PATIENCE), [(1, 300)]);
    }

    #[test]
    fn another_process_is_another_vm() {
        let mut keeper = keeper(WEB);
        keeper.listed(START, vec![vm(1, 10, 100)]);
        assert_eq!(keeper.listed(START, vec![vm(1, 11, 100)]), [(1, 11)]);
        // The answer of the first process comes late.
        keeper.identified(1, 10, named("web"), true);
        assert_eq!(due(&mut keeper, PATIENCE), [(1, 0)]);
    }

    /// Manual changes of settings that the file does not change are kept.
    #[test]
    fn a_reload_sets_only_differences() {
        let text = "[memory]\ncapacity = \"1G\"\n[ssd]\ndeadline-ms = 5\n\
                    [[vm]]\nname = \"web\"\nweight = 300\n[[vm]]\nname = \"mail\"\nweight = 50\n";
        let mut keeper = keeper(text);
        keeper.listed(START, vec![vm(1, 10, 300), vm(2, 20, 50)]);
        keeper.identified(1, 10, named("web"), true);
        keeper.identified(2, 20, named("mail"), true);
        assert_eq!(due(&mut keeper, START), []);
        keeper.sizes_set();
        keeper.ssd_set();
        // Both weights were set by hand.
        keeper.listed(START, vec![vm(1, 10, 0), vm(2, 20, 0)]);
        let mut state = |from: &str, to: &str| {
            let config = Config::parse(&text.replace(from, to), 8 << 30).unwrap();
            keeper.reload(config);
            let state = (keeper.sizes_due(), keeper.ssd_due());
            keeper.sizes_set();
            keeper.ssd_set();
            (state, due(&mut keeper, START))
        };
        assert_eq!(state("", ""), ((false, false), vec![]));
        assert_eq!(state("1G", "2G"), ((true, false), vec![]));
        assert_eq!(state("", ""), ((true, false), vec![]));
        assert_eq!(state("= 5\n", "= 6\n"), ((false, true), vec![]));
        assert_eq!(state("= 50", "= 60"), ((false, true), vec![(2, 60)]));
    }

    #[test]
    fn a_reload_and_a_new_module_set_everything_again() {
        let mut keeper = keeper(&format!("{WEB}[memory]\ncapacity = \"1G\"\n"));
        assert!(keeper.sizes_due());
        keeper.sizes_set();
        keeper.listed(START, vec![vm(1, 10, 300)]);
        keeper.identified(1, 10, named("web"), true);
        assert!(due(&mut keeper, START).is_empty() && !keeper.sizes_due());
        let other = WEB.replace("300", "20");
        keeper.reload(Config::parse(&other, 8 << 30).unwrap());
        assert_eq!(due(&mut keeper, START), [(1, 20)]);
        assert!(!keeper.sizes_due(), "it has no sizes");
        keeper.forget();
        assert!(keeper.vms().is_empty());
    }
}
