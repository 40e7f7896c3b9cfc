// SPDX-License-Identifier: GPL-2.0-only

//! Decides which devices of the file are added to the SSD tier, and when.
//!
//! A device is added once: when the module comes, when the file was read, and when the device
//! appears. In between, the administrator may change the tier, for example by `ddctl ssd remove`.

use ddabi::ssd::DeviceState;
use ddnl::{Device, reply::device_state_word};
use ddvm::ssd::Listed;

/// A device of the file.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its entry.
    pub listed: Listed,
    state: State,
    /// The module's word for its state; absent while the module does not have it.
    pub word: Option<&'static str>,
    /// The reason why it is not as the file says.
    pub trouble: Option<String>,
}

/// Progress of the daemon with a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The daemon has to add it and to set its budget.
    Due,
    /// The daemon has done that, and leaves the device to the administrator since.
    Settled,
    /// The daemon had done that, and the device disappeared afterwards.
    Gone,
}

/// The next step for a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Add it, if there are no data on it.
    Add,
    /// Remove the device of this number, which the module has kept since before the device
    /// disappeared.
    Remove(u32),
    /// Set the write budget of the device of this number, in pages a second.
    SetBudget(u32, u64),
}

impl Disk {
    /// Creates the state of a device that has to be added.
    pub fn new(listed: Listed) -> Self {
        Self {
            listed,
            state: State::Due,
            word: None,
            trouble: None,
        }
    }

    /// Begins anew, because the module was loaded again, or the file was read again.
    pub fn begin(&mut self) {
        self.state = State::Due;
        self.word = None;
        self.trouble = None;
    }

    /// Notes whether the device exists, and its state in the module if the module has it. Returns
    /// the next step, or `None` if there is nothing to do.
    pub fn look(&mut self, is_there: bool, device: Option<&Device>) -> Option<Step> {
        self.word = device.map(|device| device_state_word(device.state));
        if !is_there {
            if self.state == State::Settled {
                self.state = State::Gone;
            }
            self.trouble = Some("it does not exist".into());
            return None;
        }
        let state = device.map(|device| device.state);
        match (self.state, device) {
            (State::Gone, Some(device)) if state == Some(DeviceState::Failed) => {
                return Some(Step::Remove(device.id));
            }
            (_, Some(_)) if state == Some(DeviceState::Failed) => {
                self.trouble = Some("it has failed".into());
            }
            (State::Settled, _) => self.trouble = None,
            (_, Some(_)) if state == Some(DeviceState::Leaving) => {
                self.trouble = Some("it is being removed".into());
            }
            (_, Some(device)) => {
                let rate = self.listed.write_budget;
                let pages = rate.map(|rate| rate.pages(device.stats.places));
                if let Some(pages) = pages.filter(|pages| *pages != device.stats.write_budget) {
                    return Some(Step::SetBudget(device.id, pages));
                }
                self.state = State::Settled;
                self.trouble = None;
            }
            (_, None) => return Some(Step::Add),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::ssd::SsdStats;

    fn disk(budget: Option<&str>) -> Disk {
        Disk::new(Listed {
            line: 1,
            path: "/dev/mapper/cache".into(),
            write_budget: budget.map(|budget| budget.parse().unwrap()),
        })
    }

    fn device(state: DeviceState, write_budget: u64) -> Device {
        Device {
            id: 3,
            path: "/dev/mapper/cache".into(),
            state,
            stats: SsdStats {
                places: 1 << 28,
                write_budget,
                ..SsdStats::default()
            },
        }
    }

    #[test]
    fn a_device_is_added_once() {
        let mut disk = disk(None);
        assert_eq!(disk.look(true, None), Some(Step::Add));
        // A step that failed is tried again.
        assert_eq!(disk.look(true, None), Some(Step::Add));
        let active = device(DeviceState::Active, 7);
        assert_eq!(disk.look(true, Some(&active)), None);
        assert_eq!(disk.word, Some("active"));
        // It was removed by hand.
        assert_eq!(disk.look(true, None), None);
        assert_eq!((disk.word, &disk.trouble), (None, &None));
        disk.begin();
        assert_eq!(disk.look(true, None), Some(Step::Add));
    }

    #[test]
    fn its_budget_is_set_once() {
        let mut disk = disk(Some("1dwpd"));
        let unlimited = device(DeviceState::Active, 0);
        let step = disk.look(true, Some(&unlimited));
        assert_eq!(step, Some(Step::SetBudget(3, 3106)));
        assert_eq!(
            disk.look(true, Some(&device(DeviceState::Active, 3106))),
            None
        );
        // The budget was set by hand.
        assert_eq!(disk.look(true, Some(&unlimited)), None);
    }

    #[test]
    fn a_device_that_comes_again_is_added_again() {
        let mut disk = disk(None);
        assert_eq!(disk.look(false, None), None);
        assert_eq!(disk.trouble.as_deref(), Some("it does not exist"));
        let active = device(DeviceState::Active, 0);
        assert_eq!(disk.look(true, Some(&active)), None);
        let failed = device(DeviceState::Failed, 0);
        assert_eq!(disk.look(false, Some(&failed)), None);
        assert_eq!(disk.look(true, Some(&failed)), Some(Step::Remove(3)));
        let leaving = device(DeviceState::Leaving, 0);
        assert_eq!(disk.look(true, Some(&leaving)), None);
        assert_eq!(disk.look(true, None), Some(Step::Add));
        assert_eq!(disk.look(true, Some(&active)), None);
        assert_eq!(disk.trouble, None);
    }

    /// A device that has failed is not added again while it exists, because it would fail again.
    #[test]
    fn a_device_that_failed_where_it_is_stays_so() {
        for is_settled in [false, true] {
            let mut disk = disk(None);
            if is_settled {
                disk.look(true, Some(&device(DeviceState::Active, 0)));
            }
            assert_eq!(disk.look(true, Some(&device(DeviceState::Failed, 0))), None);
            assert_eq!(disk.trouble.as_deref(), Some("it has failed"));
        }
    }
}
