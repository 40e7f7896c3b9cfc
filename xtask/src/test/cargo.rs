// SPDX-License-Identifier: GPL-2.0-only

//! Tests that cargo builds. All crates are built together, so that they share dependencies, and the
//! resulting programs are run one by one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::{
    Layer, Listed, Outcome, Test,
    libtest::{self, Report},
};
use crate::{monitoring, progress, workspace};

/// Crates whose integration tests are the `cli` layer.
const TOOLS: [&str; 3] = ["ddctl", "ddhostd", "policyd"];

/// Runs the tests of `layers`, which are [`Layer::Unit`] and [`Layer::Cli`].
pub(super) fn run(layers: &[Layer], outcome: &mut Outcome) -> Result<()> {
    let (programs, compiled) = build()?;
    if !compiled {
        outcome.fail(layers[0], "compile", "a crate does not compile; see above");
    }
    for &layer in layers {
        progress::step(&format!("{} tests", layer.name()), || {
            for program in programs.iter().filter(|program| program.layer() == layer) {
                program.run(outcome)?;
            }
            match layer {
                Layer::Unit => documentation(outcome),
                Layer::Cli => pages(&programs, outcome),
                Layer::Vm => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Returns the names of the tests of `layers`.
pub(super) fn list(layers: &[Layer]) -> Result<Vec<Listed>> {
    let (programs, _) = build()?;
    let mut listed = Vec::new();
    for &layer in layers {
        for program in programs.iter().filter(|program| program.layer() == layer) {
            let output = output(program.command().arg("--list"))?;
            listed.extend(libtest::names(&output).map(|name| program.listed(name)));
        }
        if layer == Layer::Unit {
            let output = output(&mut cargo(&[
                "test",
                "--workspace",
                "--doc",
                "--",
                "--list",
            ]))?;
            listed.extend(libtest::names(&output).map(|name| Listed::new(layer, name.to_owned())));
        }
    }
    Ok(listed)
}

/// A test program.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    package: String,
    /// Directory of its package.
    dir: PathBuf,
    target: Target,
}

/// The part of a message of cargo that describes a program.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    package_id: String,
    profile: Profile,
    target: Target,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

/// Builds all test programs. Returns them, and whether none is missing.
fn build() -> Result<(Vec<Program>, bool)> {
    let mut compiled = false;
    let programs = progress::step("compile the tests", || {
        let json = "--message-format=json-render-diagnostics";
        let output = cargo(&[
            "build",
            "--workspace",
            "--tests",
            // Programs that tests run.
            "--examples",
            "--profile=test",
            "--keep-going",
            json,
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
        compiled = output.status.success();
        let messages = String::from_utf8_lossy(&output.stdout);
        let mut programs: Vec<Program> = messages.lines().filter_map(program).collect();
        programs.sort_by_key(Program::name);
        Ok(programs)
    })?;
    Ok((programs, compiled))
}

fn program(message: &str) -> Option<Program> {
    let artifact: Artifact = serde_json::from_str(message).ok()?;
    let path = artifact.executable.filter(|_| artifact.profile.test)?;
    Some(Program {
        path,
        package: package_name(&artifact.package_id)?.to_owned(),
        dir: artifact.manifest_path.parent()?.to_owned(),
        target: artifact.target,
    })
}

/// Returns the name in `path+file:///dir/name#0.1.0` or `path+file:///dir#name@0.1.0`.
fn package_name(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => place.rsplit('/').next(),
    }
}

impl Program {
    fn layer(&self) -> Layer {
        let integration = self.target.kind.iter().any(|kind| kind == "test");
        match integration && TOOLS.contains(&self.package.as_str()) {
            true => Layer::Cli,
            false => Layer::Unit,
        }
    }

    /// Returns the prefix of its tests' names.
    fn name(&self) -> String {
        match self.target.name == self.package {
            true => self.package.clone(),
            false => format!("{}::{}", self.package, self.target.name),
        }
    }

    fn listed(&self, test: &str) -> Listed {
        Listed::new(self.layer(), format!("{}::{test}", self.name()))
    }

    /// Returns a command that runs it as cargo would.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.dir)
            .env("CARGO_MANIFEST_DIR", &self.dir)
            // New snapshots must be accepted by their author, and not be added here.
            .env("INSTA_UPDATE", "no");
        command
    }

    fn run(&self, outcome: &mut Outcome) -> Result<()> {
        self.run_as(&mut self.command(), outcome)
    }

    fn run_as(&self, command: &mut Command, outcome: &mut Outcome) -> Result<()> {
        let start = Instant::now();
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let report = Report::parse(&text, output.status);
        let name = self.name();
        if !report.tests.is_empty() {
            eprintln!(
                "    {name}: {} ({:.1} s)",
                report.verdict(),
                start.elapsed().as_secs_f64()
            );
        }
        take(outcome, self.layer(), &name, report, &text)
    }
}

/// Runs the tests of the daemons' pages that need Prometheus and its linter.
fn pages(programs: &[Program], outcome: &mut Outcome) -> Result<()> {
    let Some(prometheus) = monitoring::Programs::if_obtainable() else {
        return Ok(());
    };
    let is_daemon = |program: &&Program| {
        program.layer() == Layer::Cli && program.target.name == monitoring::TESTS
    };
    for program in programs.iter().filter(is_daemon) {
        let mut command = program.command();
        command.args(monitoring::PAGES).envs(prometheus.variables());
        program.run_as(&mut command, outcome)?;
    }
    Ok(())
}

/// Runs the examples in the documentation, which cargo builds and runs itself.
fn documentation(outcome: &mut Outcome) -> Result<()> {
    let output = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"])
        .stderr(Stdio::piped())
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = Report::parse(&text, output.status);
    eprintln!("    documentation: {}", report.verdict());
    if report.tests.is_empty() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    take(outcome, Layer::Unit, "documentation", report, &text)
}

/// Adds a report to the outcome, and keeps the output of failed tests.
fn take(
    outcome: &mut Outcome,
    layer: Layer,
    program: &str,
    report: Report,
    text: &str,
) -> Result<()> {
    if !report.is_good() {
        let log = log(layer, program);
        fs::create_dir_all(log.parent().unwrap_or(Path::new(".")))?;
        fs::write(&log, text)?;
        for (name, error) in report.errors() {
            eprintln!(
                "---- {program}::{name}\n{}\n",
                libtest::without_backtrace(error)
            );
        }
        eprintln!("    log: {}", log.display());
    }
    if let Some(trouble) = report.trouble {
        outcome.fail(layer, program, &trouble);
    }
    outcome
        .tests
        .extend(report.tests.into_iter().map(|test| Test {
            layer: layer.name(),
            name: format!("{program}::{}", test.name),
            passed: test.error.is_none(),
            seconds: None,
            error: test.error,
        }));
    Ok(())
}

fn log(layer: Layer, program: &str) -> PathBuf {
    let file = format!("{}.log", program.replace("::", "-"));
    let dir = workspace::target().join("test").join(layer.name());
    dir.join(file)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/ddctl#0.1.0",
            "manifest_path":"/x/ddctl/Cargo.toml","target":{"kind":["test"],"name":"cli"},
            "profile":{"test":true},"executable":"/t/deps/cli-0123"}"#;
        let found = program(message).unwrap();
        assert_eq!(found.name(), "ddctl::cli");
        assert_eq!(found.layer(), Layer::Cli);
        assert_eq!(found.dir, Path::new("/x/ddctl"));
        assert!(program(&message.replace("true", "false")).is_none());
        assert!(program(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn packages_have_names() {
        let named = "path+file:///x/tests/lab#ddlab@0.1.0";
        assert_eq!(package_name(named), Some("ddlab"));
        assert_eq!(package_name("path+file:///x/ddcore#0.1.0"), Some("ddcore"));
    }
}
