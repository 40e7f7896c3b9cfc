// SPDX-License-Identifier: GPL-2.0-only

//! Man pages of the configuration files, from the sections of the documents that describe their
//! keys. The documents are the only descriptions of the keys; those of them that `policyd` and
//! `ddhostd` accept are compared with them by tests of these programs.

use crate::markdown::{blocks, section};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;

/// A page of a file.
pub(crate) struct Manual {
    /// The name of the file.
    pub(crate) name: &'static str,
    /// What it is, in a few words.
    about: &'static str,
    /// Its path.
    path: &'static str,
    document: &'static str,
    /// Headings of the document whose sections are in the page.
    sections: &'static [&'static str],
    /// Page of the program that reads it.
    program: &'static str,
}

pub(crate) const MANUALS: [Manual; 2] = [
    Manual {
        name: "policyd.toml",
        about: "weights and targets of the containers of a guest",
        path: "/etc/doubledecker/policyd.toml",
        document: include_str!("../../../docs/users/policyd.md"),
        sections: &["## The file", "### Proportional reclaim", "### Offload"],
        program: "policyd",
    },
    Manual {
        name: "host.toml",
        about: "weights of the VMs of a host, and its cache in memory and on SSDs",
        path: "/etc/doubledecker/host.toml",
        document: include_str!("../../../docs/users/ddhostd.md"),
        sections: &["## The file"],
        program: "ddhostd",
    },
];

/// Section of the manual for files.
pub(crate) const SECTION: &str = "5";

impl Manual {
    /// Returns the page in roff.
    pub(crate) fn roff(&self) -> Result<String> {
        let Self {
            name,
            about,
            path,
            program,
            ..
        } = self;
        let version = env!("CARGO_PKG_VERSION");
        let mut roff = format!(
            ".TH {name} {SECTION} \"\" \"DoubleDecker {version}\" DoubleDecker\n.SH NAME\n{name} \\- \
             {about}\n.SH SYNOPSIS\n{path}\n"
        );
        for heading in self.sections {
            let section = section(self.document, heading)
                .with_context(|| format!("{name}: there is no section {heading}"))?;
            blocks(section, &mut roff);
        }
        let _ = writeln!(
            roff,
            ".SH SEE ALSO\n.BR {program} (8),\n/usr/share/doc/doubledecker\\-tools/docs/users/{program}.md"
        );
        Ok(roff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::escaped;
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    /// Each first cell that is code is a term of the page.
    #[test]
    fn every_key_of_the_documents_is_in_a_page() {
        for manual in &MANUALS {
            let page = manual.roff().unwrap();
            let mut keys = 0;
            for heading in manual.sections {
                let section = section(manual.document, heading).unwrap();
                let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
                for key in rows.filter_map(|row| row.split('`').next()) {
                    let term = format!("\n.TP\n\\fB{}\\fR", escaped(key));
                    assert!(page.contains(&term), "{}: {key}", manual.name);
                    keys += 1;
                }
            }
            assert!(keys > 15, "{}: {keys}", manual.name);
            for rest in ["](", "`", "|---"] {
                assert!(!page.contains(rest), "{}: {rest}", manual.name);
            }
        }
    }

    /// groff finds no mistake; this is not checked where it is not installed.
    #[test]
    fn groff_accepts_the_pages() {
        for manual in &MANUALS {
            let groff = Command::new("groff")
                .args(["-man", "-Tutf8", "-wall", "-Wbreak", "-Kutf8"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut groff) = groff else { return };
            let page = manual.roff().unwrap();
            let mut input = groff.stdin.take().unwrap();
            std::thread::spawn(move || input.write_all(page.as_bytes()));
            let output = groff.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && told.is_empty(), "{told}");
        }
    }
}
