// SPDX-License-Identifier: GPL-2.0-only

//! A kernel or module that was restarted gets no old page (invariants 10 to 12): the guest module,
//! the host module, the whole guest, its kernel by kexec or after a crash, a guest under migration.

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, FileSpec, Guest, GuestConfig, ReadSpec, Scenario, Target, Throttle, wait,
};
use serde_json::json;

use crate::{
    accounting, ddctl,
    memory::Memory,
    stage::{self, GUEST, HOST, Stage, attached, pages},
    vmm::Vmm,
};

/// Changes a file each time while a kernel or module is absent.
pub(crate) const REBOOT: Scenario = Scenario {
    name: "reboot",
    about: "no old page is read after reloads of modules, a reset, kexec, a crash, or migration",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 64;
const LEN: u64 = 24 << 20;
/// The guest's memory, and the part that is reserved for the crash kernel. Kernels with checks are
/// large.
const MEMORY_MIB: u64 = 1024;
const CRASH_MIB: u64 = 320;
/// The cgroup that reads.
const READER: &str = "reader";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console(Guest::LAST_WORDS);
    let versions: Vec<FileSpec> = (1..=6)
        .map(|seed| FileSpec::new(format!("v{seed}"), LEN, seed))
        .collect();
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let disk = stage.disk("data", versions.clone())?;
    let config = GuestConfig::new("one")
        .memory_mib(MEMORY_MIB)
        .disk(&disk, Throttle::NONE);
    let guest = stage.guest(&config.kernel_arg(format!("crashkernel={CRASH_MIB}M")))?;
    guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    guest.cgroup(READER, &[("memory.max", "10M")])?;
    let file = File {
        stage: &stage,
        guest: &guest,
        versions: &versions,
    };

    file.replace(0)?;
    file.cache(0)?;
    guest.unload_module(GUEST)?;
    file.replace(1)?;
    stage::attach(&guest)?;
    file.check(1)
        .context("after the guest module was reloaded")?;

    file.cache(1)?;
    stage.host().unload_module(HOST)?;
    file.replace(2)?;
    file.check(2).context("without the host module")?;
    // Otherwise the guest could keep its old session until the next host module is loaded.
    stage::alone(&guest)?;
    stage.load_host(CAPACITY_MIB)?;
    attached(&guest)?;
    file.check(2)
        .context("after the host module was reloaded")?;

    file.cache(2)?;
    let vmm = Vmm::new(stage.host(), &guest);
    let after_reset = file.reboot(3, || {
        let action = json!({"reboot": "reset"});
        vmm.ask(&json!({"execute": "set-action", "arguments": action}))?;
        vmm.ask(&json!({"execute": "system_reset"})).map(drop)
    });
    let after_reset = after_reset.context("the guest was reset")?;

    file.cache(3)?;
    let mut started = None;
    let after_kexec = file.reboot(4, || {
        let load = "ddhelper kexec-load /opt/dd/boot/vmlinuz /opt/dd/boot/initrd";
        guest.shell(load)?;
        let start = Command::new(["ddhelper", "kexec-start"]);
        started = Some(guest.spawn(&start)?);
        Ok(())
    });
    let after_kexec = after_kexec.context("the guest started another kernel")?;

    file.cache(4)?;
    let given = migrate(&vmm, &file)?;

    file.cache(4)?;
    guest.shell("ddhelper kexec-load --on-crash /opt/dd/boot/vmlinuz /opt/dd/boot/initrd")?;
    let after_crash = file.reboot(5, || guest.crash());
    let after_crash = after_crash.context("the guest's kernel crashed")?;
    let total = Memory::now(&guest)?.kib("MemTotal")?;
    ensure!(
        total < CRASH_MIB << 10,
        "a crash kernel with {total} KiB of memory"
    );

    file.cache(5)?;
    accounting::check(stage.host())?;
    Ok(vec![
        Target::none(
            "reboot: old pages returned to the guest after a reset, kexec and a crash",
            after_reset + after_kexec + after_crash,
        ),
        Target::none(
            "reboot: pages written into a guest whose memory is being migrated",
            given,
        ),
    ])
}

/// Starts to migrate the guest, which reads its file during that time, and cancels the migration.
/// Returns the pages that came from the host nevertheless.
fn migrate(vmm: &Vmm<'_>, file: &File<'_>) -> Result<u64> {
    let guest = file.guest;
    let slow = json!({"max-bandwidth": 1 << 20});
    vmm.ask(&json!({"execute": "migrate-set-parameters", "arguments": slow}))?;
    vmm.ask(&json!({"execute": "migrate", "arguments": {"uri": "exec:cat > /dev/null"}}))?;
    wait::until("the migration is under way", || {
        let answer = vmm.ask(&json!({"execute": "query-migrate"}))?;
        Ok((answer["status"] == "active").then_some(()))
    })?;
    let before = ddctl::counters(guest)?;
    file.check(4)?;
    let after = ddctl::counters(guest)?;
    ensure!(
        after.get_asked > before.get_asked,
        "no page was requested from the host"
    );
    vmm.ask(&json!({"execute": "migrate_cancel"}))?;
    wait::until("the migration has ended", || {
        let answer = vmm.ask(&json!({"execute": "query-migrate"}))?;
        Ok((answer["status"] == "cancelled").then_some(()))
    })?;
    Ok(after.get_hits - before.get_hits)
}

/// A file whose content changes between versions that are known outside of the guest.
struct File<'a> {
    stage: &'a Stage<'a>,
    guest: &'a Guest,
    versions: &'a [FileSpec],
}

impl File<'_> {
    /// Writes the content of another version in place, and removes it from the page cache, where it
    /// would be charged to the writer's cgroup.
    fn replace(&self, version: usize) -> Result<()> {
        let source = &self.versions[version].path;
        let copy = format!("dd if=/mnt/{source} of=/mnt/file bs=1M conv=notrunc,fsync status=none");
        self.guest.shell(copy)?;
        self.guest.drop_caches(false)
    }

    /// Restarts the guest with `how`, and changes the file before the module is loaded again.
    /// Returns the pages that came from the host before any page was put.
    fn reboot(&self, version: usize, how: impl FnOnce() -> Result<()>) -> Result<u64> {
        let guest = self.guest;
        guest.exec_ok(["sync"])?;
        guest.restart(how)?;
        guest.mount("/dev/dd/data", "/mnt", "ext4", "noatime")?;
        guest.cgroup(READER, &[("memory.max", "10M")])?;
        self.replace(version)?;
        stage::attach(guest)?;
        self.check(version)?;
        Ok(ddctl::counters(guest)?.get_hits)
    }

    /// Reads the file, which must have the content of this version.
    fn check(&self, version: usize) -> Result<()> {
        let spec = ReadSpec::new("/mnt/file").cgroup(READER);
        stage::read(self.guest, &spec, &self.versions[version])
    }

    /// Puts most of the file to the host, and reads it back from there.
    fn cache(&self, version: usize) -> Result<()> {
        self.check(version)?;
        let before = ddctl::counters(self.guest)?;
        self.check(version)?;
        let counted = ddctl::counters(self.guest)? - before;
        let used = ddctl::host(self.stage.host())?.used_pages;
        // 10 MiB of the file's pages stay in the guest. A crash kernel, which has little memory,
        // and a host that is short of memory both leave out some of the others.
        ensure!(
            counted.get_hits > pages(LEN) / 2 && used > pages(LEN) / 4,
            "the host held only {used} pages after two passes: {counted:?}"
        );
        Ok(())
    }
}
