// SPDX-License-Identifier: GPL-2.0-only

//! Scenarios and what they run on.

use std::{
    any::Any,
    fmt, fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result, anyhow};
use regex::Regex;

use crate::{
    accel::Accel,
    artifacts::Artifacts,
    lab::{Lab, LabConfig},
    machine::{HOST_MODULE, Machine},
    report::Target,
    vitals::Patience,
};

/// A whole Debian starts dozens of programs before its agent runs.
const DEBIAN_PATIENCE: Patience = Patience {
    still: Duration::from_secs(300),
    spinning: Duration::from_secs(1200),
};

/// One thing shown on real kernels.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name: lower case, words joined by `-`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// Shows it. Figures it promises are returned as targets; one not met
    /// fails the scenario like an error does.
    pub run: fn(&mut Context) -> Result<Vec<Target>>,
}

/// What came of a scenario.
#[derive(Debug)]
pub struct Verdict {
    /// Its figures, when it got that far.
    pub targets: Vec<Target>,
    /// Why it failed.
    pub error: Option<anyhow::Error>,
    /// How long it took.
    pub took: Duration,
    /// Where its logs are, when it failed.
    pub logs: Option<PathBuf>,
    /// Boots of L1 that were tried again for it.
    pub retries: usize,
}

/// What came of a scenario whose modules were to break something.
#[derive(Clone, Debug)]
pub enum Provoked {
    /// It passed.
    Passed,
    /// It failed: why.
    Failed(String),
    /// Its lab did not boot, which says nothing about our modules: why.
    NotBooted(String),
}

impl Provoked {
    /// Whether it passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }

    fn of(error: Option<&Error>) -> Self {
        match error {
            None => Self::Passed,
            Some(error) if error.is::<NotBooted>() => Self::NotBooted(format!("{error:#}")),
            Some(error) => Self::Failed(format!("{error:#}")),
        }
    }
}

/// A lab did not boot.
#[derive(Debug)]
struct NotBooted;

impl fmt::Display for NotBooted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lab did not boot")
    }
}

/// What scenarios run on. The lab boots when it is first asked for and is
/// shared by the scenarios that follow, until one fails or leaves a mess.
#[derive(Debug)]
pub struct Context {
    artifacts: Artifacts,
    accel: Accel,
    dir: PathBuf,
    quick: bool,
    scenario: &'static str,
    lab: Option<Lab>,
    allowed: Vec<Regex>,
    mutation: Option<&'static str>,
    /// Boots that were tried again since the running scenario began.
    retries: usize,
}

impl Context {
    /// A context whose logs go below `dir`.
    pub fn new(artifacts: Artifacts, accel: Accel, dir: impl Into<PathBuf>, quick: bool) -> Self {
        Self {
            artifacts,
            accel,
            dir: dir.into(),
            quick,
            scenario: "none",
            lab: None,
            allowed: Vec::new(),
            mutation: None,
            retries: 0,
        }
    }

    /// Whether a short form is wanted.
    #[must_use]
    pub fn quick(&self) -> bool {
        self.quick
    }

    /// Says whether the next scenario shall have a short form.
    pub fn set_quick(&mut self, quick: bool) {
        self.quick = quick;
    }

    /// Directory for what the running scenario wants to leave.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn output_dir(&self) -> Result<PathBuf> {
        let dir = self.dir.join(self.scenario);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// The shared lab. At the start of a scenario L1 has no guests and none of
    /// our modules.
    ///
    /// # Errors
    ///
    /// When it does not boot.
    pub fn lab(&mut self) -> Result<&Lab> {
        if self.lab.is_none() {
            let config = self.lab_config();
            self.boot(config)?;
        }
        self.lab.as_ref().context("the lab was just booted")
    }

    /// L1 of the shared lab.
    ///
    /// # Errors
    ///
    /// When it does not boot.
    pub fn host(&mut self) -> Result<&Machine> {
        Ok(self.lab()?.host())
    }

    /// The configuration [`Context::lab`] uses, to be varied for
    /// [`Context::fresh_lab`].
    #[must_use]
    pub fn lab_config(&self) -> LabConfig {
        LabConfig {
            accel: self.accel,
            ..LabConfig::new(self.artifacts.clone(), self.dir.join(self.scenario))
        }
    }

    /// A lab whose guests may be whole Debians (see
    /// [`crate::GuestConfig::debian`]); the shared one ends.
    ///
    /// # Errors
    ///
    /// When the image cannot be made, or the lab does not boot.
    pub fn debian_lab(&mut self) -> Result<&Lab> {
        let config = LabConfig {
            debian: Some((self.artifacts.debian)()?),
            ..self.lab_config()
        };
        let lab = self.fresh_lab(config)?;
        lab.set_patience(DEBIAN_PATIENCE);
        Ok(lab)
    }

    /// A lab of the scenario's own making; the shared one ends.
    ///
    /// # Errors
    ///
    /// When it does not boot.
    pub fn fresh_lab(&mut self, config: LabConfig) -> Result<&Lab> {
        self.end_lab();
        self.boot(config)?;
        self.lab.as_ref().context("the lab was just booted")
    }

    /// Ends the lab: the next one asked for is freshly booted.
    pub fn end_lab(&mut self) {
        self.lab = None;
    }

    /// Kernel messages the running scenario provokes on purpose.
    ///
    /// # Panics
    ///
    /// When `pattern` is no regular expression.
    pub fn allow_console(&mut self, pattern: &str) {
        self.allowed
            .push(Regex::new(pattern).expect("the pattern is valid"));
    }

    /// Tells the person who waits.
    pub fn say(&self, text: impl AsRef<str>) {
        eprintln!("    {}: {}", self.scenario, text.as_ref());
    }

    /// Runs a scenario, judges the consoles and tidies up.
    pub fn run(&mut self, scenario: &Scenario) -> Verdict {
        let start = Instant::now();
        self.scenario = scenario.name;
        self.allowed.clear();
        self.retries = 0;
        if let Some(lab) = &self.lab {
            lab.set_patience(Patience::default());
            lab.mutate(self.mutation);
        }
        let ran = panic::catch_unwind(AssertUnwindSafe(|| (scenario.run)(self)));
        let ran = ran.unwrap_or_else(|payload| Err(anyhow!("panicked: {}", panic_text(&*payload))));
        let (targets, mut error) = match ran {
            Ok(targets) => (targets, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if error.is_none() {
            error = self.tidy().and_then(|()| all_met(&targets)).err();
        } else if let Err(consoles) = self.judge() {
            // What a kernel said explains more than what a test missed.
            error = error.map(|error| error.context(format!("{consoles:#}")));
        }
        let logs = error.is_some().then(|| self.keep_logs()).flatten();
        if error.is_some() {
            self.end_lab();
        }
        Verdict {
            targets,
            error,
            took: start.elapsed(),
            logs,
            retries: self.retries,
        }
    }

    /// Runs another scenario, in its short form and with modules that were built
    /// with a patch of `tests/mutations`, if one is named.
    pub fn provoke(&mut self, scenario: &Scenario, mutation: Option<&'static str>) -> Provoked {
        let (outer, quick, retries) = (self.scenario, self.quick, self.retries);
        (self.mutation, self.quick) = (mutation, true);
        let verdict = self.run(scenario);
        (self.mutation, self.quick) = (None, quick);
        self.scenario = outer;
        self.retries += retries;
        Provoked::of(verdict.error.as_ref())
    }

    fn boot(&mut self, config: LabConfig) -> Result<()> {
        let lab = Lab::boot(config).context(NotBooted)?;
        self.retries += lab.retries();
        self.say(format!(
            "L1 booted in {:.1} s",
            lab.boot_time().as_secs_f64()
        ));
        lab.mutate(self.mutation);
        self.lab = Some(lab);
        Ok(())
    }

    fn judge(&self) -> Result<()> {
        match &self.lab {
            Some(lab) => lab.check_consoles(&self.allowed),
            None => Ok(()),
        }
    }

    /// Leaves L1 as the next scenario expects it. Failing to unload is a
    /// failure of this scenario.
    fn tidy(&mut self) -> Result<()> {
        if let Some(lab) = &self.lab {
            if lab.host().has_module(HOST_MODULE)? {
                lab.host().unload_module(HOST_MODULE)?;
            }
            lab.host().search_leaks()?;
        }
        self.judge()
    }

    /// Copies the consoles to the failed scenario's directory, unless the lab
    /// was booted by it and writes there anyway.
    fn keep_logs(&self) -> Option<PathBuf> {
        let to = self.output_dir().ok()?;
        if let Some(lab) = &self.lab {
            copy_logs(&lab.config().dir, &to);
        }
        Some(to)
    }
}

fn copy_logs(from: &Path, to: &Path) {
    let same = from.canonicalize().ok() == to.canonicalize().ok();
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !same && path.extension().is_some_and(|extension| extension == "log") {
            // Best effort: the originals are still there.
            let _ = fs::copy(&path, to.join(entry.file_name()));
        }
    }
}

fn all_met(targets: &[Target]) -> Result<()> {
    let missed: Vec<String> = targets
        .iter()
        .filter(|target| !target.met)
        .map(|target| {
            format!(
                "{}: {} instead of {}",
                target.name, target.measured, target.target
            )
        })
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(anyhow!("missed targets: {}", missed.join("; ")))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::Qemu;

    /// Runs a scenario that needs no lab.
    fn run(scenario: fn(&mut Context) -> Result<Vec<Target>>) -> Verdict {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Artifacts {
            qemu: Qemu::in_root("/"),
            release: "7.2".to_owned(),
            kernel: PathBuf::new(),
            pace: 1,
            more_memory_mib: 0,
            kernel_args: "",
            initrd: PathBuf::new(),
            root: PathBuf::new(),
            opt: PathBuf::new(),
            debian: || Ok(PathBuf::new()),
        };
        Context::new(artifacts, Accel::Tcg, dir.path(), true).run(&Scenario {
            name: "fake",
            about: "",
            quick: true,
            run: scenario,
        })
    }

    #[test]
    fn errors_panics_and_missed_targets_fail_a_scenario() {
        assert!(run(|_| Ok(Vec::new())).error.is_none());
        let verdict = run(|_| Err(anyhow!("no")));
        assert_eq!(verdict.error.unwrap().to_string(), "no");
        assert!(verdict.logs.unwrap().ends_with("fake"));
        let verdict = run(|_| panic!("on purpose"));
        assert_eq!(verdict.error.unwrap().to_string(), "panicked: on purpose");
        let verdict = run(|_| Ok(vec![Target::at_most("a", 1.0, 2.0, "")]));
        assert!(verdict.error.is_some());
        assert_eq!(verdict.targets.len(), 1);
    }

    /// A lab that does not boot shows nothing of modules, whatever is said about it later.
    #[test]
    fn a_lab_that_does_not_boot_is_no_failure_of_modules() {
        let error = Err::<(), _>(anyhow!("no sign of life")).context(NotBooted);
        let error = error.unwrap_err().context("the guest was started");
        assert!(matches!(Provoked::of(Some(&error)), Provoked::NotBooted(_)));
        let error = anyhow!("wrong content");
        assert!(matches!(Provoked::of(Some(&error)), Provoked::Failed(_)));
        assert!(Provoked::of(None).passed());
    }

    #[test]
    fn a_missed_target_fails() {
        assert!(all_met(&[Target::at_least("a", 1.0, 2.0, "")]).is_ok());
        let error = all_met(&[Target::at_least("a", 3.0, 2.0, "x")]).unwrap_err();
        assert_eq!(error.to_string(), "missed targets: a: 2 x instead of ≥ 3 x");
    }
}
