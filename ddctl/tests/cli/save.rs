// SPDX-License-Identifier: GPL-2.0-only

//! Tests of settings that are saved: the file, and the daemon that reads it.

use crate::world::World;
use ddnl::fake::{Fault, HostState};
use insta::assert_snapshot;
use rustix::process::getpid;
use std::{
    fs,
    io::Write,
    os::unix::{fs::symlink, net::UnixListener},
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
};

const FILE: &str = "/etc/doubledecker/host.toml";
const SOCKET: &str = "/run/doubledecker/host.sock";

const TEXT: &str = "# Ours.\ndefault = \"deny\" # strict\n\n# The shop.\n[[vm]]\nname = \"web\" # nginx\n\
                    weight = 300 # much\n";

/// Replaces the directory of the test's machine in a text.
fn plain(world: &World, text: &str) -> String {
    let root = world.root.path().canonicalize().unwrap();
    text.replace(&root.display().to_string(), "")
}

fn text(world: &World) -> String {
    fs::read_to_string(world.file_path(FILE)).unwrap()
}

/// A daemon that reads its file when it is asked to, and then sends this report.
fn daemon(world: &World, report: &'static str) -> (JoinHandle<()>, Sender<()>) {
    let socket = world.file_path(SOCKET);
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    let (sender, asked) = channel();
    let hung_up = sender.clone();
    *world.hang_up.borrow_mut() = Box::new(move |pid| {
        assert_eq!(pid, getpid());
        hung_up.send(()).unwrap();
    });
    let daemon = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let first = "{\"loads\": 4, \"refused\": \"an older problem\"}\n";
        stream.write_all(first.repeat(2).as_bytes()).unwrap();
        asked.recv().unwrap();
        stream.write_all(report.as_bytes()).unwrap();
    });
    (daemon, sender)
}

#[test]
fn weights_are_kept_with_comments() {
    let world = World::host();
    world.file(FILE, TEXT);
    let runs = world.runs(&["set-weight web mail 70 --save", "set-weight mail 80"]);
    assert_snapshot!(plain(&world, &runs));
    let mail = "\n[[vm]]\nname = \"mail\"\nweight = 70\n";
    assert_eq!(text(&world), TEXT.replace("300", "70") + mail);
    let weights = world
        .host
        .with(|state| [state.vms[0].weight, state.vms[1].weight]);
    assert_eq!(weights, [70, 80]);
}

/// The hook of libvirt runs before the VM registers.
#[test]
fn weights_of_vms_to_come_are_kept() {
    let world = World::host();
    world.file(FILE, TEXT);
    let runs = world.runs(&[
        "set-weight later 70 --ssd 7 --save --later",
        "set-weight web name:3 70 --save --later --json",
        "set-weight 9 70 --save --later",
        "set-weight id:9 70 --save --later",
        "set-weight later 70 --save",
        "set-weight later 70 --later",
    ]);
    let one = "\n[[vm]]\nname = \"later\"\nweight = 70\nssd-weight = 7\n\n[[vm]]\nname = \"3\"\nweight = 70\n";
    assert_eq!(text(&world), TEXT.replace("300", "70") + one);
    // The module may be loaded later as well.
    world.host.with(|state| state.fault = Fault::Absent);
    let absent = world.run("set-weight later 80 --save --later");
    assert!(text(&world).contains("weight = 80\nssd-weight = 7\n"));
    assert_snapshot!(plain(&world, &[runs, absent].join("\n")));
    let guest = World::guest().run("set-weight nginx 5 --save --later");
    assert!(guest.contains("`--save` works on the host"), "{guest}");
}

/// Users choose names of VMs, but not their cgroups.
#[test]
fn weights_of_a_cgroup_are_not_for_others() {
    let guarded = "[[vm]]\nname = \"web\"\ncgroup = \"/machine.slice\"\nweight = 3\n";
    let world = World::host();
    world.file("/proc/4001/cgroup", "0::/machine.slice/a.scope\n");
    world.file("/proc/4002/cmdline", "qemu\0-name\0web\0");
    world.file(
        "/proc/4002/cgroup",
        "0::/user.slice/user-1000.slice/a.scope\n",
    );
    world.file(FILE, guarded);
    let set = |line: &str| {
        let outcome = world.outcome(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{line}");
        let weights = |state: &mut HostState| [state.vms[0].weight, state.vms[1].weight];
        (text(&world), world.host.with(weights))
    };
    let with = |weight: u32| guarded.replace('3', &weight.to_string());
    let line = "set-weight id:1 9 --save";
    assert_eq!(set(line), (with(9), [9, 40]));
    // The name alone is that of two VMs.
    let line = "set-weight web 8 --save --later --cgroup /machine.slice";
    assert_eq!(set(line), (with(8), [8, 40]));
    let stranger = |pid: u32| {
        let cgroup = "0::/user.slice/user-1000.slice/a.scope\n";
        world.file(&format!("/proc/{pid}/cgroup"), cgroup);
    };
    stranger(4001);
    let line = "set-weight name:web 7 --save --later --cgroup /machine.slice";
    assert_eq!(set(line), (with(7), [8, 40]));
    let gone = world.outcome("set-weight id:1 7 --save --cgroup /machine.slice");
    assert_eq!(gone.code, 5, "{}", gone.err);
    let usage = world.outcome("set-weight id:1 7 --cgroup /machine.slice");
    assert_eq!(usage.code, 2, "{}", usage.err);
}

#[test]
fn sizes_are_kept() {
    let world = World::host();
    let runs = world.runs(&[
        "set-capacity 25% --floor 512MB --save",
        "set-capacity --batch 4M --save --json",
        "set-capacity 1G",
    ]);
    assert_snapshot!(plain(&world, &runs));
    let sizes = "\n[memory]\ncapacity = \"25%\"\nfloor = \"512MiB\"\neviction-batch = \"4MiB\"\n";
    assert!(text(&world).ends_with(sizes), "{}", text(&world));
}

#[test]
fn devices_are_kept() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    world.file("/dev/nvme1n1", "\0data");
    world.file(FILE, TEXT);
    let runs = world.runs(&[
        "ssd add /dev/nvme0n1 --save",
        "ssd add /dev/nvme1n1 --save",
        "ssd add /dev/nvme1n1 --save --force",
        "ssd set 0 --write-budget 0.5dwpd --deadline 50 --wait host --index-memory 2% --save --json",
        "ssd set --deadline 60",
        "set-capacity --keep-free 16M --promote-free 1G --save",
    ]);
    assert_snapshot!(plain(&world, &runs));
    let device = "\n[[ssd.device]]\npath = \"/dev/nvme0n1\"\nwrite-budget = \"0.5dwpd\"\n";
    assert!(text(&world).contains(device), "{}", text(&world));
    world.run("ssd remove 0 --save");
    let wanted = format!(
        "{TEXT}\n[ssd]\nwait = \"host\"\nindex-memory = \"2%\"\ndeadline-ms = 50\n\n[memory]\n\
         keep-free = \"16MiB\"\npromote-free = \"1GiB\"\n"
    );
    assert_eq!(text(&world), wanted);
    assert!(world.host.with(|state| state.devices.is_empty()));
}

/// There is no moment at which the file has the device without its limit, and a device that cannot
/// be limited is not left in the tier.
#[test]
fn a_device_is_added_with_its_write_budget() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    world.file(FILE, "");
    let runs = world.runs(&[
        "ssd add /dev/nvme0n1 --write-budget 1e12dwpd --save",
        "ssd list",
        "ssd add /dev/nvme0n1 --write-budget 20M --save --json",
        "ssd remove 0 --save",
        "ssd add /dev/nvme0n1 --write-budget 0.5dwpd --save",
    ]);
    assert_snapshot!(plain(&world, &runs));
    let entry = "\n[[ssd.device]]\npath = \"/dev/nvme0n1\"\nwrite-budget = \"0.5dwpd\"\n";
    assert_eq!(text(&world), entry);
    let budget = world.host.with(|state| state.devices[0].stats.write_budget);
    // Half of the 2^18 pages of the device, divided by the seconds of a day.
    assert_eq!(budget, 1);
}

/// The file may have another name of the device than the module.
#[test]
fn a_device_has_one_entry_by_all_its_names() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    let link = world.file_path("/dev/disk/by-id/nvme-1");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("../../nvme0n1", link).unwrap();
    world.run("ssd add /dev/disk/by-id/nvme-1 --save");
    let one = "[[ssd.device]]\npath = \"/dev/disk/by-id/nvme-1\"\n";
    assert!(text(&world).ends_with(one), "{}", text(&world));
    world.run("ssd remove 0");
    assert!(text(&world).ends_with(one), "{}", text(&world));
    world.run("ssd add /dev/nvme0n1 --save");
    assert!(text(&world).ends_with(one), "{}", text(&world));
    world.run("ssd remove /dev/nvme0n1 --save");
    assert!(!text(&world).contains("device"), "{}", text(&world));
}

/// If `--save` changed nothing in the file, because the device was not listed there, the message
/// does not say that it did.
#[test]
fn a_device_that_is_removed_may_be_listed_or_not() {
    let world = World::host();
    let removed = "Removed /dev/nvme0n1 from the SSD tier\n";
    for (file, line, more) in [
        ("", "ssd remove 0", ""),
        (
            "",
            "ssd remove 0 --save",
            "/etc/doubledecker/host.toml does not list it, and is not changed\n",
        ),
        (
            "[[ssd.device]]\npath = \"/dev/nvme0n1\"\n",
            "ssd remove 0",
            "ddhostd adds it again when it restarts, because /etc/doubledecker/host.toml lists \
             it; `--save` removes it there as well\n",
        ),
    ] {
        world.file("/dev/nvme0n1", "");
        world.run("ssd add /dev/nvme0n1");
        world.file(FILE, file);
        let outcome = world.outcome(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
        assert_eq!(outcome.out, format!("{removed}{more}"));
        assert_eq!(text(&world), file);
        world.host.with(|state| state.devices.clear());
    }
}

/// A daemon that was started by hand may read another file.
#[test]
fn a_daemon_with_another_file_is_not_asked() {
    let world = World::host();
    world.file(FILE, TEXT);
    let socket = world.file_path(SOCKET);
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    let daemon = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let report = "{\"loads\": 4, \"refused\": null, \"file\": \"/srv/host.toml\"}\n";
        stream.write_all(report.as_bytes()).unwrap();
    });
    let outcome = world.outcome("set-weight web 70 --save");
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    let end = "host.toml, but ddhostd was started with /srv/host.toml\n";
    assert!(outcome.out.ends_with(end), "{}", outcome.out);
    daemon.join().unwrap();
}

#[test]
fn the_daemon_reads_saved_weights() {
    let world = World::host();
    world.file(FILE, TEXT);
    let (daemon, _) = daemon(&world, "{\"loads\": 5, \"refused\": null}\n");
    let outcome = world.outcome("set-weight web 70 --save");
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert!(
        outcome.out.contains("which ddhostd has read\n"),
        "{}",
        outcome.out
    );
    daemon.join().unwrap();
}

#[test]
fn a_daemon_that_refuses_or_ends_is_reported() {
    for (report, message) in [
        (
            "{\"loads\": 5, \"refused\": \"no memory\"}\n",
            "Error: the file is saved, but ddhostd refuses it: no memory\n",
        ),
        (
            "",
            "Error: the file is saved, but ddhostd does not answer: ",
        ),
    ] {
        let world = World::host();
        world.file(FILE, TEXT);
        let (daemon, _) = daemon(&world, report);
        let outcome = world.outcome("set-weight web 70 --save");
        assert_eq!(outcome.code, 1);
        assert!(outcome.err.starts_with(message), "{}", outcome.err);
        assert!(outcome.out.contains("is now 70"), "{}", outcome.out);
        assert_eq!(text(&world), TEXT.replace("300", "70"));
        daemon.join().unwrap();
    }
}

/// Neither the file nor a weight is changed.
#[test]
fn weights_that_cannot_be_saved_are_not_set() {
    let world = World::host();
    world.file(FILE, "wieght = 1\n");
    let broken = world.run("set-weight web 5 --save");
    world.file(FILE, TEXT);
    let nameless = world.run("set-weight web vm3 5 --save");
    let guest = World::guest().run("set-weight nginx 5 --save");
    let floor = "[memory]\nfloor = \"2G\"\n";
    world.file(FILE, floor);
    let low = world.run("set-capacity 512M --save");
    let all = [broken, nameless, guest, low].join("\n");
    assert_snapshot!(plain(&world, &all));
    assert_eq!(text(&world), floor);
    assert_eq!(world.host.with(|state| state.status.capacity), 1 << 18);
    assert_eq!(world.host.with(|state| state.vms[0].weight), 60);
}
