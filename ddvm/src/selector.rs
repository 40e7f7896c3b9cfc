// SPDX-License-Identifier: GPL-2.0-only

//! Selection of the VMs that an entry of the file is for.

use crate::vmm::Vmm;
use globset::{GlobBuilder, GlobMatcher};

/// Patterns that a VM must match, at least one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// Of the VM's name.
    pub name: Option<Pattern>,
    /// Of the VM's uuid.
    pub uuid: Option<Pattern>,
    /// Of the cgroup of its VMM, or of a cgroup above it.
    pub cgroup: Option<Pattern>,
}

impl Selector {
    /// Returns whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a VM matches all patterns. A name or uuid that is not known matches none.
    pub fn matches(&self, vmm: &Vmm) -> bool {
        let one = |pattern: &Option<Pattern>, text: &Option<String>| match (pattern, text) {
            (Some(pattern), Some(text)) => pattern.glob.is_match(text),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let cgroup = match (&self.cgroup, &vmm.cgroup) {
            (Some(pattern), Some(cgroup)) => pattern.is_above(cgroup),
            (Some(_), None) => false,
            (None, _) => true,
        };
        cgroup && one(&self.name, &vmm.name) && one(&self.uuid, &vmm.uuid)
    }

    /// Returns whether a VM that is not registered, so that only its name is known, may match. A VM
    /// is not taken for one that is selected by its uuid alone.
    pub fn may_match(&self, name: &str) -> bool {
        match &self.name {
            Some(pattern) => pattern.glob.is_match(name),
            None => self.uuid.is_none(),
        }
    }

    /// Returns the patterns as the file has them.
    pub fn text(&self) -> String {
        let part = |key: &str, pattern: &Option<Pattern>| {
            let text = &pattern.as_ref()?.text;
            Some(format!("{key} `{text}`"))
        };
        let parts = [
            part("name", &self.name),
            part("uuid", &self.uuid),
            part("cgroup", &self.cgroup),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }
}

/// A glob: `*` and `?` match any characters, `[a-z]` and `{a,b}` are alternatives. A backslash is
/// an ordinary character, because systemd writes `\x2d` for a dash in names of cgroups.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    glob: GlobMatcher,
}

impl Pattern {
    /// Parses a pattern of names.
    pub fn name(text: &str) -> Result<Self, String> {
        Self::compile(text, &mut GlobBuilder::new(text))
    }

    /// Returns the pattern of exactly this name.
    pub fn exactly(name: &str) -> Result<Self, String> {
        Self::name(&globset::escape(name))
    }

    /// Returns the pattern as the file has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a cgroup, or one above it, matches.
    pub fn is_above(&self, cgroup: &str) -> bool {
        let ends = cgroup.match_indices('/').map(|(at, _)| at).skip(1);
        let mut ends = ends.chain([cgroup.len()]);
        ends.any(|end| self.glob.is_match(&cgroup[..end]))
    }

    /// Parses a pattern of uuids, in which capital and small letters are equal.
    pub fn uuid(text: &str) -> Result<Self, String> {
        Self::compile(text, GlobBuilder::new(text).case_insensitive(true))
    }

    /// Parses a pattern of paths below the root of cgroup v2; the usual mount point may be written
    /// before them. `*` and `?` stay within one part of the path, `**` does not.
    pub fn cgroup(text: &str) -> Result<Self, String> {
        let path = match text.strip_prefix("/sys/fs/cgroup") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => text,
        };
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Err("every process is below the root cgroup; use `default` instead".into());
        }
        if !path.starts_with('/') {
            return Err(format!("`{text}` does not begin with a slash"));
        }
        Self::compile(path, GlobBuilder::new(path).literal_separator(true))
    }

    fn compile(text: &str, glob: &mut GlobBuilder<'_>) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".into());
        }
        let glob = glob.backslash_escape(false).build();
        Ok(Self {
            text: text.into(),
            glob: glob.map_err(|error| error.to_string())?.compile_matcher(),
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(name: Option<&str>, uuid: Option<&str>, cgroup: Option<&str>) -> Vmm {
        let text = |text: Option<&str>| text.map(Into::into);
        Vmm {
            name: text(name),
            uuid: text(uuid),
            cgroup: text(cgroup),
            ..Vmm::default()
        }
    }

    #[test]
    fn names_and_uuids_match_globs() {
        let by_name = |pattern: &str, name: &str| {
            let selector = Selector {
                name: Some(Pattern::name(pattern).unwrap()),
                ..Selector::default()
            };
            selector.matches(&vm(Some(name), None, None))
        };
        assert!(by_name("web", "web") && !by_name("web", "web2") && !by_name("web", "Web"));
        assert!(by_name("web-*", "web-1") && by_name("web-*", "web-a/b"));
        assert!(by_name("{web,db}-[0-9]", "db-7") && !by_name("{web,db}-[0-9]", "db-x"));
        let by_uuid = Selector {
            uuid: Some(Pattern::uuid("6B0A*").unwrap()),
            ..Selector::default()
        };
        assert!(by_uuid.matches(&vm(None, Some("6b0a5e44"), None)));
        assert!(!by_uuid.matches(&vm(Some("6b0a5e44"), None, None)));
    }

    #[test]
    fn cgroups_match_with_all_that_is_below() {
        let matches = |pattern: &str, cgroup: &str| {
            let selector = Selector {
                cgroup: Some(Pattern::cgroup(pattern).unwrap()),
                ..Selector::default()
            };
            selector.matches(&vm(None, None, Some(cgroup)))
        };
        let scope = r"/machine.slice/machine-qemu\x2d1\x2dweb.scope/libvirt/emulator";
        assert!(matches("/machine.slice", scope));
        assert!(matches("/sys/fs/cgroup/machine.slice/", scope));
        assert!(matches("/machine.slice/*web.scope", scope));
        assert!(matches(r"/machine.slice/machine-qemu\x2d*", scope));
        assert!(matches("/**/emulator", scope));
        assert!(!matches("/machine", scope) && !matches("/*/emulator", scope));
        assert!(!matches("/machine.slice", "/user.slice/machine.slice"));
        for wrong in ["", "/", "/sys/fs/cgroup", "machine.slice", "/a[b"] {
            assert!(Pattern::cgroup(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_patterns_must_match() {
        let selector = Selector {
            name: Some(Pattern::name("web*").unwrap()),
            cgroup: Some(Pattern::cgroup("/machine.slice").unwrap()),
            ..Selector::default()
        };
        let own = "/machine.slice/web.scope";
        assert!(selector.matches(&vm(Some("web"), None, Some(own))));
        assert!(!selector.matches(&vm(Some("web"), None, Some("/user.slice/x"))));
        assert!(!selector.matches(&vm(Some("db"), None, Some(own))));
        assert!(!selector.matches(&vm(None, None, Some(own))));
        assert!(!selector.matches(&vm(Some("web"), None, None)));
    }

    #[test]
    fn a_name_is_taken_as_it_is() {
        for name in ["web", "a*b", "[x]", "{a,b}", "a?", r"a\b", "!"] {
            let pattern = Pattern::exactly(name).unwrap();
            assert!(pattern.glob.is_match(name), "{name}");
        }
        assert!(!Pattern::exactly("a*").unwrap().glob.is_match("ab"));
    }
}
