// SPDX-License-Identifier: GPL-2.0-only

//! Scenarios and their context.

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
    machine::Machine,
    report::Target,
    vitals::Patience,
};

/// A complete Debian starts dozens of programs before its agent runs, so that it gets more time.
pub(crate) const DEBIAN_PATIENCE: Patience = Patience {
    still: Duration::from_secs(300),
    spinning: Duration::from_secs(1200),
};

/// A test on real kernels.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name: lower case, words joined by `-`.
    pub name: &'static str,
    /// The tested behaviour, in one line.
    pub about: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// Runs the test. The figures that it promises are returned as targets; a missed one fails the
    /// scenario as an error does.
    pub run: fn(&mut Context) -> Result<Vec<Target>>,
}

/// The result of a scenario.
#[derive(Debug)]
pub struct Verdict {
    /// Its figures, if it was completed.
    pub targets: Vec<Target>,
    /// The error, if it failed.
    pub error: Option<anyhow::Error>,
    /// Duration.
    pub took: Duration,
    /// Directory of its logs, if it failed.
    pub logs: Option<PathBuf>,
    /// Number of boots of L1 that were repeated for it.
    pub retries: usize,
}

/// The result of a scenario with modules that break something.
#[derive(Clone, Debug)]
pub enum Provoked {
    /// It passed.
    Passed,
    /// It failed with this error.
    Failed(String),
    /// Its lab did not boot, with this error. This does not depend on the modules.
    NotBooted(String),
}

impl Provoked {
    /// Returns whether it passed.
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

/// The error of a lab that did not boot.
#[derive(Debug)]
struct NotBooted;

impl fmt::Display for NotBooted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lab did not boot")
    }
}

/// The environment of scenarios. The lab boots when it is first needed and is shared by the
/// scenarios that follow, until one fails or leaves it in another state.
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
    /// Number of boots that were repeated since the running scenario began.
    retries: usize,
}

impl Context {
    /// Returns a context whose logs go below `dir`.
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

    /// Returns whether the scenario should run in its short form.
    #[must_use]
    pub fn quick(&self) -> bool {
        self.quick
    }

    /// Sets whether the next scenario runs in its short form.
    pub fn set_quick(&mut self, quick: bool) {
        self.quick = quick;
    }

    /// Returns a directory for output of the running scenario.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be made.
    pub fn output_dir(&self) -> Result<PathBuf> {
        let dir = self.dir.join(self.scenario);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// Returns the shared lab. At the start of a scenario L1 has no guests and none of the
    /// project's modules.
    ///
    /// # Errors
    ///
    /// Fails if it does not boot.
    pub fn lab(&mut self) -> Result<&Lab> {
        if self.lab.is_none() {
            let config = self.lab_config();
            self.boot(config)?;
        }
        self.lab.as_ref().context("the lab was just booted")
    }

    /// Returns L1 of the shared lab.
    ///
    /// # Errors
    ///
    /// Fails if it does not boot.
    pub fn host(&mut self) -> Result<&Machine> {
        Ok(self.lab()?.host())
    }

    /// Returns the parameters of [`Context::lab`], as a base for [`Context::fresh_lab`].
    #[must_use]
    pub fn lab_config(&self) -> LabConfig {
        LabConfig {
            accel: self.accel,
            ..LabConfig::new(self.artifacts.clone(), self.dir.join(self.scenario))
        }
    }

    /// Boots a lab whose guests may be complete Debians (see [`crate::GuestConfig::debian`]), in
    /// place of the shared one.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be made, or the lab does not boot.
    pub fn debian_lab(&mut self) -> Result<&Lab> {
        let config = LabConfig {
            debian: Some((self.artifacts.debian)()?),
            ..self.lab_config()
        };
        let lab = self.fresh_lab(config)?;
        lab.set_patience(DEBIAN_PATIENCE);
        Ok(lab)
    }

    /// Boots a lab in which L1 and one guest (see [`crate::GuestConfig::installed`]) are Debians in
    /// which the project's packages were installed, in place of the shared one. Nothing of the
    /// project is loaded or started but by these packages. The scenario must end this lab, because
    /// others expect another L1.
    ///
    /// # Errors
    ///
    /// Fails if the systems were not made, or the lab does not boot.
    pub fn installed_lab(&mut self) -> Result<&Lab> {
        let installed = self.artifacts.installed.clone();
        let config = LabConfig {
            installed: Some(installed.context("this run has no installed systems")?),
            // A reboot is not repeated if it stops at the second processor, as a boot is.
            vcpus: 1,
            ..self.lab_config()
        };
        let lab = self.fresh_lab(config)?;
        lab.set_patience(DEBIAN_PATIENCE);
        Ok(lab)
    }

    /// Boots a lab in which L1 starts with Secure Boot, by Debian's signed boot loaders and with
    /// Debian's signed kernel, in place of the shared one. Keys are added with [`Lab::enrol`]. The
    /// scenario must end this lab, because others load modules without a signature.
    ///
    /// # Errors
    ///
    /// Fails if the boot loaders cannot be installed, or the lab does not boot.
    pub fn secure_boot_lab(&mut self) -> Result<&Lab> {
        let secure_boot = (self.artifacts.secure_boot)()?;
        let config = LabConfig {
            debian: Some(secure_boot.layer.clone()),
            // On a busy machine the kernel may miss the interrupts with which it tests its timer.
            kernel_args: ["dd.debian=layer", "no_timer_check"]
                .map(str::to_owned)
                .to_vec(),
            secure_boot: Some(secure_boot),
            // A reboot is not repeated if it stops at the second processor, as a boot is.
            vcpus: 1,
            ..self.lab_config()
        };
        self.fresh_lab(config)
    }

    /// Returns a program that runs Prometheus on this machine, which is the test runner.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be installed. The error names the package.
    pub fn prometheus(&self) -> Result<PathBuf> {
        (self.artifacts.prometheus)().context("Debian's package prometheus cannot be installed")
    }

    /// Boots a lab with parameters of the scenario, in place of the shared one.
    ///
    /// # Errors
    ///
    /// Fails if it does not boot, or if the shared one cannot be ended (see [`Context::end_lab`]).
    pub fn fresh_lab(&mut self, config: LabConfig) -> Result<&Lab> {
        self.end_lab()?;
        self.boot(config)?;
        self.lab.as_ref().context("the lab was just booted")
    }

    /// Concludes the lab as the end of a scenario does, and ends it. The next one is booted when it
    /// is needed.
    ///
    /// # Errors
    ///
    /// Fails as [`Lab::conclude`] does. In this case the lab is kept for the runner, which copies
    /// its logs and then ends it.
    pub fn end_lab(&mut self) -> Result<()> {
        self.conclude(Ok(()))?;
        self.lab = None;
        Ok(())
    }

    /// Allows kernel messages that the running scenario provokes.
    ///
    /// # Panics
    ///
    /// Panics if `pattern` is not a regular expression.
    pub fn allow_console(&mut self, pattern: &str) {
        self.allowed
            .push(Regex::new(pattern).expect("the pattern is valid"));
    }

    /// Prints a progress message.
    pub fn say(&self, text: impl AsRef<str>) {
        eprintln!("    {}: {}", self.scenario, text.as_ref());
    }

    /// Runs a scenario, judges the consoles and restores the initial state.
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
        let (targets, ran) = match ran {
            Ok(targets) => (targets, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let error = self.conclude(ran).and_then(|()| all_met(&targets)).err();
        let logs = error.is_some().then(|| self.keep_logs()).flatten();
        if error.is_some() {
            self.lab = None;
        }
        Verdict {
            targets,
            error,
            took: start.elapsed(),
            logs,
            retries: self.retries,
        }
    }

    /// Runs another scenario in its short form, with modules that were built with a patch of
    /// `tests/mutations` if one is named.
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

    /// Concludes the running scenario, or a part of it, in the lab if there is one.
    fn conclude(&self, result: Result<()>) -> Result<()> {
        match &self.lab {
            Some(lab) => lab.conclude(result, &self.allowed),
            None => result,
        }
    }

    /// Copies the consoles to the failed scenario's directory, unless the lab writes there itself.
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
            // A failed copy is ignored, because the originals still exist.
            let _ = fs::copy(&path, to.join(entry.file_name()));
        }
    }
}

fn all_met(targets: &[Target]) -> Result<()> {
    let missed: Vec<String> = targets
        .iter()
        .filter(|target| !target.met)
        .map(|target| {
            let detail = target.detail.as_ref();
            let detail = detail.map_or(String::new(), |detail| format!(" ({detail})"));
            format!(
                "{}: {} instead of {}{detail}",
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
            installed: None,
            prometheus: || Ok(PathBuf::new()),
            secure_boot: || anyhow::bail!("none"),
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

    /// A lab that does not boot does not count as a failure of the modules, whatever error follows.
    #[test]
    fn a_lab_that_does_not_boot_is_not_a_failure_of_modules() {
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
        let error = all_met(&[Target::none("a", 1_u64).detail("of 7")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "missed targets: a: 1 instead of ≤ 0 (of 7)"
        );
    }
}
