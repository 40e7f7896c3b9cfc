// SPDX-License-Identifier: GPL-2.0-only

//! Files are short enough to be read in one go.

use super::Source;

/// Maximum number of lines of a source file.
const MAX_LINES: usize = 800;
/// Maximum median of the lines of source files.
const MAX_MEDIAN: f64 = 250.0;
const CODE: [&str; 3] = [".rs", ".c", ".h"];
/// Number of files that the summary names, which are the longest ones.
const NAMED: usize = 3;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let lengths = lengths(sources);
    let mut broken: Vec<String> = lengths
        .iter()
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines; at most {MAX_LINES}"))
        .collect();
    if median(&lengths) > MAX_MEDIAN {
        broken.push(format!("half of the files exceed {MAX_MEDIAN} lines"));
    }
    broken
}

/// Returns a summary of one line.
pub(super) fn report(sources: &[Source]) -> String {
    let lengths = lengths(sources);
    let longest: Vec<String> = lengths
        .iter()
        .rev()
        .take(NAMED)
        .map(|(lines, path)| format!("{path} {lines}"))
        .collect();
    format!(
        "{} source files, median {} lines; longest: {}",
        lengths.len(),
        median(&lengths),
        longest.join(", ")
    )
}

/// Returns the number of lines and the path of each file, the shortest first.
fn lengths(sources: &[Source]) -> Vec<(usize, &str)> {
    let mut lengths: Vec<_> = sources
        .iter()
        .filter(|source| source.is(&CODE))
        .map(|source| (source.text.lines().count(), source.path.as_str()))
        .collect();
    lengths.sort_unstable();
    lengths
}

fn median(lengths: &[(usize, &str)]) -> f64 {
    let lines = lengths.iter().map(|(lines, _)| *lines as f64);
    ddlab::median(lines).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_a_long_median_are_found() {
        let file = |path: &str, lines: usize| Source::new(path, &"x\n".repeat(lines));
        let short = [file("a.rs", 800), file("b.c", 2), file("c.h", 250)];
        assert!(check(&short).is_empty());
        assert!(report(&short).starts_with("3 source files, median 250 lines; longest: a.rs 800"));
        assert_eq!(check(&[file("a.rs", 801)]).len(), 2);
        assert!(check(&[file("a.json", 801)]).is_empty());
    }
}
