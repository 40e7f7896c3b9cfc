// SPDX-License-Identifier: GPL-2.0

//! The paper's table 4, scaled: Redis, MariaDB, nginx and SQLite in one guest, each with a target
//! for its throughput (section 5.2.1).
//!
//! A partition that the host alone decides ("Morai++" in the paper) can give file pages to this
//! or that container, however well it is searched for; what Redis and MariaDB lack is memory of
//! the guest. policyd moves both.

mod outcome;
mod service;
mod stand;

use anyhow::Result;
use ddlab::{Context, Scenario, Target};

use outcome::{Configuration, Outcome};
use service::SERVICES;
use stand::Stand;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "table-4",
    about: "Redis, MariaDB, nginx, SQLite: policyd meets targets that no host-only partition meets",
    quick: false,
    run,
};

/// Parts of the tier for nginx and SQLite, in percent.
const PARTITIONS: [(u32, u32); 3] = [(25, 75), (50, 50), (75, 25)];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let dir = context.output_dir()?;
    let mut stand = Stand::start(context.debian_lab()?)?;
    let most = stand.most()?;
    say(&format!("on fast disks: {most:.1?} answers a second"));
    let targets: Vec<f64> = most.iter().map(|rate| rate * outcome::PART).collect();
    let mut configurations = Vec::new();
    for (web, store) in PARTITIONS {
        let figures = stand.host_only(web, store)?;
        let name = format!("host alone, {web}:{store}");
        say(&format!("{name}: {figures:.1?}"));
        configurations.push(Configuration::new(name, figures));
    }
    let (met, explained, figures) = stand.promised(&targets)?;
    configurations.push(Configuration::new("policyd".to_owned(), figures));
    let outcome = Outcome {
        limit_mib: stand.limit_mib(),
        services: SERVICES.iter().map(|service| service.about).collect(),
        most,
        targets,
        configurations,
        found_met: met,
        explained,
    };
    outcome.write(&dir)?;
    say(&outcome.table());
    say(&format!("report: {}", dir.join("report.html").display()));
    Ok(outcome.promises())
}

fn say(text: &str) {
    for line in text.lines() {
        eprintln!("    table-4: {line}");
    }
}
