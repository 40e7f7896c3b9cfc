// SPDX-License-Identifier: GPL-2.0-only

//! Display of texts from untrusted sources.
//!
//! Names come from cgroups, containers, VMMs and guests. Characters that control a terminal, change
//! the direction of text or are invisible could make a name look like another one. Their numbers
//! are shown instead.

use ddabi::name::Name;
use std::{borrow::Cow, fmt::Write};

/// Returns whether a character is escaped. These are control characters, characters that Unicode
/// calls default ignorable (zero-width characters, direction marks, fillers, tags), and line
/// separators.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text in which hidden characters are replaced by their numbers: `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_hidden(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown.into()
}

/// Returns a name as the modules store and list it: bytes that are not printable ASCII are replaced
/// by question marks, and a name that is too long is truncated.
pub fn listed_name(name: &str) -> String {
    String::from_utf8_lossy(Name::new(name.as_bytes()).as_bytes()).into_owned()
}

/// Returns whether the modules list a name as `listed`.
pub fn is_listed_as(name: &str, listed: &str) -> bool {
    Name::new(name.as_bytes()).as_bytes() == listed.as_bytes()
}

/// Returns a JSON text with hidden characters in JSON escapes, so that parsers read the same
/// strings from it.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // A line end is always outside of strings, because JSON escapes it inside of them.
    let hides = |letter: char| is_hidden(letter) && letter != '\n';
    if !json.contains(hides) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if !hides(letter) {
            shown.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WILD: &str = "a\u{1b}[2J\u{7f}\u{9b}\u{202e}b\u{200b}\u{feff}\u{e0041}c";

    #[test]
    fn hidden_letters_are_shown() {
        assert_eq!(
            printable(WILD),
            "a\\u{1b}[2J\\u{7f}\\u{9b}\\u{202e}b\\u{200b}\\u{feff}\\u{e0041}c"
        );
    }

    #[test]
    fn other_letters_stay() {
        for text in [
            "",
            "web-1",
            "k\u{e4}se",
            "\u{6f22}\u{5b57}",
            r"a\x2db.slice",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(printable_json(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_means_the_same() {
        let json = serde_json::to_string_pretty(&[WILD]).unwrap();
        let shown = printable_json(&json);
        assert_eq!(
            shown.chars().find(|one| is_hidden(*one) && *one != '\n'),
            None
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [WILD]);
    }
}
