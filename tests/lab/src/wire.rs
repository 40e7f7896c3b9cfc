// SPDX-License-Identifier: GPL-2.0-only

//! The connection between the hosts of two labs: a serial port of each.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::machine::Machine;

/// Name of the port in both.
const NAME: &str = "dd.wire";

/// Returns the emulator's arguments. The host that boots first listens in its directory `work`; a
/// host that boots beside another one connects to that one's.
pub(crate) fn arguments(work: &Path, beside: Option<&Path>) -> [String; 4] {
    let socket = beside.unwrap_or(work).join("wire");
    let role = match beside {
        Some(_) => "server=off",
        None => "server=on,wait=off",
    };
    [
        "-chardev".to_owned(),
        format!("socket,id=wire,path={},{role}", socket.display()),
        "-device".to_owned(),
        format!("virtserialport,chardev=wire,name={NAME}"),
    ]
}

/// Returns the device in a machine.
pub(crate) fn device(machine: &Machine) -> Result<String> {
    let find = format!("grep -lx {NAME} /sys/class/virtio-ports/*/name");
    let found = machine.shell(find).context("the lab is not wired")?;
    let port = Path::new(found.trim()).parent().and_then(Path::file_name);
    let port = port.with_context(|| format!("{found:?} is not the path of a port"))?;
    Ok(format!("/dev/{}", port.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_meet() {
        let ends = [None, Some(Path::new("/first"))];
        let [first, second] = ends.map(|beside| {
            let work = if beside.is_none() {
                "/first"
            } else {
                "/second"
            };
            arguments(Path::new(work), beside)[1].clone()
        });
        assert_eq!(first, "socket,id=wire,path=/first/wire,server=on,wait=off");
        assert_eq!(second, "socket,id=wire,path=/first/wire,server=off");
    }
}
