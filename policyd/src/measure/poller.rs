// SPDX-License-Identifier: GPL-2.0

//! Asks applications again and again, each in a task of its own.

use super::{figure::Figures, origin::Ask};
use crate::config::{Origin, Source};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

/// The tasks, by cgroup.
pub(super) struct Pollers<A: Ask> {
    ask: A,
    running: BTreeMap<String, Poller>,
}

struct Poller {
    name: String,
    source: Source,
    percentile: f64,
    every: Duration,
    latest: Arc<Mutex<Latest>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Latest(Option<(Instant, f64)>);

impl<A: Ask> Pollers<A> {
    pub(super) const fn new(ask: A) -> Self {
        Self {
            ask,
            running: BTreeMap::new(),
        }
    }

    /// Asks these sources from now on, and no others: cgroup, name, source and percentile.
    pub(super) fn follow<'a>(
        &mut self,
        interval: Duration,
        wanted: impl Iterator<Item = (&'a str, &'a str, &'a Source, f64)>,
    ) {
        let mut before = std::mem::take(&mut self.running);
        for (cgroup, name, source, percentile) in wanted {
            let every = source.every.unwrap_or(interval);
            let same = |poller: &Poller| {
                poller.name == name
                    && poller.source == *source
                    && poller.percentile == percentile
                    && poller.every == every
            };
            let poller = match before.remove(cgroup).filter(same) {
                Some(poller) => poller,
                None => self.start(name, source, percentile, every),
            };
            self.running.insert(cgroup.into(), poller);
        }
    }

    /// What was heard last about a cgroup, unless it is stale.
    pub(super) fn latest(&self, cgroup: &str) -> Option<f64> {
        let poller = self.running.get(cgroup)?;
        let (at, value) = poller
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0?;
        let fresh = poller.every * 2 + poller.source.timeout;
        (at.elapsed() <= fresh).then_some(value)
    }

    fn start(&self, name: &str, source: &Source, percentile: f64, every: Duration) -> Poller {
        let latest = Arc::new(Mutex::new(Latest::default()));
        let task = poll(
            self.ask.clone(),
            name.into(),
            for_container(source, name),
            percentile,
            every,
            Arc::clone(&latest),
        );
        Poller {
            name: name.into(),
            source: source.clone(),
            percentile,
            every,
            latest,
            task: tokio::spawn(task),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The source of one container: `{}` stands for its name.
fn for_container(source: &Source, name: &str) -> Source {
    let put = |text: &String| text.replace("{}", name);
    let origin = match &source.origin {
        Origin::Command(command) => Origin::Command(command.iter().map(put).collect()),
        // A name is no way out of a directory.
        Origin::File(path) => match path.to_str() {
            Some(text) => Origin::File(text.replace("{}", &name.replace('/', "_")).into()),
            None => source.origin.clone(),
        },
        Origin::Http(_) => source.origin.clone(),
    };
    Source {
        origin,
        metric: put(&source.metric),
        ..source.clone()
    }
}

async fn poll<A: Ask>(
    ask: A,
    name: String,
    source: Source,
    percentile: f64,
    every: Duration,
    latest: Arc<Mutex<Latest>>,
) {
    let mut figures = Figures::new(&source, percentile);
    let mut timer = interval(every);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let start = Instant::now();
    let mut trouble: Option<String> = None;
    loop {
        timer.tick().await;
        let answer = timeout(source.timeout, ask.ask(&source.origin)).await;
        let now = match answer {
            Ok(Ok(page)) => {
                if let Some(figure) = figures.take(start.elapsed(), &page) {
                    let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                    latest.0 = Some((Instant::now(), figure));
                }
                None
            }
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some(format!("no answer within {:?}", source.timeout)),
        };
        // Said once, and once when it is over.
        match (&now, &trouble) {
            (Some(now), before) if before.as_ref() != Some(now) => {
                warn!(container = name, "no figures: {now}");
            }
            (None, Some(_)) => info!(container = name, "figures are back"),
            _ => {}
        }
        trouble = now;
    }
}
