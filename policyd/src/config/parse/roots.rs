// SPDX-License-Identifier: GPL-2.0-only

//! Directories of container runtimes.

use crate::config::Roots;
use ddconf::reader::Section;
use std::path::{Path, PathBuf};

pub(super) fn roots(mut section: Section<'_, '_, '_>) -> Roots {
    let mut roots = Roots::default();
    for (key, directories) in [
        ("containerd", &mut roots.containerd),
        ("crio", &mut roots.crio),
        ("docker", &mut roots.docker),
        ("podman", &mut roots.podman),
    ] {
        if let Some(given) = list(&mut section, key) {
            *directories = given;
        }
    }
    section.end();
    roots
}

/// Reads a list of absolute paths.
fn list(section: &mut Section<'_, '_, '_>, key: &'static str) -> Option<Vec<PathBuf>> {
    let value = section.value(key)?;
    let items = value.get_ref().as_array().into_iter().flatten();
    let texts: Vec<Option<&str>> = items.map(|item| item.get_ref().as_str()).collect();
    let is_list = value.get_ref().as_array().is_some() && !texts.contains(&None);
    let texts: Vec<&str> = texts.into_iter().flatten().collect();
    let relative = texts.iter().find(|text| !Path::new(text).is_absolute());
    let message = if !is_list {
        format!("`{key}` is a list of directories, such as [\"/srv/{key}\"]")
    } else if texts.is_empty() {
        format!("`{key}` is an empty list; without this key the usual directories are read")
    } else if let Some(relative) = relative {
        format!("`{key}`: `{relative}` is not an absolute path")
    } else {
        return Some(texts.into_iter().map(PathBuf::from).collect());
    };
    section.problem(value.span(), message);
    None
}
