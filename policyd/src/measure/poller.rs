// SPDX-License-Identifier: GPL-2.0-only

//! Asks applications periodically, each in its own task.

use super::{
    exposition::Metric,
    figure::Figures,
    origin::{Ask, ContainerName},
};
use crate::config::{Origin, Source};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 16;
/// The most programs that run at a time.
pub(super) const MAX_PROGRAMS: usize = 4;
/// The most files that are read at a time.
const MAX_FILES: usize = 4;
/// The longest delay of a first question. The first questions to all sources are spread over this
/// time, or over half of their interval if that is shorter.
const SPREAD: Duration = Duration::from_secs(1);
/// The longest pause before a source is asked again that does not answer in time.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Limits the sources that are read at a time. Each kind has a limit of its own, so that hanging
/// sources of one kind do not delay another.
struct SourceLimits {
    commands: Semaphore,
    files: Semaphore,
    pages: Semaphore,
}

impl SourceLimits {
    const fn new() -> Self {
        Self {
            commands: Semaphore::const_new(MAX_PROGRAMS),
            files: Semaphore::const_new(MAX_FILES),
            pages: Semaphore::const_new(MAX_CONNECTIONS),
        }
    }

    const fn of(&self, origin: &Origin) -> &Semaphore {
        match origin {
            Origin::Command(_) => &self.commands,
            Origin::File(_) => &self.files,
            Origin::Http(_) => &self.pages,
        }
    }
}

/// The tasks, by cgroup.
pub(super) struct Pollers<A: Ask> {
    ask: A,
    limits: Arc<SourceLimits>,
    running: BTreeMap<String, Poller>,
}

struct Poller {
    name: String,
    source: Source,
    percentile: f64,
    target: Option<f64>,
    every: Duration,
    latest: Arc<Mutex<Latest>>,
    task: Option<JoinHandle<()>>,
}

/// The source of a container, and the target it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) cgroup: &'a str,
    pub(super) name: &'a str,
    pub(super) source: &'a Source,
    pub(super) percentile: f64,
    /// The longest latency, if the target is one.
    pub(super) target: Option<f64>,
}

#[derive(Default)]
struct Latest(Option<(Instant, f64)>);

impl<A: Ask> Pollers<A> {
    pub(super) fn new(ask: A) -> Self {
        Self {
            ask,
            limits: Arc::new(SourceLimits::new()),
            running: BTreeMap::new(),
        }
    }

    /// Asks these sources from now on, and stops asking others.
    pub(super) fn follow<'a>(
        &mut self,
        interval: Duration,
        wanted: impl Iterator<Item = Question<'a>>,
    ) {
        let mut before = std::mem::take(&mut self.running);
        for question in wanted {
            let every = question.source.every.unwrap_or(interval);
            let same = |poller: &Poller| {
                poller.name == question.name
                    && poller.source == *question.source
                    && poller.percentile == question.percentile
                    && poller.target == question.target
                    && poller.every == every
            };
            let poller = match before.remove(question.cgroup).filter(same) {
                Some(poller) => poller,
                None => self.start(question, every),
            };
            self.running.insert(question.cgroup.into(), poller);
        }
    }

    /// Returns the last figure of a cgroup, unless it is stale.
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

    fn start(&self, question: Question<'_>, every: Duration) -> Poller {
        let latest = Arc::new(Mutex::new(Latest::default()));
        let Question { name, .. } = question;
        let task = match for_container(question.source, name) {
            Ok(source) => {
                let figures = Figures::new(&source, question.percentile);
                let poll = Poll {
                    ask: self.ask.clone(),
                    limits: Arc::clone(&self.limits),
                    container: ContainerName {
                        cgroup: question.cgroup.into(),
                        name: name.into(),
                    },
                    figures: figures.with_target(question.target),
                    source,
                    every,
                    latest: Arc::clone(&latest),
                };
                Some(tokio::spawn(poll.run()))
            }
            Err(reason) => {
                warn!(container = name, "no figures: {reason}");
                None
            }
        };
        Poller {
            name: name.into(),
            source: question.source.clone(),
            percentile: question.percentile,
            target: question.target,
            every,
            latest,
            task,
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Returns the source of one container, in which its name replaces `{}`. Other users choose names,
/// such as `-x`, `..` or `a;b`. A name that a program could take for an option, a path or code is
/// therefore refused.
fn for_container(source: &Source, name: &str) -> Result<Source, String> {
    let plain = |name: &str| {
        let known = |letter: char| letter.is_ascii_alphanumeric() || "@_.:-".contains(letter);
        name.chars().all(known) && !name.starts_with(['-', '.']) && !name.is_empty()
    };
    let put = |text: &str, name: &str| match text.contains("{}") {
        false => Ok(text.to_owned()),
        true if plain(name) => Ok(text.replace("{}", name)),
        true => Err(format!(
            "`{name}` has characters other than A-Z, a-z, 0-9, @, _, ., : and -, or begins with . or \
             -, so that it cannot replace {{}}; a command can read it from $DD_CONTAINER"
        )),
    };
    let origin = match &source.origin {
        Origin::Command(command) => {
            let words = command.iter().map(|word| put(word, name));
            Origin::Command(words.collect::<Result<_, _>>()?)
        }
        Origin::File(path) => match path.to_str() {
            // Containers of pods are named `pod/container`.
            Some(text) => Origin::File(put(text, &name.replace('/', "_"))?.into()),
            None => source.origin.clone(),
        },
        Origin::Http(_) => source.origin.clone(),
    };
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let metric = source.metric.replace("{}", &quoted);
    Metric::parse(&metric)?;
    Ok(Source {
        origin,
        metric,
        ..source.clone()
    })
}

/// State of the task that asks one source.
struct Poll<A: Ask> {
    ask: A,
    limits: Arc<SourceLimits>,
    container: ContainerName,
    figures: Figures,
    source: Source,
    every: Duration,
    latest: Arc<Mutex<Latest>>,
}

impl<A: Ask> Poll<A> {
    async fn run(mut self) {
        let start = Instant::now();
        let mut next = start + self.offset();
        let mut pause = self.every;
        let mut trouble: Option<String> = None;
        loop {
            sleep_until(next).await;
            let Ok(permit) = self.limits.of(&self.source.origin).acquire().await else {
                return;
            };
            let begin = Instant::now();
            let mut page = self.figures.search();
            let ask = self
                .ask
                .ask(&self.source.origin, &self.container, &mut page);
            let answer = timeout(self.source.timeout, ask).await;
            drop(permit);
            pause = match &answer {
                // A source that does not answer delays others of its kind, so that it is asked less
                // and less often.
                Err(_) => (pause * 2).min(MAX_PAUSE.max(self.every)),
                Ok(_) => self.every,
            };
            next = begin + pause;
            let now = match answer {
                Ok(Ok(())) => {
                    let figure = self.figures.take_found(start.elapsed(), page.end());
                    if let Some(figure) = figure {
                        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
                        latest.0 = Some((Instant::now(), figure));
                    }
                    None
                }
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(_) => Some(format!("no answer within {:?}", self.source.timeout)),
            };
            // Logged once when the problem begins, and once when it ends.
            let name = &self.container.name;
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

    /// Returns the delay of the first question, so that a thousand sources are not asked at the
    /// same moment.
    fn offset(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        (&self.container.cgroup, &self.container.name).hash(&mut hasher);
        // A fraction of 2^16.
        let part = (hasher.finish() >> 48) as u32;
        SPREAD.min(self.every / 2).saturating_mul(part) / (1 << 16)
    }
}
