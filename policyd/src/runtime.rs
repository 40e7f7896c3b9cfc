// SPDX-License-Identifier: GPL-2.0-only

//! Performs the engine's actions, and reports events to it.

mod jobs;

use crate::{
    cgroup_writer::CgroupWriter,
    config::Config,
    discovery::Runtimes,
    dry_run::DryRunReport,
    engine::{Action, Cgroups, Engine, Event, Failure, Job, Outcome, Sample, Time},
    measure::{Meter, Origins},
    metrics::{self, GuestFigures, Shown},
    module::{self, GuestAccess},
    tree::{self, Tree},
};
use anyhow::{Context, Result, anyhow, bail};
use dddaemon::{
    event_loop::Request,
    service::{Service, Watchdog},
    show::Show,
};
use ddnl::{AsyncGuestControl, Pool, printable};
use jobs::Jobs;
use std::{
    collections::BTreeSet,
    future::pending,
    path::{Path, PathBuf},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};

/// Reads a configuration file. The error has all problems of the file.
pub fn load(path: &Path) -> Result<Config> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Config::parse(&text).map_err(|problems| anyhow!(ddconf::list(path, &problems)))
}

/// Paths at which the daemon finds the machine. Tests replace them by directories of their own.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `/proc`.
    pub proc: PathBuf,
    /// The root below which container runtimes keep their files.
    pub root: PathBuf,
    /// Directory of the state that must survive a crash; without it, none is kept.
    pub state: Option<PathBuf>,
}

impl Default for Paths {
    fn default() -> Self {
        // systemd passes the directory that it has created for the service.
        let state = std::env::var_os("RUNTIME_DIRECTORY");
        let state = state.and_then(|all| std::env::split_paths(&all).next());
        Self {
            proc: "/proc".into(),
            root: "/".into(),
            state,
        }
    }
}

impl Paths {
    /// Returns the path of the journal of original limits.
    pub fn journal(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("limits.json"))
    }
}

/// Maximum number of threads for blocking calls: reclaim, and reads of applications' files.
pub const BLOCKING_THREADS: usize = 8;

/// The most changes of the tree that are handled at once, so that other events get their turn.
const MAX_CHANGES: usize = 256;

/// The running daemon.
pub struct Runtime<M: GuestAccess, S: Service> {
    path: PathBuf,
    engine: Engine,
    module: M,
    control: Option<M::Control>,
    service: S,
    tree: Option<Tree>,
    /// The root below which runtimes keep their files.
    root: PathBuf,
    runtimes: Runtimes,
    meter: Meter<Origins>,
    jobs: Jobs,
    show: Show<Shown>,
    /// Counters of the module, if metrics are served.
    guest: Option<GuestFigures>,
    /// State of a dry run, which reports changes instead of making them.
    dry_run: Option<DryRun>,
    start: Instant,
}

/// Progress and findings of a dry run.
#[derive(Debug, Default)]
struct DryRun {
    rounds: u32,
    changes: BTreeSet<String>,
}

impl<M: GuestAccess, S: Service> Runtime<M, S> {
    /// Creates a daemon from a configuration file, which must be valid.
    pub fn new(path: &Path, module: M, service: S, paths: Paths) -> Result<Self> {
        let config = load(path)?;
        let writer = CgroupWriter::new(&config.cgroup_root, paths.journal().as_deref());
        let origins = Origins::new(&paths.proc, &config.cgroup_root);
        let runtimes = Runtimes::new(&paths.root, &config);
        Ok(Self {
            path: path.into(),
            engine: Engine::new(config),
            module,
            control: None,
            service,
            tree: None,
            root: paths.root,
            runtimes,
            meter: Meter::new(&paths.proc, origins),
            jobs: Jobs::new(writer),
            show: Show::new(metrics::page),
            guest: None,
            dry_run: None,
            start: Instant::now(),
        })
    }

    /// Finds out what [`Self::run`] would do, without changing anything.
    pub async fn dry_run(mut self, rounds: u32) -> Result<DryRunReport> {
        self.dry_run = Some(DryRun {
            rounds,
            ..DryRun::default()
        });
        self.open_tree();
        let root = &self.engine.config().cgroup_root;
        if self.tree.is_none() || !root.is_dir() {
            bail!(
                "there are no cgroups in {}: mount cgroup v2, or set `cgroup_root`",
                root.display()
            );
        }
        loop {
            self.act().await;
            let dry_run = self.dry_run.take().unwrap_or_default();
            if dry_run.rounds == 0 || !self.engine.config().measures() {
                return Ok(DryRunReport {
                    changes: dry_run.changes.into_iter().collect(),
                    report: self.engine.report(),
                });
            }
            self.dry_run = Some(dry_run);
            sleep(self.start, self.engine.poll_timeout()).await;
        }
    }

    /// Runs until asked to stop.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<()> {
        self.open_tree();
        self.jobs.undo_late();
        self.open_show().await;
        let mut watchdog = Watchdog::new(&self.service);
        let mut ready = false;
        loop {
            if self.act().await || !ready {
                self.service.status(&self.summary());
            }
            if !ready {
                self.service.ready();
                ready = true;
            }
            let event = tokio::select! {
                () = sleep(self.start, self.engine.poll_timeout()) => None,
                change = next_change(&mut self.tree) => {
                    self.changed(change);
                    None
                }
                change = self.module.changed() => Some(module_event(change)),
                (job, result) = self.jobs.ended() => Some(Event::Ended(job, result)),
                stream = self.show.reader() => {
                    let shown = self.shown();
                    self.show.serve(stream, || shown);
                    None
                }
                () = watchdog.due() => {
                    self.service.alive();
                    None
                }
                request = requests.recv() => match request {
                    Some(Request::Reload) => self.reload().await,
                    Some(Request::Stop) | None => break,
                },
            };
            if let Some(event) = event {
                self.engine.handle(self.now(), event);
            }
        }
        info!("stopping; the containers stay enrolled");
        self.service.stopping();
        self.jobs.undo().await;
        Ok(())
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }

    /// Handles a change of the tree, and further ones that are known already.
    fn changed(&mut self, first: tree::Change) {
        let tree = self.tree.iter_mut();
        let others = tree.flat_map(|tree| std::iter::from_fn(|| tree.ready()));
        for change in std::iter::once(first).chain(others).take(MAX_CHANGES) {
            self.engine
                .handle(self.start.elapsed(), cgroup_event(change));
        }
    }

    /// Performs all pending actions, and publishes the result. Returns whether there were any.
    async fn act(&mut self) -> bool {
        let mut news = false;
        while let Some(action) = self.engine.poll_action(self.now()) {
            let looked = matches!(action, Action::Measure(_));
            let outcome = self.perform(action).await;
            self.engine.handle(self.now(), Event::Outcome(outcome));
            news = true;
            if let Some(dry_run) = self.dry_run.as_mut().filter(|_| looked) {
                dry_run.rounds = dry_run.rounds.saturating_sub(1);
            }
        }
        if news {
            // What could not be opened before may be possible now.
            self.open_show().await;
            // Without targets nothing is measured, so that only lists and changes alter the report.
            self.show.publish(|| self.shown());
        }
        news
    }

    async fn perform(&mut self, action: Action) -> Outcome {
        match action {
            Action::Connect => {
                let connected = self.module.connect().await;
                Outcome::Connected(match connected {
                    Ok(control) => {
                        self.control = Some(control);
                        Ok(())
                    }
                    Err(error) => Err(error.into()),
                })
            }
            Action::List => Outcome::Listed(self.list().await),
            Action::Scan => Outcome::Scanned(self.scan()),
            Action::Identify(cgroups) => {
                let answer = |cgroup: String| {
                    let identity = self.runtimes.identify(&cgroup);
                    (cgroup, identity)
                };
                Outcome::Identified(cgroups.into_iter().map(answer).collect())
            }
            Action::Measure(_) => Outcome::Measured(self.measure()),
            Action::Begin(job) => {
                match &mut self.dry_run {
                    Some(dry_run) => drop(dry_run.changes.insert(in_words(&job))),
                    None => self.jobs.begin(job),
                }
                Outcome::Begun
            }
            Action::Add(_) | Action::Remove(_) | Action::Set(..) => {
                let result = self.change(&action).await;
                Outcome::Changed { action, result }
            }
        }
    }

    /// Lists the pools, and keeps the counters that metrics show.
    async fn list(&mut self) -> Result<Vec<Pool>, Failure> {
        self.guest = None;
        let Some(control) = &mut self.control else {
            return Err(Failure::Gone);
        };
        let pools = control.pools().await?;
        if self.engine.config().metrics.is_some() {
            self.guest = Some(GuestFigures {
                status: control.status().await?,
                pools: pools.clone(),
            });
        }
        Ok(pools)
    }

    /// Returns the state in one line, for the service manager.
    fn summary(&self) -> String {
        let troubles = self.show.troubles().iter();
        let troubles: String = troubles.map(|trouble| format!("; {trouble}")).collect();
        format!("{}{troubles}", self.engine.summary())
    }

    fn shown(&self) -> Shown {
        let mut report = self.engine.report();
        report.not_open = self.show.troubles().to_vec();
        Shown {
            report,
            guest: self.guest.clone(),
        }
    }

    async fn change(&mut self, action: &Action) -> Result<Option<u32>, Failure> {
        if let Some(dry_run) = &mut self.dry_run {
            if let Some(words) = change_in_words(action) {
                dry_run.changes.insert(words);
            }
            // This number belongs to no pool.
            return Ok(matches!(action, Action::Add(_)).then_some(u32::MAX));
        }
        let Some(control) = &mut self.control else {
            return Err(Failure::Gone);
        };
        match action {
            Action::Add(pool) => return Ok(Some(control.add_pool(pool).await?)),
            Action::Remove(pool) => control.remove_pool(*pool).await?,
            Action::Set(pool, change) => control.set_pool(*pool, *change).await?,
            _ => {}
        }
        Ok(None)
    }

    fn measure(&mut self) -> Sample {
        let config = self.engine.config();
        self.meter
            .measure(&config.cgroup_root, config.interval, self.engine.matches())
    }

    fn scan(&mut self) -> Cgroups {
        if self.tree.is_none() {
            self.open_tree();
        }
        let Some(tree) = &mut self.tree else {
            return Cgroups::new();
        };
        let mut found = tree.scan();
        // Pools of cgroups that the file no longer selects have to be removed.
        found.extend(tree.living(self.engine.managed()));
        found
    }

    async fn open_show(&mut self) {
        let config = self.engine.config();
        self.show
            .open(config.status_socket.as_deref(), config.metrics)
            .await;
    }

    fn open_tree(&mut self) {
        let root = &self.engine.config().cgroup_root;
        if !root.join("cgroup.controllers").exists() {
            warn!(
                "{} is not the root of cgroup v2: mount it, or set `cgroup_root`",
                root.display()
            );
        }
        match Tree::open(root, self.engine.config().reach()) {
            Ok(tree) => self.tree = Some(tree),
            Err(error) => error!("cannot watch cgroups: {error}"),
        }
    }

    /// Reads the file again. If it is invalid, the previous configuration stays in force.
    async fn reload(&mut self) -> Option<Event> {
        self.service.reloading();
        let loaded = load(&self.path);
        self.service.ready();
        match loaded {
            Ok(config) => {
                info!("configuration read again");
                let moved = self
                    .tree
                    .as_ref()
                    .is_some_and(|tree| tree.root() != config.cgroup_root);
                let reach = config.reach();
                if self
                    .tree
                    .as_ref()
                    .is_some_and(|tree| *tree.reach() != reach)
                {
                    self.tree = None;
                }
                if moved {
                    self.tree = None;
                    // Limits below the old root are undone before it is forgotten.
                    self.jobs.move_to(&config.cgroup_root).await;
                }
                self.runtimes = Runtimes::new(&self.root, &config);
                self.show
                    .open(config.status_socket.as_deref(), config.metrics)
                    .await;
                Some(Event::ConfigLoaded(config))
            }
            Err(error) => {
                error!("the old configuration stays in force:\n{error:#}");
                None
            }
        }
    }
}

async fn sleep(start: Instant, until: Time) {
    match start.checked_add(until) {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

async fn next_change(tree: &mut Option<Tree>) -> tree::Change {
    match tree {
        Some(tree) => tree.next().await,
        None => pending().await,
    }
}

fn cgroup_event(change: tree::Change) -> Event {
    match change {
        tree::Change::Appeared(cgroup, id) => Event::CgroupAppeared(cgroup, id),
        tree::Change::Lost => Event::CgroupsLost,
        tree::Change::Vanished(cgroup) => Event::CgroupVanished(cgroup),
    }
}

fn module_event(change: module::Change) -> Event {
    match change {
        module::Change::Came => Event::ModuleCame,
        module::Change::Session => Event::SessionChanged,
        module::Change::Went => Event::ModuleWent,
    }
}

/// Returns a change in the words of `dry-run`.
fn change_in_words(action: &Action) -> Option<String> {
    match action {
        Action::Add(pool) => {
            let ssd = pool
                .ssd_weight
                .map(|weight| format!(" and SSD weight {weight}"));
            Some(format!(
                "enrol {} as `{}` with weight {}{}",
                printable(&pool.cgroup),
                printable(&pool.name),
                pool.weight,
                ssd.unwrap_or_default()
            ))
        }
        Action::Remove(pool) => Some(format!("remove container {pool}")),
        Action::Set(pool, change) => {
            let weight = change.weight.map(|weight| format!(" weight {weight}"));
            let ssd = change
                .ssd_weight
                .map(|weight| format!(" SSD weight {weight}"));
            let store = change.store.map(|store| format!(" store {}", store.name()));
            let policy = change
                .policy
                .map(|policy| format!(" policy {}", policy.name()));
            let admit = change
                .ssd_admit
                .map(|admit| format!(" SSD admission {}", admit.name()));
            let parts = [weight, ssd, store, policy, admit];
            let parts: String = parts.into_iter().flatten().collect();
            Some(format!("set container {pool}:{parts}"))
        }
        _ => None,
    }
}

/// Returns a job in the words of `dry-run`.
fn in_words(job: &Job) -> String {
    match job {
        Job::Limit { cgroup, limits, .. } => {
            let word = |name: &str, limit: Option<u64>| limit.map(|it| format!(" {name} {it}"));
            let parts = [
                word("low", limits.low),
                word("high", limits.high),
                word("max", limits.max),
            ];
            let parts: String = parts.into_iter().flatten().collect();
            format!("limit the memory of {}:{parts}", printable(cgroup))
        }
        Job::Reclaim { cgroup, bytes, .. } => {
            format!("reclaim {bytes} bytes from {}", printable(cgroup))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::{
        policy::Policy,
        pool::{SsdAdmit, Store},
    };
    use ddnl::{NewPool, PoolChange};

    #[test]
    fn changes_are_shown_with_the_weights_of_both_tiers() {
        let add = Action::Add(NewPool {
            cgroup: "/web".into(),
            name: "shop".into(),
            weight: 60,
            ssd_weight: Some(20),
            store: Store::Hybrid,
            policy: None,
            ssd_admit: None,
        });
        let told = change_in_words(&add);
        let expected = "enrol /web as `shop` with weight 60 and SSD weight 20";
        assert_eq!(told.as_deref(), Some(expected));
        let set = Action::Set(
            3,
            PoolChange {
                weight: Some(1),
                ssd_weight: Some(2),
                store: Some(Store::Ssd),
                policy: Some(Policy::S3),
                ssd_admit: Some(SsdAdmit::Second),
            },
        );
        let expected =
            "set container 3: weight 1 SSD weight 2 store ssd policy s3 SSD admission second";
        assert_eq!(change_in_words(&set).as_deref(), Some(expected));
    }
}
