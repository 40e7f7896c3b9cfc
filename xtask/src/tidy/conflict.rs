// SPDX-License-Identifier: GPL-2.0-only

//! No file has conflict markers of a merge.

use super::Source;

/// The markers before and after two versions of lines. The one between them is not used, because it
/// is also the underline of a title in Markdown.
const MARKS: [char; 2] = ['<', '>'];
const LEN: usize = 7;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(of).collect()
}

fn of(source: &Source) -> impl Iterator<Item = String> {
    let lines = source.text.lines().zip(1..);
    let marked = lines.filter(|(line, _)| MARKS.iter().any(|mark| is_mark(line, *mark)));
    marked.map(|(_, number)| format!("{}:{number}: conflict markers of a merge", source.path))
}

fn is_mark(line: &str, mark: char) -> bool {
    let rest = line.trim_start_matches(mark);
    line.len() - rest.len() == LEN && rest.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_merge_are_found() {
        let [open, shut] = MARKS.map(|mark| mark.to_string().repeat(LEN));
        let text = format!("one\n{open} HEAD\ntwo\n=======\nthree\n{shut} 1234 (more)\n");
        let found = check(&[Source::new("a.md", &text)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.md:2:") && found[1].starts_with("a.md:6:"));
    }

    #[test]
    fn titles_and_quotes_are_not_markers() {
        let text = "Title\n=======\n> words\n>>>>>>>> a deep quote\n<<<<<<<\n";
        assert!(check(&[Source::new("a.md", text)]).is_empty());
    }
}
