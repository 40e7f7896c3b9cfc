// SPDX-License-Identifier: GPL-2.0-only

//! Writes the man pages and the shell completions of the tools, from the definitions of their
//! command lines, and the man pages of their files, from the documents: `ddpages DIRECTORY` fills
//! `man`, `bash`, `fish` and `zsh` below the directory.

#![forbid(unsafe_code)]

mod manual;
mod markdown;
#[cfg(test)]
mod units;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::{Generator as _, Shell, env::Shells};
use clap_mangen::Man;
use manual::MANUALS;

/// A program's command line, and the section of its man pages.
type Program = (fn() -> Command, &'static str);

/// The programs. Section 1 is for all users, 8 for administrators.
const PROGRAMS: &[Program] = &[
    (ddctl::command, "1"),
    (ddhostd::cli::command, "8"),
    (policyd::cli::command, "8"),
];
/// The shells with their names for directories.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash"),
    (Shell::Fish, "fish"),
    (Shell::Zsh, "zsh"),
];

fn main() -> Result<()> {
    let out = env::args_os().nth(1).map(PathBuf::from);
    let out = out.context("usage: ddpages DIRECTORY")?;
    for (command, section) in PROGRAMS {
        man_pages(command(), section, &directory(&out, "man")?)?;
        for (shell, name) in SHELLS {
            let out = directory(&out, name)?;
            match command().get_name() {
                "ddctl" => registration("ddctl", shell, name, &out)?,
                _ => completion(command(), shell, name, &out)?,
            }
        }
    }
    manuals(&directory(&out, "man")?)
}

/// Writes the pages of the configuration files.
fn manuals(out: &Path) -> Result<()> {
    for manual in &MANUALS {
        let path = out.join(format!("{}.{}", manual.name, manual::SECTION));
        fs::write(&path, manual.roff()?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn directory(out: &Path, name: &str) -> Result<PathBuf> {
    let directory = out.join(name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(directory)
}

/// Writes the page of a program, and one for each of its verbs.
fn man_pages(mut command: Command, section: &str, out: &Path) -> Result<()> {
    // Verbs get the names that their pages have.
    command.build();
    page(&command, section, out)
}

fn page(command: &Command, section: &str, out: &Path) -> Result<()> {
    Man::new(command.clone())
        .section(section)
        .source(format!("DoubleDecker {}", env!("CARGO_PKG_VERSION")))
        .manual("DoubleDecker")
        .generate_to(out)
        .with_context(|| format!("cannot write a page to {}", out.display()))?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        page(verb, section, out)?;
    }
    Ok(())
}

fn completion(mut command: Command, shell: Shell, name: &str, out: &Path) -> Result<()> {
    let program = command.get_name().to_owned();
    clap_complete::generate_to(shell, &mut command, &program, out)
        .with_context(|| format!("cannot write the completion of {program} for {name}"))?;
    Ok(())
}

/// Writes the completion of a program that completes the names of VMs and containers itself: the
/// shell asks it for candidates.
fn registration(program: &str, shell: Shell, name: &str, out: &Path) -> Result<()> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(name)
        .with_context(|| format!("there is no completion for {name}"))?;
    let path = out.join(shell.file_name(program));
    let mut script = Vec::new();
    completer
        .write_registration("COMPLETE", program, program, program, &mut script)
        .and_then(|()| fs::write(&path, script))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_that_its_program_refers_to() {
        let out = tempfile::tempdir().unwrap();
        for (command, section) in PROGRAMS {
            man_pages(command(), section, out.path()).unwrap();
            let command = command();
            let read = |name: &str| {
                fs::read_to_string(out.path().join(format!("{name}.{section}"))).unwrap()
            };
            let page = read(command.get_name());
            for verb in command.get_subcommands() {
                let name = format!("{}-{}", command.get_name(), verb.get_name());
                assert!(page.contains(&name.replace('-', "\\-")), "{name}:\n{page}");
                let about = verb.get_about().unwrap().to_string();
                assert!(read(&name).contains(&about.replace('-', "\\-")), "{name}");
            }
        }
    }

    #[test]
    fn completions_ask_ddctl() {
        let out = tempfile::tempdir().unwrap();
        for (shell, name) in SHELLS {
            registration("ddctl", shell, name, out.path()).unwrap();
            let path = out.path().join(shell.file_name("ddctl"));
            let script = fs::read_to_string(path).unwrap();
            assert!(script.contains("COMPLETE"), "{script}");
        }
    }

    #[test]
    fn completions_know_the_verbs() {
        let out = tempfile::tempdir().unwrap();
        for (command, _) in &PROGRAMS[1..] {
            for (shell, name) in SHELLS {
                let out = directory(out.path(), name).unwrap();
                completion(command(), shell, name, &out).unwrap();
                let mut texts = fs::read_dir(&out).unwrap();
                let has = |verb: &Command| {
                    texts.any(|file| {
                        let text = fs::read_to_string(file.unwrap().path()).unwrap();
                        text.contains(verb.get_name())
                    })
                };
                assert!(
                    command().get_subcommands().next().is_some_and(has),
                    "{name}"
                );
            }
        }
    }
}
