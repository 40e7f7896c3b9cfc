// SPDX-License-Identifier: GPL-2.0-only

//! The engine's report on containers.

use super::{Engine, Explanation, MemoryReport, Report, matches::Match, quantity::Pages, report};
use crate::config::{Amount, StoreName};
use ddabi::pool::PoolStats;
use ddnl::Pool;

impl Engine {
    /// Returns the report.
    pub fn report(&self) -> Report {
        let pools = self.module.pools(&self.cgroups);
        let machine = self.knobs.shortage.machine().copied().unwrap_or_default();
        let explain = |(cgroup, matched): (&String, &Match)| {
            let pool = pools.get(cgroup.as_str()).copied();
            self.explain(cgroup, matched, pool)
        };
        Report {
            module: self.module.is_present(),
            trouble: self.trouble.clone(),
            not_open: Vec::new(),
            store_bytes: self.controller.pages().map(Pages::bytes),
            floors_bytes: self.floors(),
            feasible: self.controller.feasible(),
            memory: MemoryReport {
                total_bytes: machine.total,
                available_bytes: machine.available,
                pressure_percent: self.knobs.shortage.pressure(),
                reclaimed_bytes: self.knobs.reclaimer.reclaimed,
                offloaded_bytes: self.knobs.reclaimer.offloaded,
            },
            containers: self.matches.iter().map(explain).collect(),
        }
    }

    /// Returns the sum of the floors of the containers that exist, if there are any and the share
    /// of the VM is known. A floor in bytes can be above the share.
    fn floors(&self) -> Option<u64> {
        let whole = self.controller.pages()?.bytes();
        let matches = self.matches.values();
        let floors = matches.filter_map(|it| self.config.containers[it.container].cache_floor);
        let bytes = floors.map(|floor| match floor {
            Amount::Bytes(bytes) => bytes,
            Amount::Part(_) => (floor.part_of(whole) * whole as f64) as u64,
        });
        bytes.reduce(u64::saturating_add)
    }

    /// Returns the explanation of a container's shares and limits.
    fn explain(&self, cgroup: &str, matched: &Match, pool: Option<&Pool>) -> Explanation {
        let container = &self.config.containers[matched.container];
        let member = self.controller.member(cgroup);
        let ruling = self.controller.ruling(cgroup);
        let stats = pool.and_then(|pool| pool.stats);
        let bytes =
            |pages: fn(&PoolStats) -> u64| Some(Pages(pages(stats.as_ref()?) as f64).bytes());
        let on_ssd = container.store.has_ssd();
        let controlled = self.config.is_controlled();
        let ssd = Some(&self.controller.ssd).filter(|_| controlled);
        let chosen = ssd.and_then(|ssd| ssd.weight(cgroup));
        let finding = ssd.and_then(|ssd| ssd.finding(cgroup));
        let goals = member
            .map(|member| member.goals.clone())
            .unwrap_or_default();
        let verdict = self.controller.verdict(cgroup, container);
        let has = ruling.map_or(Pages::ZERO, |ruling| ruling.has);
        let need = ruling.and_then(|ruling| ruling.need);
        let reading = member.map(|member| &member.reading);
        let limiter = &self.knobs.limiter;
        Explanation {
            cgroup: cgroup.into(),
            name: matched.name.clone(),
            class: container.rank().to_string(),
            enrolled: pool.is_some(),
            verdict,
            reason: report::reason(container, verdict, &goals, has, need),
            store: StoreName(container.store),
            weight: self.weight(cgroup).unwrap_or(matched.weight),
            share_bytes: bytes(|stats| stats.entitlement),
            used_bytes: bytes(PoolStats::memory_used),
            ssd_weight: matched.ssd_weight.map(|weight| chosen.unwrap_or(weight)),
            ssd_reason: finding.map(ToString::to_string),
            ssd_share_bytes: bytes(|stats| stats.ssd_entitlement).filter(|_| on_ssd),
            ssd_used_bytes: bytes(|stats| stats.ssd_used).filter(|_| on_ssd),
            need_bytes: need.map(Pages::bytes),
            character: member.map(|member| member.character()).unwrap_or_default(),
            goals,
            memory_bytes: reading.map_or(0, |reading| reading.current),
            anon_bytes: reading.map_or(0, |reading| reading.anon),
            manage_memory: container.manage_memory,
            limits: limiter.limits(cgroup),
            foreign_limits: limiter.foreign(cgroup),
            unprotected: limiter.unprotected(cgroup).cloned(),
        }
    }

    /// Returns the weight of a container or, for an empty path, of the default pool, if the file
    /// does not decide it.
    fn weight(&self, cgroup: &str) -> Option<u32> {
        self.controller
            .weight(cgroup)
            .filter(|_| self.config.is_controlled())
    }
}
