// SPDX-License-Identifier: GPL-2.0-only

//! Reads and writes of containers, with the reclaim that they cause.

use super::Machine;
use super::container::page_of;
use crate::host::TierKind;
use crate::page::Page;
use crate::pagecache::Reclaimed;
use crate::parameters::{COPY, GET, PUT, UNIT};
use crate::workload::{ANONYMOUS, Step};
use ddcore::policy::{PageName, Policy, Pressure, Verdict};

impl Machine {
    /// Reads units of a file and returns the time at which the thread has them.
    pub(super) fn read(
        &mut self,
        now: u64,
        (container, thread): (usize, usize),
        (file, first, units): (u32, u32, u32),
    ) -> u64 {
        let mut time = 0;
        let mut done = now;
        for index in first..first + units {
            let running = &mut self.containers[container];
            let page = page_of(running.pool, file, index);
            time += COPY;
            if running.cache.access(page, false) {
                continue;
            }
            running.work.missed_units += 1;
            let anonymous = page.is_anonymous();
            let found = match anonymous {
                true => None,
                false => {
                    let found = self.host.get(running.pool.vm, page);
                    self.ssd.follow(now, self.host.ssd_traffic());
                    found
                }
            };
            let hit = found.is_some();
            if !anonymous {
                let name = PageName::of(&page.key());
                running.admission.missed(&name, hit);
                if let Some(curve) = &mut running.curve {
                    curve.read(name.page);
                }
            }
            if let Some(tier) = found {
                time += GET;
                if tier == TierKind::Ssd {
                    // The vCPU is stopped until the device has read the unit.
                    running.work.ssd_units += 1;
                    time = self.ssd.read(now, now + time) - now;
                }
            } else if anonymous && running.swapped.remove(&page).is_none() {
                // A page that was never touched before is zeroed instead of being read.
            } else {
                running.work.disk_units += 1;
                done = match running.recovery {
                    Some(time) => done + time,
                    None => self.disk.read(done, running.pool.vm, page),
                };
            }
            time += self.admit(now, container, page, anonymous);
        }
        let running = &mut self.containers[container];
        running.work.bytes += u64::from(units) * UNIT;
        if running.recovery.is_some() && done > now {
            // A long computation is split, because other threads are scheduled on the processor in
            // between.
            running.threads[thread].steps.push_front(Step::Work(time));
            return done;
        }
        running.compute(done, time)
    }

    /// Writes units of a file and returns the time at which the thread may continue.
    pub(super) fn write(
        &mut self,
        now: u64,
        container: usize,
        (file, first, units): (u32, u32, u32),
    ) -> u64 {
        if file & ANONYMOUS != 0 {
            // A write to anonymous memory is handled like a read: the page may have to be swapped
            // in, and it is written to swap when it is reclaimed.
            return self.read(now, (container, 0), (file, first, units));
        }
        let mut time = 0;
        for index in first..first + units {
            let running = &mut self.containers[container];
            let page = page_of(running.pool, file, index);
            time += COPY;
            if !running.cache.access(page, false) {
                self.host.flush(running.pool.vm, page);
                if let Some(curve) = &mut running.curve {
                    curve.gone(PageName::of(&page.key()).page);
                }
                time += self.admit(now, container, page, false);
            }
        }
        // Pages are clean as soon as they are written, because their disk time is charged
        // immediately; the writer waits if too much is queued.
        let running = &self.containers[container];
        let page = page_of(running.pool, file, first);
        let wait = self
            .disk
            .write(now, running.pool.vm, page, u64::from(units));
        let running = &mut self.containers[container];
        running.work.bytes += u64::from(units) * UNIT;
        running.compute(wait, time)
    }

    /// Adds a page to a page cache and reclaims pages to make room for it.
    fn admit(&mut self, now: u64, container: usize, page: Page, dirty: bool) -> u64 {
        let mut time = 0;
        self.containers[container].cache.insert(page, dirty);
        while let Some(reclaimed) = self.containers[container].cache.reclaim() {
            time += self.evict(now, container, reclaimed);
        }
        while let Some((victim, reclaimed)) = self.reclaim_shared() {
            time += self.evict(now, victim, reclaimed);
        }
        time
    }

    /// Writes a reclaimed page to disk, or puts it to the host.
    pub(super) fn evict(&mut self, now: u64, container: usize, reclaimed: Reclaimed) -> u64 {
        let running = &mut self.containers[container];
        if reclaimed.dirty {
            self.disk.write(now, running.pool.vm, reclaimed.page, 1);
        }
        if reclaimed.page.is_anonymous() {
            running.swapped.insert(reclaimed.page, ());
        }
        if reclaimed.dirty {
            return 0;
        }
        let name = PageName::of(&reclaimed.page.key());
        if let Some(curve) = &mut running.curve {
            curve.left(name.page);
        }
        let pressure = match running.admission.policy() {
            // A policy that admits all pages does not need the pressure, which is slow to compute.
            Policy::Fifo => Pressure::default(),
            _ => self.host.pressure(running.pool),
        };
        let verdict = running
            .admission
            .offered(&name, reclaimed.workingset, &pressure);
        let Verdict::Put(class) = verdict else {
            return 0;
        };
        let stored = self.host.store(running.pool, reclaimed.page, class);
        let wait = self.ssd.follow(now, self.host.ssd_traffic());
        match stored {
            None => 0,
            Some(TierKind::Memory) => PUT,
            Some(TierKind::Ssd) => PUT + wait,
        }
    }
}
