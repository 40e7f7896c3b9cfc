// SPDX-License-Identifier: GPL-2.0-only

//! Parser of the output of Rust's test programs.

use std::{collections::HashMap, process::ExitStatus};

/// Results of one program.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) tests: Vec<Single>,
    /// A problem beyond single tests: the program crashed, or its own count differs.
    pub(super) trouble: Option<String>,
}

/// One test. Ignored tests are left out.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Single {
    pub(super) name: String,
    pub(super) error: Option<String>,
}

impl Report {
    pub(super) fn parse(text: &str, status: ExitStatus) -> Self {
        let errors = errors(text);
        let tests: Vec<Single> = text
            .lines()
            .filter_map(verdict)
            .map(|(name, passed)| Single {
                name: name.to_owned(),
                error: (!passed).then(|| {
                    let error = errors.get(name).copied();
                    error.unwrap_or("the test printed nothing").to_owned()
                }),
            })
            .collect();
        let mut report = Self {
            tests,
            trouble: None,
        };
        let (passed, failed) = (report.passed(), report.failed());
        let counted = counts(text);
        if counted != (passed, failed) {
            report.trouble = Some(format!(
                "{passed} passed, {failed} failed are named, but {} and {} counted ({status})",
                counted.0, counted.1
            ));
        } else if failed == 0 && !status.success() {
            report.trouble = Some(format!("ended with {status}"));
        }
        report
    }

    pub(super) fn verdict(&self) -> String {
        format!("{} passed, {} failed", self.passed(), self.failed())
    }

    pub(super) fn is_good(&self) -> bool {
        self.trouble.is_none() && self.failed() == 0
    }

    /// Returns the names and errors of the failed tests.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tests
            .iter()
            .filter_map(|test| Some((test.name.as_str(), test.error.as_deref()?)))
    }

    fn passed(&self) -> usize {
        self.tests.len() - self.failed()
    }

    fn failed(&self) -> usize {
        self.errors().count()
    }
}

/// Returns an error without its backtrace.
pub(super) fn without_backtrace(error: &str) -> &str {
    let end = error.find("\nstack backtrace:");
    &error[..end.unwrap_or(error.len())]
}

/// Returns the names in the output of `--list`.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Parses `test name ... ok`, of unit and documentation tests.
fn verdict(line: &str) -> Option<(&str, bool)> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    match verdict.split([' ', ',']).next()? {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

/// Returns the numbers of passed and failed tests as counted by the programs.
fn counts(text: &str) -> (usize, usize) {
    let number = |line: &str, what: &str| -> usize {
        line.split([';', '.'])
            .filter_map(|part| part.trim().strip_suffix(what)?.trim().parse::<usize>().ok())
            .sum()
    };
    text.lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + number(line, "passed"),
                failed + number(line, "failed"),
            )
        })
}

/// Returns the output of failed tests: `---- name stdout ----` and the lines below.
fn errors(text: &str) -> HashMap<&str, &str> {
    text.split("\n---- ")
        .skip(1)
        .filter_map(|block| {
            let (head, body) = block.split_once('\n')?;
            let name = head.strip_suffix(" stdout ----")?;
            let end = body.find("\nfailures:").unwrap_or(body.len());
            Some((name, body[..end].trim()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const OUTPUT: &str = "\nrunning 5 tests\ntest a::one ... ok\ntest a::two ... FAILED\n\
        test a::three ... ignored, needs a VM\ntest a::four - should panic ... ok\n\
        test a/src/m.rs - m::T (line 24) ... ok\n\nfailures:\n\n---- a::two stdout ----\n\n\
        thread 'a::two' panicked at a.rs:1:1:\nno\n\n\nfailures:\n    a::two\n\n\
        test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";

    fn status(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn every_test_is_counted_once() {
        let report = Report::parse(OUTPUT, status(101));
        assert_eq!(report.verdict(), "3 passed, 1 failed");
        assert_eq!(report.trouble, None);
        assert!(!report.is_good());
        let names: Vec<&str> = report.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(
            names,
            ["a::one", "a::two", "a::four", "a/src/m.rs - m::T (line 24)"]
        );
        assert_eq!(
            report.tests[1].error.as_deref(),
            Some("thread 'a::two' panicked at a.rs:1:1:\nno")
        );
    }

    #[test]
    fn several_programs_add_up() {
        let twice = format!("{OUTPUT}{}", OUTPUT.replace("a::", "b::"));
        let report = Report::parse(&twice, status(101));
        assert_eq!(report.verdict(), "6 passed, 2 failed");
        assert_eq!(report.trouble, None);
    }

    #[test]
    fn a_crashed_program_is_a_problem() {
        let cut = "running 2 tests\ntest a ... ok\n";
        assert!(
            Report::parse(cut, ExitStatus::from_raw(11))
                .trouble
                .is_some()
        );
        assert!(Report::parse("", status(1)).trouble.is_some());
        assert!(Report::parse("", status(0)).is_good());
    }

    #[test]
    fn a_missing_line_is_a_problem() {
        let lost = OUTPUT.replace("test a::one ... ok\n", "");
        assert!(Report::parse(&lost, status(101)).trouble.is_some());
    }

    #[test]
    fn lists_are_read() {
        let list = "a::one: test\nb (line 3): test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["a::one", "b (line 3)"]);
    }
}
