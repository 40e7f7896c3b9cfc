// SPDX-License-Identifier: GPL-2.0-only

//! Converts the Markdown of the documents to roff. It knows only what their descriptions of files
//! have: headings, paragraphs, tables, blocks of code, emphasis and links.

use std::fmt::Write as _;

/// Returns a section of a document with its heading, up to the next one of the same or a higher
/// level.
pub(crate) fn section<'a>(document: &'a str, heading: &str) -> Option<&'a str> {
    let begin = match document.starts_with(&format!("{heading}\n")) {
        true => 0,
        false => document.find(&format!("\n{heading}\n"))? + 1,
    };
    let level = heading.split(' ').next()?.len();
    let rest = &document[begin..];
    let mut at = 0;
    let mut is_code = false;
    for line in rest.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        if at > 0 && !is_code && (1..=level).contains(&marks) {
            return Some(&rest[..at]);
        }
        at += line.len();
    }
    Some(rest)
}

/// Writes the blocks of a section.
pub(crate) fn blocks(section: &str, roff: &mut String) {
    let mut lines = section.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            roff.push_str(".PP\n.EX\n");
            for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                roff.push_str(&safe(&escaped(line)));
            }
            roff.push_str(".EE\n");
        } else if let Some(title) = line.strip_prefix("## ") {
            let _ = writeln!(roff, ".SH {}", escaped(&title.to_uppercase()));
        } else if line.starts_with('#') {
            let _ = writeln!(roff, ".SS {}", inline(line.trim_start_matches(['#', ' '])));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            table(&rows, roff);
        } else if !line.is_empty() {
            let mut text = line.to_owned();
            while let Some(more) = lines.next_if(|line| is_text(line)) {
                text += " ";
                text += more;
            }
            roff.push_str(".PP\n");
            roff.push_str(&safe(&inline(&text)));
        }
    }
}

fn is_text(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(['#', '|']) && !line.starts_with("```")
}

/// Returns the cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" |").map(str::trim).collect()
}

/// Writes a table as a list: the first cell of a row is its term.
fn table(rows: &[Vec<&str>], roff: &mut String) {
    let Some((head, rows)) = rows.split_first() else {
        return;
    };
    // The second row is the line below the head.
    for row in rows.iter().skip(1) {
        let term = row.first().copied().unwrap_or_default();
        let _ = write!(roff, ".TP\n{}", safe(&inline(term)));
        let (mut texts, mut note) = (Vec::new(), String::new());
        for (title, cell) in head.iter().zip(row).skip(1) {
            match (*title, *cell) {
                (_, "" | "–") => {}
                ("default", "needed") => note = " (needed)".into(),
                ("default", cell) => note = format!(" (default: {cell})"),
                ("meaning" | "", cell) => texts.push(cell.into()),
                (title, cell) => texts.push(format!("{title}: {cell}.")),
            }
        }
        let text = texts.join(" ") + &note;
        if !text.is_empty() {
            roff.push_str(&safe(&inline(text.trim())));
        }
    }
}

/// Returns a text with its emphasis, with code in bold, and with links as their words.
fn inline(text: &str) -> String {
    let mut roff = String::new();
    let mut rest = text;
    let mut font = "\\fR";
    while let Some(at) = rest.find(['`', '*', '[']) {
        roff.push_str(&escaped(&rest[..at]));
        rest = &rest[at..];
        if let Some((code, after)) = rest.strip_prefix('`').and_then(|it| it.split_once('`')) {
            let _ = write!(roff, "\\fB{}{font}", escaped(code));
            rest = after;
        } else if let Some((words, after)) = link(rest) {
            roff.push_str(&inline(words));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('*') {
            let (new, after) = match after.strip_prefix('*') {
                Some(after) => ("\\fB", after),
                None => ("\\fI", after),
            };
            font = if font == new { "\\fR" } else { new };
            roff.push_str(font);
            rest = after;
        } else {
            roff.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    roff + &escaped(rest)
}

/// Returns the words of a link at the beginning of a text, and the text behind it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!words.contains(']')).then_some((words, after))
}

/// Returns a text in which roff sees no command but those that are added to it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Returns a line that roff does not take for a request, with its end.
fn safe(line: &str) -> String {
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roff(section: &str) -> String {
        let mut roff = String::new();
        blocks(section, &mut roff);
        roff
    }

    #[test]
    fn markdown_becomes_roff() {
        for (text, wanted) in [
            ("## The file\n", ".SH THE FILE\n"),
            ("### Which `a`\n", ".SS Which \\fBa\\fR\n"),
            ("one\ntwo\n\n.three\n", ".PP\none two\n.PP\n\\&.three\n"),
            ("a **b** *c* d-e\n", ".PP\na \\fBb\\fR \\fIc\\fR d\\-e\n"),
            ("**`a` b** c\n", ".PP\n\\fB\\fBa\\fB b\\fR c\n"),
            (
                "[x `y`](z.md#a) `[[b]]`\n",
                ".PP\nx \\fBy\\fR \\fB[[b]]\\fR\n",
            ),
            (
                "```toml\n'a' = \"\\\"\n# b\n\n```\n",
                ".PP\n.EX\n\\&'a' = \"\\e\"\n# b\n\n.EE\n",
            ),
            (
                "| key | default | meaning |\n|---|---|---|\n| `a` | | b |\n",
                ".TP\n\\fBa\\fR\nb\n",
            ),
            (
                "| key | default | meaning |\n|---|---|---|\n| `a` | 5 | b |\n| `c` | – | d \\| e |\n",
                ".TP\n\\fBa\\fR\nb (default: 5)\n.TP\n\\fBc\\fR\nd \\e| e\n",
            ),
        ] {
            assert_eq!(roff(text), wanted, "{text}");
        }
    }

    #[test]
    fn sections_end_at_the_next_of_their_level() {
        let document = "# a\n## b\nc\n```\n# d\n```\n### e\nf\n## g\nh\n";
        let found = |heading| section(document, heading);
        assert_eq!(found("## b"), Some("## b\nc\n```\n# d\n```\n### e\nf\n"));
        assert_eq!(found("### e"), Some("### e\nf\n"));
        assert_eq!(found("## g"), Some("## g\nh\n"));
        assert_eq!(found("# a"), Some(document));
        assert_eq!(found("## c"), None);
    }
}
