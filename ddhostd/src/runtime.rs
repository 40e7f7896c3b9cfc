// SPDX-License-Identifier: GPL-2.0-only

//! The daemon's loop: asks the module, sets what is due, and reports.

mod devices;

use crate::{
    accumulator::Accumulator,
    containers::Selection,
    data_checks::DataChecks,
    disks::{self, Disk},
    keeper::Keeper,
    metrics::{self, MAX_VMS, Measured},
    module::HostAccess,
    names::Names,
    report::{self, Report},
};
use anyhow::{Result, anyhow, bail};
use ddabi::genl;
use dddaemon::{
    event_loop::Request,
    listener::Change,
    pace::Pace,
    service::{Service, Watchdog},
    show::Show,
};
use ddnl::{AsyncHostControl, ConfigChange, HostStatus};
use ddvm::{Config, config::Unlisted, tier};
use std::{
    fs,
    os::unix::fs::FileTypeExt as _,
    path::{self, Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};

/// Where the daemon finds the machine; tests put directories in its place.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/`, for devices.
    pub root: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            root: "/".into(),
        }
    }
}

impl Paths {
    /// Reads a configuration file, which must be valid for this machine.
    pub fn load(&self, path: &Path) -> Result<Config> {
        Config::load(path, &self.proc.join("meminfo")).map_err(|problems| anyhow!(problems))
    }

    /// Reads a configuration file, which may be meant for another machine.
    fn load_for_any(path: &Path) -> Result<Config> {
        Config::load_for_any(path).map_err(|problems| anyhow!(problems))
    }

    /// Returns where a device with this absolute path is.
    pub fn device(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Fails if the file lists a path that exists and is not a block device.
    pub fn check_devices(&self, config: &Config) -> Result<()> {
        for listed in &config.ssd.devices {
            let metadata = fs::metadata(self.device(&listed.path));
            if metadata.is_ok_and(|metadata| !metadata.file_type().is_block_device()) {
                bail!(
                    "line {}: {} is not a block device; `losetup --direct-io=on --find --show {1}` \
                     makes one of a file",
                    listed.line,
                    listed.path
                );
            }
        }
        Ok(())
    }

    /// Returns warnings about effects of a configuration that an administrator may not expect.
    pub fn warnings(&self, config: &Config) -> Vec<String> {
        let devices = config.ssd.devices.iter();
        let devices = devices.filter_map(|listed| listed.warning());
        self.window(config).into_iter().chain(devices).collect()
    }

    /// Returns a warning if VMs can use the cache until the daemon denies it. There is none while
    /// the module is not loaded.
    fn window(&self, config: &Config) -> Option<String> {
        let parameter = "module/doubledecker_host/parameters/default_weight";
        let text = fs::read_to_string(self.sys.join(parameter)).ok();
        let weight: u32 = text.and_then(|text| text.trim().parse().ok())?;
        (config.unlisted == Unlisted::Deny && weight > 0).then(|| {
            format!(
                "a VM that no entry lists has weight {weight} from its registration until ddhostd \
                 sees it, because the module was loaded with default_weight={weight}: put \
                 `options doubledecker_host default_weight=0` into \
                 /etc/modprobe.d/doubledecker-host.conf and load the module again"
            )
        })
    }
}

/// Time between two looks at a module that announces all changes.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two looks at any other module.
const SHORT_INTERVAL: Duration = Duration::from_secs(1);
/// Number of looks that events may cause at once, and the time in which they may cause a further
/// one. The rate is limited because guests cause events.
const BURST: u32 = 20;
const EACH: Duration = Duration::from_millis(50);

/// The daemon at work.
pub struct Runtime<M: HostAccess, S: Service> {
    path: PathBuf,
    paths: Paths,
    keeper: Keeper,
    module: M,
    control: Option<M::Control>,
    names: Names,
    /// The devices of the file.
    disks: Vec<Disk>,
    checks: DataChecks,
    accumulator: Accumulator,
    service: S,
    show: Show<Report>,
    state: State,
    start: Instant,
    next_look: Instant,
    pace: Pace,
}

/// State that is reported besides the VMs.
#[derive(Debug, Default)]
struct State {
    status: Option<HostStatus>,
    /// The reason why the module could not be asked.
    absent: Option<String>,
    /// The reason why the sizes of the memory tier could not be set.
    sizes: Option<String>,
    /// The reason why the settings of all devices could not be set.
    ssd: Option<String>,
    refused: Option<String>,
    warnings: Vec<String>,
    loads: u64,
    /// Empty unless metrics are served.
    measured: Arc<Measured>,
}

impl<M: HostAccess, S: Service> Runtime<M, S> {
    /// Creates a daemon from a configuration file, which must be valid. Settings that this machine
    /// cannot have are reported as troubles, and the others are in force.
    pub fn new(path: &Path, module: M, service: S, paths: Paths) -> Result<Self> {
        let config = Paths::load_for_any(path)?;
        let now = Instant::now();
        Ok(Self {
            path: path::absolute(path)?,
            disks: disks::all(&config, Vec::new()),
            checks: DataChecks::default(),
            keeper: Keeper::new(config),
            module,
            control: None,
            names: Names::new(paths.proc.clone()),
            accumulator: Accumulator::default(),
            paths,
            service,
            show: Show::new(metrics::page),
            state: State {
                loads: 1,
                ..State::default()
            },
            start: now,
            next_look: now,
            pace: Pace::new(BURST, EACH),
        })
    }

    /// Runs until asked to stop. VMs keep their weights then.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<()> {
        let mut watchdog = Watchdog::new(&self.service);
        self.look().await;
        self.service.ready();
        loop {
            tokio::select! {
                () = sleep_until(self.next_look) => self.look().await,
                change = self.module.changed() => self.changed(change),
                named = self.names.next() => {
                    let more = std::iter::from_fn(|| self.names.next_now());
                    for (vm, pid, vmm) in std::iter::once(named).chain(more) {
                        self.keeper.identified(vm, pid, vmm, true);
                    }
                    self.apply().await;
                    self.publish();
                }
                (path, has_data) = self.checks.next() => {
                    self.examined(path, has_data).await;
                    self.publish();
                }
                stream = self.show.reader() => {
                    let report = self.report();
                    self.show.serve(stream, || report);
                }
                () = watchdog.due() => self.service.alive(),
                request = requests.recv() => match request {
                    Some(Request::Reload) => self.reload().await,
                    Some(Request::Stop) | None => break,
                },
            }
        }
        info!("stopping; the VMs keep their weights");
        self.service.stopping();
        Ok(())
    }

    async fn open_show(&mut self) {
        let config = self.keeper.config();
        let socket = config.status_socket.as_deref();
        self.show.open(socket, config.metrics).await;
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Came | Change::Went => {
                self.leave();
                self.next_look = Instant::now();
            }
            Change::Lost => self.look_soon(),
            Change::Event(event) => match event.known() {
                Some(genl::Event::VmCame) => {
                    if let Some(vm) = event.vm {
                        self.keeper.registered(vm);
                    }
                    self.look_soon();
                }
                Some(genl::Event::VmWent) => self.look_soon(),
                _ => {}
            },
        }
    }

    fn look_soon(&mut self) {
        let now = Instant::now();
        let soon = now + self.pace.pause(now.into_std());
        self.pace.pass(now.into_std());
        self.next_look = self.next_look.min(soon);
    }

    /// Handles the end of the module, or its replacement by another one.
    fn leave(&mut self) {
        self.control = None;
        self.forget();
        self.state.status = None;
        self.state.sizes = None;
        self.state.ssd = None;
        self.state.measured = Arc::default();
    }

    /// Makes all settings due, because the module has been loaded again without them.
    fn forget(&mut self) {
        self.keeper.forget();
        self.accumulator.forget();
        self.disks.iter_mut().for_each(Disk::begin);
    }

    /// Reads the VMs of the module, applies the settings that are due, and then reads the
    /// statistics, which take long on hosts with many VMs.
    async fn look(&mut self) {
        self.open_show().await;
        let mut result = self.ask().await;
        if result.is_ok() {
            self.state.absent = None;
            self.apply().await;
            result = self.measure().await;
        }
        match result {
            Ok(()) => {}
            // The state changed while it was read, and is read again at the next look.
            Err(ddnl::Error::Interrupted) => {}
            Err(trouble) => {
                let trouble = trouble.to_string();
                self.leave();
                if self.state.absent.as_ref() != Some(&trouble) {
                    warn!("{trouble}");
                    self.state.absent = Some(trouble);
                }
            }
        }
        let interval = match self.module.follows_all().await {
            true => INTERVAL,
            false => SHORT_INTERVAL,
        };
        self.next_look = Instant::now() + interval;
        self.publish();
    }

    async fn ask(&mut self) -> ddnl::Result<()> {
        if self.control.is_none() {
            self.control = Some(self.module.connect().await?);
            self.forget();
            info!("found the kernel module doubledecker_host");
            self.warn();
        }
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        let status = control.status().await?;
        let calls = status.counters.calls;
        let before = self.state.status.replace(status);
        // Counters start at 0. If one has fallen, the module was loaded again since the last look.
        if before.is_some_and(|before| before.counters.calls > calls) {
            self.forget();
        }
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        let vms = control.vms().await?;
        let now = self.start.elapsed();
        for (vm, pid) in self.keeper.listed(now, vms) {
            let vmm = self.names.ask(vm, pid);
            self.keeper.identified(vm, pid, vmm, false);
        }
        let known = self.keeper.vms();
        self.names.retain(|vm, pid| {
            let known = known.get(&vm);
            known.is_some_and(|known| known.vm.pid == pid)
        });
        self.look_at_devices().await
    }

    /// Reads the figures that only metrics show, if they are served. Of the containers, no more
    /// than those of one VM and those on the page are kept at a time.
    async fn measure(&mut self) -> ddnl::Result<()> {
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        if self.keeper.config().metrics.is_none() {
            self.state.measured = Arc::default();
            return Ok(());
        }
        let vms = self.keeper.vms();
        self.accumulator.retain(|vm| vms.contains_key(&vm));
        let mut selection = Selection::default();
        for (id, known) in vms.iter().take(MAX_VMS) {
            let pools = match control.pools(*id).await {
                Ok(pools) => pools,
                // The VM has ended since it was listed.
                Err(ddnl::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            self.accumulator.update(*id, known.vm.pid, &pools);
            selection.add(pools);
        }
        for known in vms.values().skip(MAX_VMS) {
            selection.leave_out(known.vm.pools as usize);
        }
        let (containers, container_count) = selection.end();
        self.state.measured = Arc::new(Measured {
            status: self.state.status.clone(),
            devices: control.devices().await?,
            containers,
            container_count,
            totals: self.accumulator.totals(),
        });
        Ok(())
    }

    /// Applies the settings of the file that the module does not have yet. A setting that cannot be
    /// applied is tried again when the daemon next reads the state of the module.
    async fn apply(&mut self) {
        self.set_sizes().await;
        self.set_ssd().await;
        let Some(control) = &mut self.control else {
            return;
        };
        for (vm, weights, change) in self.keeper.due(self.start.elapsed()) {
            let result = match control.set_vm(vm, change).await {
                Ok(_) => Ok(weights),
                // The VM has ended since it was listed.
                Err(ddnl::Error::NotFound { .. }) => continue,
                Err(error) => Err(error.to_string()),
            };
            let known = self.keeper.vms().get(&vm);
            let name = known.and_then(|known| known.vmm.name.as_deref());
            let name = name.unwrap_or("unknown");
            match &result {
                Ok(weights) => {
                    let (weight, ssd) = (weights.memory, weights.ssd());
                    info!(vm, name, weight, ssd, "weights set");
                }
                Err(trouble) => {
                    let before = known.and_then(|known| known.trouble.as_ref());
                    if before != Some(trouble) {
                        warn!(vm, name, "cannot set the weights: {trouble}");
                    }
                }
            }
            self.keeper.weights_set(vm, result);
        }
    }

    async fn set_sizes(&mut self) {
        let (Some(control), Some(status)) = (&mut self.control, &mut self.state.status) else {
            return;
        };
        if !self.keeper.sizes_due() {
            return;
        }
        let memory = tier::memory(&self.paths.proc.join("meminfo"));
        let sizes = &self.keeper.config().memory;
        let change = match memory.map(|memory| sizes.change(memory, Some(status.capacity))) {
            Ok(Ok(change)) => control.configure(&change).await.map(|_| change),
            Ok(Err(wrong)) => Err(ddnl::Error::Invalid {
                message: wrong.message(),
            }),
            Err(error) => Err(error.into()),
        };
        match change {
            Ok(change) => {
                status.capacity = change.capacity.unwrap_or(status.capacity);
                status.floor = change.floor.unwrap_or(status.floor.min(status.capacity));
                info!(pages = status.capacity, "capacity of the memory tier set");
                self.keeper.sizes_set();
                self.state.sizes = None;
            }
            Err(error) => {
                let trouble = format!("the sizes in [memory] cannot be set: {error}");
                tell(&mut self.state.sizes, trouble);
            }
        }
    }

    /// Sets the settings of all devices.
    async fn set_ssd(&mut self) {
        let Some(control) = &mut self.control else {
            return;
        };
        if !self.keeper.ssd_due() {
            return;
        }
        let ssd = &self.keeper.config().ssd;
        let index_limit = ssd.index_memory.map(|limit| {
            let memory = tier::memory(&self.paths.proc.join("meminfo"))?;
            Ok::<_, std::io::Error>(limit.pages(memory))
        });
        let change = index_limit.transpose().map(|index_limit| ConfigChange {
            deadline: ssd.deadline.map(|ms| ms * 1000),
            waiting: ssd.wait,
            retain: ssd.retain,
            index_limit,
            ..ConfigChange::default()
        });
        let done = match change {
            Ok(change) => control
                .configure(&change)
                .await
                .map_err(anyhow::Error::from),
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(_) => {
                info!("settings of the SSD tier set");
                self.keeper.ssd_set();
                self.state.ssd = None;
            }
            Err(error) => {
                let trouble = format!("the settings in [ssd] cannot be set: {error}");
                tell(&mut self.state.ssd, trouble);
            }
        }
    }

    /// Reads the file again. If it is invalid, the previous configuration stays in force.
    async fn reload(&mut self) {
        self.service.reloading();
        self.state.loads += 1;
        match Paths::load_for_any(&self.path) {
            Ok(config) => {
                info!("the configuration was read again");
                self.state.refused = None;
                self.state.sizes = None;
                self.state.ssd = None;
                self.disks = disks::all(&config, std::mem::take(&mut self.disks));
                self.keeper.reload(config);
                self.warn();
            }
            Err(problems) => {
                error!("the old configuration stays in force:\n{problems:#}");
                self.state.refused = Some(format!("{problems:#}"));
            }
        }
        self.look().await;
        self.service.ready();
    }

    /// Logs each warning about the configuration once.
    fn warn(&mut self) {
        let warnings = self.paths.warnings(self.keeper.config());
        for warning in &warnings {
            if !self.state.warnings.contains(warning) {
                warn!("{warning}");
            }
        }
        self.state.warnings = warnings;
    }

    /// Publishes the state to the service manager and to readers.
    fn publish(&mut self) {
        let report = self.report();
        let line = match (&report.tier, report.troubles.first()) {
            (_, Some(trouble)) => trouble.clone(),
            (None, None) => "waiting for the kernel module doubledecker_host".into(),
            (Some(_), None) => {
                let listed = |vm: &&report::VmReport| matches!(vm.rule, report::Rule::Entry { .. });
                let listed = report.vms.iter().filter(listed).count();
                format!("{} VMs, {listed} of them by an entry", report.vms.len())
            }
        };
        self.service.status(&line);
        self.show.publish(|| report);
    }

    fn report(&self) -> Report {
        let vms = self.keeper.vms().values();
        let of_vms = vms.filter_map(|known| {
            let trouble = known.trouble.as_ref()?;
            Some(format!("VM {}: {trouble}", known.vm.id))
        });
        let of_devices = self.disks.iter().filter_map(|disk| {
            let trouble = disk.trouble.as_ref()?;
            Some(format!("device {}: {trouble}", disk.listed.path))
        });
        let troubles: Vec<String> = [&self.state.absent, &self.state.sizes, &self.state.ssd]
            .into_iter()
            .flatten()
            .chain(self.show.troubles())
            .cloned()
            .chain(of_devices)
            .chain(of_vms)
            .collect();
        Report {
            healthy: troubles.is_empty() && self.state.refused.is_none(),
            file: self.path.clone(),
            troubles,
            warnings: self.state.warnings.clone(),
            loads: self.state.loads,
            refused: self.state.refused.clone(),
            tier: self.state.status.as_ref().map(report::tier),
            absent: self.state.absent.clone(),
            devices: self.disks.iter().map(report::device).collect(),
            vms: report::vms(&self.keeper),
            measured: Arc::clone(&self.state.measured),
        }
    }
}

/// Logs a problem, unless it is the previous one, and keeps it.
fn tell(before: &mut Option<String>, trouble: String) {
    if before.as_ref() != Some(&trouble) {
        warn!("{trouble}");
        *before = Some(trouble);
    }
}
