// SPDX-License-Identifier: GPL-2.0-only

//! The Debian mirror of this machine, from its apt configuration.

use std::{collections::HashMap, env, fs, path::Path};

use anyhow::{Context as _, Result};

/// Suites of Debian, as opposed to those of third parties' repositories.
const SUITES: [&str; 9] = [
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "unstable",
    "testing",
    "stable",
    "oldstable",
];

/// Returns the mirror's address.
pub(crate) fn find() -> Result<String> {
    if let Ok(mirror) = env::var("DD_DEBIAN_MIRROR") {
        return Ok(mirror);
    }
    sources()
        .iter()
        .find_map(|(name, text)| {
            let uri = match name.ends_with(".sources") {
                true => from_deb822(text),
                false => from_list(text),
            };
            uri.and_then(|uri| resolve(&uri))
        })
        .context(
            "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d; \
             set DD_DEBIAN_MIRROR",
        )
}

/// Returns name and content of the source files, in apt's order.
fn sources() -> Vec<(String, String)> {
    let dir = Path::new("/etc/apt/sources.list.d");
    let mut paths = vec![Path::new("/etc/apt/sources.list").to_owned()];
    if let Ok(entries) = fs::read_dir(dir) {
        let mut more: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        more.sort();
        paths.extend(more);
    }
    paths
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "list" || end == "sources")
        })
        .filter_map(|path| Some((path.display().to_string(), fs::read_to_string(path).ok()?)))
        .collect()
}

/// Parses lines of the form `deb [options] URI suite component…`.
fn from_list(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        (is_debian(suite) && words.any(|word| word == "main")).then(|| uri.to_owned())
    })
}

/// Parses paragraphs of `Field: value` lines, which continue in lines that begin with a blank.
fn from_deb822(text: &str) -> Option<String> {
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    text.split("\n\n").find_map(|paragraph| {
        let fields = fields(paragraph);
        let has = |field: &str, wanted: &dyn Fn(&str) -> bool| {
            fields
                .get(field)
                .is_some_and(|value| value.split_whitespace().any(wanted))
        };
        let enabled = !has("enabled", &|word| word == "no");
        let fits = has("types", &|word| word == "deb")
            && has("suites", &is_debian)
            && has("components", &|word| word == "main");
        let uri = fields.get("uris")?.split_whitespace().next()?;
        (enabled && fits).then(|| uri.to_owned())
    })
}

fn fields(paragraph: &str) -> HashMap<String, String> {
    let mut fields: HashMap<String, String> = HashMap::new();
    let mut last = String::new();
    for line in paragraph.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some(value) = fields.get_mut(&last) {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            last = name.to_lowercase();
            fields.insert(last.clone(), value.trim().to_owned());
        }
    }
    fields
}

fn is_debian(suite: &str) -> bool {
    SUITES.contains(&suite)
}

/// Resolves `mirror+file:`, which names a list of mirrors.
fn resolve(uri: &str) -> Option<String> {
    let Some(path) = uri.strip_prefix("mirror+file:") else {
        return Some(uri.trim_end_matches('/').to_owned());
    };
    let list = fs::read_to_string(path.trim_start_matches("//")).ok()?;
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|word| !word.starts_with('#'))
        .map(|word| word.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_style() {
        let text = "# deb http://old/debian bookworm main\n\
            deb [arch=amd64] https://third/party trixie-tools main\n\
            deb-src http://a/debian trixie main\n\
            deb [signed-by=/k.gpg arch=amd64] http://mirror/debian trixie main contrib\n";
        assert_eq!(from_list(text).unwrap(), "http://mirror/debian");
        assert_eq!(from_list("deb http://x/ubuntu noble main"), None);
    }

    #[test]
    fn deb822_style() {
        let text = "Types: deb\nURIs: http://x/security\nSuites: trixie-security\nComponents: main\n\n\
            Types: deb deb-src\n# comment\nURIs:\n http://mirror/debian\nSuites: trixie trixie-updates\n\
            Components: main\n";
        assert_eq!(from_deb822(text).unwrap(), "http://mirror/debian");
        let off = format!("Enabled: no\n{}", text.split("\n\n").nth(1).unwrap());
        assert_eq!(from_deb822(&off), None);
    }
}
