// SPDX-License-Identifier: GPL-2.0-only

//! Patterns of cgroup paths, and names of pools.

use crate::discovery::{Identity, place::DEEPEST};
use ddabi::NAME_LEN;
use ddnl::is_hidden;
use globset::{GlobBuilder, GlobMatcher};
use std::fmt;

/// A path below the cgroup root, or a glob of such paths.
///
/// `*` and `?` stay within one part of the path, `**` does not; `{a,b}` and `[a-z]` are
/// alternatives.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    glob: Option<GlobMatcher>,
    /// The patterns of ancestors of matching paths, by their number of components, from one on.
    stems: Vec<Stem>,
    /// Whether paths of any length can match below the longest of these.
    open: bool,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

/// The first components of a pattern.
#[derive(Clone)]
enum Stem {
    Glob(GlobMatcher),
    Text(String),
}

impl Stem {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(path),
            Self::Text(text) => text == path,
        }
    }
}

impl Pattern {
    /// Parses a pattern. Paths may be given with or without the usual mount point.
    pub fn parse(text: &str) -> Result<Self, String> {
        let below = match text.strip_prefix("/sys/fs/cgroup") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => text,
        };
        let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            return Err(
                "the root cgroup cannot be a container; its weight is `default_pool_weight`".into(),
            );
        }
        if parts.iter().any(|part| [".", ".."].contains(part)) {
            return Err(format!("`{text}` may not contain `.` or `..`"));
        }
        let text = format!("/{}", parts.join("/"));
        let glob = match is_glob(&text) {
            true => Some(compile(&text)?),
            false => None,
        };
        let (mut stems, mut open) = (Vec::new(), false);
        for (at, part) in parts.iter().enumerate() {
            if let Some(count) = at.checked_sub(1) {
                let stem = format!("/{}", parts[..=count].join("/"));
                let stem = match is_glob(&stem) {
                    true => compile(&stem).ok().map(Stem::Glob),
                    false => Some(Stem::Text(stem)),
                };
                // Braces can contain slashes, in which case a part of the pattern may not be a
                // valid glob.
                open |= stem.is_none();
                stems.extend(stem);
            }
            open |= part.contains("**");
            if open {
                break;
            }
        }
        Ok(Self {
            text,
            glob,
            stems,
            open,
        })
    }

    /// Returns the normalised path or glob.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it can match several cgroups.
    pub fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    /// Returns whether matching cgroups can be below a path.
    pub fn leads(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        let ends: Vec<usize> = ends.chain([path.len()]).collect();
        let depth = if path.is_empty() { 0 } else { ends.len() };
        let stem = match depth.checked_sub(1) {
            None => return true,
            Some(at) if at < self.stems.len() => &self.stems[at],
            Some(_) if !self.open || depth >= DEEPEST => return false,
            Some(_) => match self.stems.last() {
                Some(stem) => stem,
                None => return true,
            },
        };
        let depth = depth.min(self.stems.len());
        stem.matches(&path[..ends[depth - 1]])
    }

    /// Returns whether a cgroup with this path below the root matches.
    pub fn matches(&self, cgroup: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.is_match(cgroup),
            None => self.text == cgroup,
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

fn compile(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text)
        .literal_separator(true)
        // Names of systemd's units have `\x2d` for a dash, so that a backslash does not escape.
        .backslash_escape(false)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(glob.compile_matcher())
}

/// Returns the name of the pool of `cgroup`. `{}` in `name` stands for the name that its runtime
/// gives, or else for the last component of its path. It is appended to a name without `{}` if
/// there are `many` cgroups.
pub(super) fn pool_name(
    name: &str,
    many: bool,
    cgroup: &str,
    identity: Option<&Identity>,
) -> String {
    let part = match identity {
        Some(identity) => identity.title(),
        None => short(cgroup.rsplit('/').next().unwrap_or_default()).into(),
    };
    let full = if name.contains("{}") {
        name.replace("{}", &part)
    } else if many {
        format!("{name}-{part}")
    } else {
        name.into()
    };
    let printable = full.replace(is_hidden, "?");
    cut(&printable).into()
}

/// Returns a component without the suffix of a unit's type. A container id is cut to the digits
/// that container tools show.
fn short(part: &str) -> &str {
    const KINDS: [&str; 3] = [".scope", ".service", ".slice"];
    const ID_LEN: usize = 64;
    const SHOWN: usize = 12;
    let stem = KINDS
        .iter()
        .find_map(|kind| part.strip_suffix(kind))
        .unwrap_or(part);
    let is_id =
        |word: &&str| word.len() == ID_LEN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match stem.split(['-', ':']).find(is_id) {
        Some(id) => &id[..SHOWN],
        None => stem,
    }
}

/// Cuts a name to the maximum length of a pool's name.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_LEN);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn paths_match_themselves() {
        for text in ["/a/b", "a/b", "/sys/fs/cgroup/a/b", "/a//b/"] {
            let pattern = pattern(text);
            assert!(!pattern.is_glob());
            assert!(pattern.matches("/a/b"), "{text}");
            assert!(!pattern.matches("/a/b/c"), "{text}");
            assert!(!pattern.matches("/a"), "{text}");
        }
    }

    #[test]
    fn globs_stay_within_a_part() {
        let one = pattern("/system.slice/docker-*.scope");
        assert!(one.matches("/system.slice/docker-1.scope"));
        assert!(!one.matches("/system.slice/docker-1.scope/init"));
        assert!(!one.matches("/system.slice/docker-a/b.scope"));
        let deep = pattern("/kubepods.slice/**/cri-*.scope");
        assert!(deep.matches("/kubepods.slice/burstable/pod1/cri-7.scope"));
        let either = pattern("/{web,db}-[0-9]");
        assert!(either.matches("/web-1") && either.matches("/db-2") && !either.matches("/x-1"));
    }

    #[test]
    fn only_ancestors_of_matches_are_followed() {
        let leads = |text: &str, path: &str| pattern(text).leads(path);
        assert!(leads("/a/b/c", "") && leads("/a/b/c", "/a") && leads("/a/b/c", "/a/b"));
        assert!(!leads("/a/b/c", "/a/b/c") && !leads("/a/b/c", "/b") && !leads("/a/b/c", "/a/c"));
        assert!(leads("/a*/b/c", "/ax") && leads("/a*/b/c", "/ax/b"));
        assert!(!leads("/a*/b/c", "/b") && !leads("/a*/b/c", "/ax/c") && !leads("/*", "/a"));
        assert!(leads("/a/**/c", "/a/x/y") && !leads("/a/**/c", "/b/x"));
        assert!(!leads("/a/**/c", &format!("/a{}", "/x".repeat(20))));
        assert!(leads("/{a/b,c}/d", "/a/b"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Every ancestor of a matching path leads to it, so that a scan finds it.
        #[test]
        fn ancestors_of_every_match_are_followed(
            parts in prop::collection::vec("[ab*?]{1,2}|[*][*]|[{]a,b[}]|[{]a/b,b[}]|[\\[]ab[\\]]", 1..5),
            path in "(/[ab]{1,2}){1,6}",
        ) {
            let pattern = Pattern::parse(&parts.join("/"));
            let Ok(pattern) = pattern else { return Ok(()) };
            if pattern.matches(&path) {
                for (at, _) in path.match_indices('/') {
                    prop_assert!(pattern.leads(&path[..at]), "{} {path} {at}", pattern.text());
                }
            }
        }
    }

    #[test]
    fn systemd_escapes_are_letters() {
        assert!(pattern(r"/a\x2db.slice").matches(r"/a\x2db.slice"));
        assert!(pattern(r"/a\x2d*.slice").matches(r"/a\x2db.slice"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "/", "/sys/fs/cgroup", "/a/../b", "/a[", "/a{b"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pools_have_names() {
        let id = "3f".repeat(32);
        let name = |name: &str, pattern: &str, cgroup: &str| {
            let many = Pattern::parse(pattern).unwrap().is_glob();
            pool_name(name, many, cgroup, None)
        };
        assert_eq!(name("web", "/web.slice", "/web.slice"), "web");
        assert_eq!(name("c", "/*.slice", "/web.slice"), "c-web");
        assert_eq!(name("{}", "/*", "/nginx.service"), "nginx");
        let docker = format!("/docker-{id}.scope");
        assert_eq!(name("docker", "/docker-*", &docker), "docker-3f3f3f3f3f3f");
        let pod = format!("/cri-containerd:{id}");
        assert_eq!(name("pod {} x", "/cri*", &pod), "pod 3f3f3f3f3f3f x");
        let long = format!("/{}", "ä".repeat(50));
        assert_eq!(name("{}", "/*", &long).len(), 64);
    }
}
