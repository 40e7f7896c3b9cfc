// SPDX-License-Identifier: GPL-2.0-only

//! A kernel's configuration.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

/// The text of a `.config`.
#[derive(Debug)]
pub(crate) struct Config(String);

impl Config {
    /// Reads the configuration of a source tree.
    pub(crate) fn of(tree: &Path) -> Result<Self> {
        let path = tree.join(".config");
        let text = fs::read_to_string(&path);
        text.map(Self)
            .with_context(|| format!("cannot read {}", path.display()))
    }

    /// Returns the value of an option, without quotes.
    pub(crate) fn get(&self, option: &str) -> Option<&str> {
        let mut values = self.0.lines().filter_map(|line| {
            line.strip_prefix("CONFIG_")?
                .strip_prefix(option)?
                .strip_prefix('=')
        });
        values.next_back().map(|value| value.trim_matches('"'))
    }

    /// Returns the lines of a fragment that the configuration does not satisfy.
    pub(crate) fn unmet<'f>(&self, fragment: &'f str) -> Vec<&'f str> {
        let unmet =
            |line: &&str| wish(line).is_some_and(|(option, value)| self.get(option) != value);
        fragment.lines().filter(unmet).collect()
    }
}

/// Returns the option of a line, and its wanted value, if it has one.
fn wish(line: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = line.strip_prefix("# CONFIG_") {
        return Some((rest.strip_suffix(" is not set")?, None));
    }
    let (option, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
    Some((option, Some(value.trim_matches('"'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "CONFIG_KVM=m\nCONFIG_KVM_AMD=m\n# CONFIG_XEN is not set\n\
        CONFIG_CC_VERSION_TEXT=\"gcc-14 (Debian)\"\nCONFIG_USB=y\n";

    #[test]
    fn options_have_values() {
        let config = Config(CONFIG.to_owned());
        assert_eq!(config.get("KVM"), Some("m"));
        assert_eq!(config.get("CC_VERSION_TEXT"), Some("gcc-14 (Debian)"));
        assert_eq!(config.get("XEN"), None);
    }

    #[test]
    fn unsatisfied_options_are_named() {
        let config = Config(CONFIG.to_owned());
        let met = "# Words.\n\nCONFIG_KVM=m\n# CONFIG_XEN is not set\n# CONFIG_SOUND is not set\n";
        assert!(config.unmet(met).is_empty());
        let lines = ["CONFIG_KVM=y", "# CONFIG_USB is not set", "CONFIG_KASAN=y"];
        assert_eq!(config.unmet(&lines.join("\n")), lines);
    }
}
