// SPDX-License-Identifier: GPL-2.0-only

//! Adds the devices of the file to the SSD tier.

use super::Runtime;
use crate::{
    disks::{Disk, Node, Step},
    module::HostAccess,
};
use dddaemon::service::Service;
use ddnl::AsyncHostControl;
use ddvm::ssd;
use std::{io, path::PathBuf};
use tracing::{info, warn};

impl<M: HostAccess, S: Service> Runtime<M, S> {
    /// Compares the devices of the file with those of the module, and adds, removes or sets devices
    /// where they differ. The next call tries again what fails.
    pub(super) async fn look_at_devices(&mut self) -> ddnl::Result<()> {
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        if self.disks.is_empty() {
            return Ok(());
        }
        let devices = control.devices().await?;
        for disk in &mut self.disks {
            let path = self.paths.device(&disk.listed.path);
            let is_it = |other: &str| ssd::is_same(&self.paths.device(other), &path);
            let device = devices.iter().find(|device| is_it(&device.path));
            let before = disk.trouble.clone();
            let node = Node::at(&path);
            let result = match disk.look(node, device) {
                None => Ok(()),
                Some(Step::Add) => self.checks.ask(path).map_err(|error| error.to_string()),
                Some(Step::Remove(id)) => match control.remove_device(id).await {
                    Ok(0) => {
                        disk.removed();
                        self.checks.ask(path).map_err(|error| error.to_string())
                    }
                    // The next look continues to evict its pages.
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                },
                Some(Step::SetBudget(id, pages)) => {
                    match control.set_write_budget(id, pages).await {
                        Ok(()) => {
                            let path = &disk.listed.path;
                            info!(path, pages, "write budget set");
                            // The next look shows this budget, or another one that was set by hand.
                            let device = device.map(|device| {
                                let mut device = device.clone();
                                device.stats.write_budget = pages;
                                device
                            });
                            disk.look(node, device.as_ref());
                            Ok(())
                        }
                        Err(error) => Err(format!("its write budget cannot be set: {error}")),
                    }
                }
            };
            if let Err(trouble) = result {
                disk.trouble = Some(trouble);
            }
            tell(disk, before.as_deref());
        }
        Ok(())
    }

    /// Adds a device if there are no data on it.
    pub(super) async fn examined(&mut self, path: PathBuf, has_data: io::Result<bool>) {
        let Some(control) = &mut self.control else {
            return;
        };
        let is_it = |disk: &&mut Disk| self.paths.device(&disk.listed.path) == path;
        let Some(disk) = self.disks.iter_mut().find(is_it) else {
            return;
        };
        let name = &disk.listed.path;
        let result = match has_data {
            Ok(false) => match control.add_device(name).await {
                Ok(device) => {
                    info!(path = name, device, "device added to the SSD tier");
                    Ok(())
                }
                Err(error) => Err(format!("it cannot be added: {error}")),
            },
            Ok(true) => Err(format!(
                "it contains data; if they are not needed, run `dd if=/dev/zero of={name} bs=1M \
                 count=1`"
            )),
            Err(error) => Err(format!("it cannot be read: {error}")),
        };
        match result {
            Ok(()) => {
                if let Err(error) = self.look_at_devices().await {
                    warn!("{error}");
                }
            }
            Err(trouble) => {
                let before = disk.trouble.replace(trouble);
                tell(disk, before.as_deref());
            }
        }
    }
}

/// Logs why a device is not as the file says, once.
fn tell(disk: &Disk, before: Option<&str>) {
    let trouble = disk.trouble.as_deref();
    if let Some(trouble) = trouble.filter(|_| trouble != before) {
        warn!(path = disk.listed.path, "{trouble}");
    }
}
