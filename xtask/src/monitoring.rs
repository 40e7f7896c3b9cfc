// SPDX-License-Identifier: GPL-2.0-only

//! `monitoring`: tries metrics, alerts and dashboard with Debian's Prometheus.

mod queries;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::{package, progress, root, workspace};

/// Check the daemons' metrics and the alerts with Prometheus and promtool of Debian
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Alerts, their tests, and the dashboard.
const DIRECTORY: &str = "packaging/monitoring";

pub(crate) fn run(_: &Args) -> Result<bool> {
    let programs = Programs::install()?;
    let mut failed = Vec::new();
    for (name, error) in programs.complaints()? {
        eprintln!("{error}");
        failed.push(name);
    }
    let status = workspace::cargo()
        .args(["test", "--package", "ddhostd", "--package", "policyd"])
        .args(["--test", TESTS, "--"])
        .args(PAGES)
        .envs(programs.variables())
        .status()?;
    if !status.success() {
        failed.push("pages");
    }
    if !failed.is_empty() {
        bail!("Prometheus complains about {}", failed.join(", "));
    }
    println!("no complaints");
    Ok(true)
}

/// Name of the daemons' test programs.
pub(crate) const TESTS: &str = "daemon";
/// Arguments of these programs that run the tests of their pages with these programs.
pub(crate) const PAGES: [&str; 2] = ["--ignored", "page::prom"];

/// Prometheus and its linter, of Debian.
#[derive(Debug)]
pub(crate) struct Programs {
    promtool: PathBuf,
    prometheus: PathBuf,
}

impl Programs {
    /// Installs them in a root directory of their own, if they are not there.
    fn install() -> Result<Self> {
        package::install_missing()?;
        let root = root::monitoring()?;
        Ok(Self {
            promtool: root::launcher(&root, "promtool")?,
            prometheus: root::launcher(&root, "prometheus")?,
        })
    }

    /// Installs them, or reports why this machine cannot.
    pub(crate) fn if_obtainable() -> Option<Self> {
        match Self::install() {
            Ok(programs) => Some(programs),
            Err(error) => {
                eprintln!("note: Prometheus is not there, and its checks are left out: {error:#}");
                None
            }
        }
    }

    /// Returns the variables by which tests find them.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 2] {
        [
            ("PROMTOOL", &self.promtool),
            ("PROMETHEUS", &self.prometheus),
        ]
    }

    /// Checks the rules, their tests, all queries and the configuration. Returns what the linter
    /// complains about.
    fn complaints(&self) -> Result<Vec<(&'static str, String)>> {
        let directory = workspace::target().join("monitoring");
        fs::create_dir_all(&directory)?;
        let queries = directory.join("queries.yml");
        fs::write(&queries, queries::as_rules()?)?;
        let queries = queries.display().to_string();
        let mut complaints = Vec::new();
        for (name, arguments) in [
            ("rules", ["check", "rules", "doubledecker.rules.yml"]),
            ("alerts", ["test", "rules", "doubledecker.rules.test.yml"]),
            ("queries", ["check", "rules", &queries]),
            ("config", ["check", "config", "prometheus.yml"]),
        ] {
            let mut command = Command::new(&self.promtool);
            command
                .args(arguments)
                .current_dir(workspace::top().join(DIRECTORY));
            let log = workspace::target().join(format!("log/promtool-{name}.log"));
            if let Err(error) = progress::step(name, || progress::quiet(&mut command, &log)) {
                complaints.push((name, format!("{error:#}")));
            }
        }
        Ok(complaints)
    }
}

/// Returns a program that runs Debian's Prometheus on this machine's files.
pub(crate) fn prometheus() -> Result<PathBuf> {
    root::launcher(&root::monitoring()?, "prometheus")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regex::Regex;

    use super::*;

    const RUNBOOK: &str = "docs/users/troubleshooting.md";

    fn text(path: &str) -> String {
        fs::read_to_string(workspace::top().join(path)).unwrap()
    }

    fn found<'a>(pattern: &str, text: &'a str) -> BTreeSet<&'a str> {
        let pattern = Regex::new(pattern).unwrap();
        let found = pattern.captures_iter(text);
        found.map(|one| one.get(1).unwrap().as_str()).collect()
    }

    /// What the packages install is checked with every run of the tests.
    #[test]
    fn rules_queries_and_configuration_pass_the_linter() {
        if let Some(programs) = Programs::if_obtainable() {
            let complaints = programs.complaints().unwrap();
            assert!(complaints.is_empty(), "{complaints:#?}");
        }
    }

    /// The tests of the daemons check that the tables list what the programs export.
    fn exported(tables: &str) -> BTreeSet<&str> {
        found(r"(?m)^\| `((?:ddhostd|policyd)_[a-z_]+)` \|", tables)
    }

    #[test]
    fn metrics_in_alerts_and_dashboard_are_exported() {
        let tables = text("docs/users/metrics.md");
        let exported = exported(&tables);
        for file in ["doubledecker.rules.yml", "doubledecker.json"] {
            let text = text(&format!("{DIRECTORY}/{file}"));
            let used = found(r"\b((?:ddhostd|policyd)_[a-z_]+)", &text);
            assert!(used.len() > 10, "{file}: {used:?}");
            for name in used {
                let base = name.strip_suffix("_bucket").unwrap_or(name);
                assert!(exported.contains(base), "{file}: nothing exports {name}");
            }
        }
    }

    #[test]
    fn metrics_in_the_documents_are_exported() {
        let tables = text("docs/users/metrics.md");
        let exported = exported(&tables);
        let files = crate::tidy::files(workspace::top()).unwrap();
        let is_document = |path: &&String| path.starts_with("docs/") && path.ends_with(".md");
        for path in files.iter().filter(is_document) {
            let document = text(path);
            for name in found(
                r"`[a-z(]*((?:ddhostd|policyd)_[a-z_]+[a-z])[^…a-z_]",
                &document,
            ) {
                assert!(exported.contains(name), "{path}: nothing exports {name}");
            }
        }
    }

    /// The labels `host` and `vm_name` join series of guests with those of their hosts.
    #[test]
    fn guests_have_labels_that_their_hosts_have() {
        let read = |side: &str| text(&format!("{DIRECTORY}/doubledecker-{side}.yml"));
        let (hosts, guests) = (read("hosts"), read("guests"));
        let known = found("(?m)^    host: (.+)$", &hosts);
        assert!(known.len() > 1, "{known:?}");
        let entries = guests.split("- targets:").skip(1);
        for entry in entries.clone() {
            let host = found("(?m)^    host: (.+)$", entry);
            assert!(host.len() == 1 && host.is_subset(&known), "{entry}");
            assert_eq!(found("(?m)^    vm_name: (.+)$", entry).len(), 1, "{entry}");
        }
        assert!(entries.count() > known.len());
    }

    /// An alert without a test may never fire, or always, and one without a text is of little help.
    #[test]
    fn every_alert_is_tested_and_explained() {
        let rules = text("packaging/monitoring/doubledecker.rules.yml");
        let tests = text("packaging/monitoring/doubledecker.rules.test.yml");
        let operations = text("docs/users/operations.md");
        let alerts = found(r"alert: (\w+)", &rules);
        assert!(alerts.len() > 10, "{alerts:?}");
        for alert in &alerts {
            let named = format!("alertname: {alert}\n");
            let cases: Vec<&str> = tests.split(&named).skip(1).collect();
            let fires = |case: &&&str| case.trim_start().starts_with("exp_alerts:\n");
            assert!(cases.iter().any(|case| fires(&case)), "{alert} never fires");
            assert!(
                cases.iter().any(|case| !fires(&case)),
                "{alert} always fires"
            );
        }
        assert_eq!(found(r"\| \[`(DoubleDecker\w+)`\]\(", &operations), alerts);
    }

    /// An administrator who is woken by an alert needs to know what to do. Therefore each alert
    /// names a section of the documents.
    #[test]
    fn every_alert_has_a_section_that_it_names() {
        let rules = text("packaging/monitoring/doubledecker.rules.yml");
        let operations = text("docs/users/operations.md");
        let document = text(RUNBOOK);
        let titles = found("(?m)^### (DoubleDecker\\w+)$", &document);
        assert_eq!(titles, found(r"alert: (\w+)", &rules));
        for rule in rules.split("- alert: ").skip(1) {
            let alert = rule.lines().next().unwrap();
            let section = format!("{RUNBOOK}#{}", alert.to_lowercase());
            assert!(rule.contains(&format!("runbook: {section}\n")), "{alert}");
            let link = section.strip_prefix("docs/users/").unwrap();
            assert!(
                operations.contains(&format!("[`{alert}`]({link})")),
                "{alert}"
            );
            // A heading alone would not help.
            let (_, after) = document.split_once(&format!("### {alert}\n")).unwrap();
            let body = after.split("\n#").next().unwrap();
            assert!(body.split_whitespace().count() > 30, "{alert}: {body}");
        }
    }
}
