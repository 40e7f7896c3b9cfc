// SPDX-License-Identifier: GPL-2.0

//! Performs what the engine decides, and tells it what happened.

use crate::{
    config::Config,
    engine::{Action, Cgroups, Engine, Event, Failure, Outcome, Time},
    module::{self, Module},
    service::{self, Service},
    tree::{self, Tree},
};
use anyhow::{Context, Result, bail};
use ddnl::AsyncGuestControl;
use std::{
    future::pending,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};
use tracing::{error, info, warn};

/// What the administrator asks of the running daemon.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Read the configuration anew.
    Reload,
    /// End; the pools stay.
    Stop,
}

/// Reads a configuration file; every problem is in the error.
pub fn load(path: &Path) -> Result<Config> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match Config::parse(&text) {
        Ok(config) => Ok(config),
        Err(problems) => {
            let lines: Vec<String> = problems
                .iter()
                .map(|problem| format!("{}: {problem}", path.display()))
                .collect();
            bail!("{}", lines.join("\n"))
        }
    }
}

/// The daemon at work.
pub struct Runtime<M: Module, S: Service> {
    path: PathBuf,
    engine: Engine,
    module: M,
    control: Option<M::Control>,
    service: S,
    tree: Option<Tree>,
    start: Instant,
}

impl<M: Module, S: Service> Runtime<M, S> {
    /// A daemon for a configuration file that must be right.
    pub fn new(path: &Path, module: M, service: S) -> Result<Self> {
        Ok(Self {
            path: path.into(),
            engine: Engine::new(load(path)?),
            module,
            control: None,
            service,
            tree: None,
            start: Instant::now(),
        })
    }

    /// Runs until asked to stop.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<()> {
        self.open_tree();
        let mut alive = self.service.alive_every().map(alive_timer);
        let mut ready = false;
        loop {
            self.act().await;
            self.service.status(&service::line(&self.engine.summary()));
            if !ready {
                self.service.ready();
                ready = true;
            }
            let event = tokio::select! {
                () = sleep(self.start, self.engine.poll_timeout()) => None,
                change = next_change(&mut self.tree) => Some(cgroup_event(change)),
                change = self.module.changed() => Some(module_event(change)),
                () = next_sign(&mut alive) => {
                    self.service.alive();
                    None
                }
                request = requests.recv() => match request {
                    Some(Request::Reload) => self.reload(),
                    Some(Request::Stop) | None => break,
                },
            };
            if let Some(event) = event {
                self.engine.handle(self.now(), event);
            }
        }
        info!("stopping; the containers stay enrolled");
        self.service.stopping();
        Ok(())
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }

    /// Does what there is to do.
    async fn act(&mut self) {
        while let Some(action) = self.engine.poll_action(self.now()) {
            let outcome = self.perform(action).await;
            self.engine.handle(self.now(), Event::Outcome(outcome));
        }
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
            Action::List => Outcome::Listed(match &mut self.control {
                Some(control) => control.pools().await.map_err(Failure::from),
                None => Err(Failure::Gone),
            }),
            Action::Scan => Outcome::Scanned(self.scan()),
            Action::Identify(_) | Action::Measure(_) | Action::Begin(_) => Outcome::Begun,
            Action::Add(_) | Action::Remove(_) | Action::Set(..) => {
                let result = self.change(&action).await;
                Outcome::Changed { action, result }
            }
        }
    }

    async fn change(&mut self, action: &Action) -> Result<Option<u32>, Failure> {
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

    fn scan(&mut self) -> Cgroups {
        if self.tree.is_none() {
            self.open_tree();
        }
        match &mut self.tree {
            Some(tree) => tree.scan(),
            None => Cgroups::new(),
        }
    }

    fn open_tree(&mut self) {
        let root = &self.engine.config().cgroup_root;
        if !root.join("cgroup.controllers").exists() {
            warn!(
                "{} is not the root of cgroup v2: mount it, or set `cgroup_root`",
                root.display()
            );
        }
        match Tree::open(root) {
            Ok(tree) => self.tree = Some(tree),
            Err(error) => error!("cannot watch cgroups: {error}"),
        }
    }

    /// Reads the file anew. If it is wrong, everything stays as it is.
    fn reload(&mut self) -> Option<Event> {
        self.service.reloading();
        let loaded = load(&self.path);
        self.service.ready();
        match loaded {
            Ok(config) => {
                info!("configuration read anew");
                let moved = self
                    .tree
                    .as_ref()
                    .is_some_and(|tree| tree.root() != config.cgroup_root);
                if moved {
                    self.tree = None;
                }
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

async fn next_sign(alive: &mut Option<Interval>) {
    match alive {
        Some(alive) => {
            alive.tick().await;
        }
        None => pending().await,
    }
}

fn alive_timer(every: Duration) -> Interval {
    let mut alive = interval(every);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    alive
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
