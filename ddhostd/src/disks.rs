// SPDX-License-Identifier: GPL-2.0-only

//! Decides which devices of the file are added to the SSD tier, and when.
//!
//! A device is added once after each of these: the module was loaded, the file lists it, or the
//! device appears. In between, the administrator may change the tier, for example by `ddctl ssd
//! remove`.

use ddabi::ssd::DeviceState;
use ddnl::{Device, reply::device_state_word};
use ddvm::{Config, ssd::Listed};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// A device of the file.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its entry.
    pub listed: Listed,
    state: State,
    /// The node at its path at the last look.
    node: Option<Node>,
    /// Whether the module has a device that was at this path earlier: it disappeared, and the one
    /// that is there now is another one or was plugged in again.
    is_lost: bool,
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
}

/// What distinguishes a device from others that are at the same path at other times: the kernel
/// makes another node when a device is plugged in again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Node {
    inode: u64,
    device: u64,
}

impl Node {
    /// Returns the node that a path leads to, if there is one.
    pub fn at(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            device: metadata.rdev(),
        })
    }
}

/// The next step for a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Add it, if there are no data on it.
    Add,
    /// Remove the device of this number, which the module has kept since before the device
    /// disappeared, or continue to remove it.
    Remove(u32),
    /// Set the write budget of the device of this number, in pages a second.
    SetBudget(u32, u64),
}

/// Returns the devices of a configuration. Of those that are listed as before, `before` has the
/// progress.
pub fn all(config: &Config, before: Vec<Disk>) -> Vec<Disk> {
    let disk = |listed: &Listed| {
        let budget = listed.write_budget;
        let is_same =
            |disk: &&Disk| disk.listed.path == listed.path && disk.listed.write_budget == budget;
        match before.iter().find(is_same) {
            Some(disk) => Disk {
                listed: listed.clone(),
                ..disk.clone()
            },
            None => Disk::new(listed.clone()),
        }
    };
    config.ssd.devices.iter().map(disk).collect()
}

impl Disk {
    /// Creates the state of a device that has to be added.
    pub fn new(listed: Listed) -> Self {
        Self {
            listed,
            state: State::Due,
            node: None,
            is_lost: false,
            word: None,
            trouble: None,
        }
    }

    /// Forgets what was done, because the module was loaded again.
    pub fn begin(&mut self) {
        *self = Self::new(self.listed.clone());
    }

    /// Notes the node at the device's path, and its state in the module if the module has it.
    /// Returns the next step, or `None` if there is nothing to do.
    pub fn look(&mut self, node: Option<Node>, device: Option<&Device>) -> Option<Step> {
        self.word = device.map(|device| device_state_word(device.state));
        let before = std::mem::replace(&mut self.node, node);
        if node.is_none() || before.is_some_and(|before| node != Some(before)) {
            self.is_lost = true;
            self.state = State::Due;
        }
        if node.is_none() {
            self.trouble = Some("it does not exist".into());
            return None;
        }
        let Some(device) = device else {
            self.is_lost = false;
            if self.state == State::Due {
                return Some(Step::Add);
            }
            self.trouble = None;
            return None;
        };
        match (self.state, device.state) {
            // The module's device is unusable, and a new device is at its path.
            (_, DeviceState::Failed | DeviceState::Leaving) if self.is_lost => {
                self.state = State::Due;
                return Some(Step::Remove(device.id));
            }
            (_, DeviceState::Failed) => self.trouble = Some("it has failed".into()),
            (State::Settled, _) => self.trouble = None,
            // The removal is repeated until the device has no pages left.
            (State::Due, DeviceState::Leaving) => return Some(Step::Remove(device.id)),
            (State::Due, _) => {
                let rate = self.listed.write_budget;
                let pages = rate.map(|rate| rate.pages(device.stats.places));
                if let Some(pages) = pages.filter(|pages| *pages != device.stats.write_budget) {
                    return Some(Step::SetBudget(device.id, pages));
                }
                self.state = State::Settled;
                self.trouble = None;
            }
        }
        None
    }

    /// Notes that the module has removed the device.
    pub fn removed(&mut self) {
        self.is_lost = false;
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

    const NODE: Option<Node> = Some(Node {
        inode: 1,
        device: 2,
    });
    /// The node after the device was plugged in again.
    const OTHER: Option<Node> = Some(Node {
        inode: 3,
        device: 2,
    });

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
        assert_eq!(disk.look(NODE, None), Some(Step::Add));
        // A step that failed is tried again.
        assert_eq!(disk.look(NODE, None), Some(Step::Add));
        let active = device(DeviceState::Active, 7);
        assert_eq!(disk.look(NODE, Some(&active)), None);
        assert_eq!(disk.word, Some("active"));
        // An administrator has removed the device.
        assert_eq!(disk.look(NODE, None), None);
        assert_eq!((disk.word, &disk.trouble), (None, &None));
        disk.begin();
        assert_eq!(disk.look(NODE, None), Some(Step::Add));
    }

    #[test]
    fn its_budget_is_set_once() {
        let mut disk = disk(Some("1dwpd"));
        let unlimited = device(DeviceState::Active, 0);
        let step = disk.look(NODE, Some(&unlimited));
        assert_eq!(step, Some(Step::SetBudget(3, 3106)));
        assert_eq!(
            disk.look(NODE, Some(&device(DeviceState::Active, 3106))),
            None
        );
        // The budget was set by hand.
        assert_eq!(disk.look(NODE, Some(&unlimited)), None);
    }

    #[test]
    fn a_device_that_reappears_is_added_again() {
        let mut disk = disk(None);
        assert_eq!(disk.look(None, None), None);
        assert_eq!(disk.trouble.as_deref(), Some("it does not exist"));
        let active = device(DeviceState::Active, 0);
        assert_eq!(disk.look(NODE, Some(&active)), None);
        let failed = device(DeviceState::Failed, 0);
        assert_eq!(disk.look(None, Some(&failed)), None);
        assert_eq!(disk.look(NODE, Some(&failed)), Some(Step::Remove(3)));
        let leaving = device(DeviceState::Leaving, 0);
        // The removal is repeated until no page is left.
        assert_eq!(disk.look(NODE, Some(&leaving)), Some(Step::Remove(3)));
        assert_eq!(disk.look(NODE, None), Some(Step::Add));
        assert_eq!(disk.look(NODE, Some(&active)), None);
        assert_eq!(disk.trouble, None);
    }

    /// The daemon was started while the device was unplugged.
    #[test]
    fn a_device_that_was_absent_at_the_start_is_added_again() {
        let mut disk = disk(None);
        let failed = device(DeviceState::Failed, 0);
        assert_eq!(disk.look(None, Some(&failed)), None);
        assert_eq!(disk.look(NODE, Some(&failed)), Some(Step::Remove(3)));
        disk.removed();
        // The device fails again and is still at its path.
        assert_eq!(disk.look(NODE, Some(&failed)), None);
        assert_eq!(disk.trouble.as_deref(), Some("it has failed"));
    }

    /// The daemon was started again while it removed a device.
    #[test]
    fn a_removal_that_was_interrupted_is_completed() {
        let mut disk = disk(None);
        let leaving = device(DeviceState::Leaving, 0);
        assert_eq!(disk.look(NODE, Some(&leaving)), Some(Step::Remove(3)));
        assert_eq!(disk.look(NODE, None), Some(Step::Add));
    }

    #[test]
    fn a_device_that_is_removed_by_hand_is_left_alone() {
        let mut disk = disk(None);
        assert_eq!(disk.look(NODE, Some(&device(DeviceState::Active, 0))), None);
        assert_eq!(
            disk.look(NODE, Some(&device(DeviceState::Leaving, 0))),
            None
        );
        assert_eq!(disk.look(NODE, None), None);
    }

    /// The device was plugged in again between two looks.
    #[test]
    fn a_device_that_was_replaced_unseen_is_added_again() {
        let mut disk = disk(None);
        let [active, suspect, failed] = [
            DeviceState::Active,
            DeviceState::Suspect,
            DeviceState::Failed,
        ]
        .map(|state| device(state, 0));
        assert_eq!(disk.look(NODE, Some(&active)), None);
        // The module has not noticed the replacement yet.
        assert_eq!(disk.look(OTHER, Some(&active)), None);
        assert_eq!(disk.look(OTHER, Some(&suspect)), None);
        assert_eq!(disk.look(OTHER, Some(&failed)), Some(Step::Remove(3)));
        assert_eq!(disk.look(OTHER, None), Some(Step::Add));
        assert_eq!(disk.look(OTHER, Some(&active)), None);
        assert_eq!(disk.look(OTHER, Some(&failed)), None);
    }

    #[test]
    fn a_node_is_another_one_when_it_is_made_again() {
        let directory = tempfile::TempDir::new().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
        assert!(Node::at(&one).is_some() && Node::at(&one) == Node::at(&one));
        assert_ne!(Node::at(&one), Node::at(&other));
        assert_eq!(Node::at(&directory.path().join("none")), None);
    }

    #[test]
    fn a_reload_keeps_unchanged_devices() {
        let config = |text: &str| Config::parse(text, 8 << 30).unwrap();
        let text = "[[ssd.device]]\npath = \"/dev/mapper/a\"\n";
        let mut disks = all(&config(text), Vec::new());
        assert_eq!(
            disks[0].look(NODE, Some(&device(DeviceState::Active, 0))),
            None
        );
        // It was removed by hand. The entry is in another line now.
        let mut disks = all(&config(&format!("\n{text}")), disks);
        assert_eq!((disks[0].look(NODE, None), disks[0].listed.line), (None, 2));
        let more = format!(
            "{text}write-budget = \"none\"\n{}",
            text.replace("a\"", "b\"")
        );
        let mut disks = all(&config(&more), disks);
        assert_eq!(disks[0].look(NODE, None), Some(Step::Add));
        assert_eq!(disks[1].look(NODE, None), Some(Step::Add));
    }

    /// A device that has failed is not added again while it exists, because it would fail again.
    #[test]
    fn a_device_that_failed_where_it_is_stays_so() {
        for is_settled in [false, true] {
            let mut disk = disk(None);
            if is_settled {
                disk.look(NODE, Some(&device(DeviceState::Active, 0)));
            }
            assert_eq!(disk.look(NODE, Some(&device(DeviceState::Failed, 0))), None);
            assert_eq!(disk.trouble.as_deref(), Some("it has failed"));
        }
    }
}
