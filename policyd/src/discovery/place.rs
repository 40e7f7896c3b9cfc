// SPDX-License-Identifier: GPL-2.0-only

//! Places of the cgroup tree that belong to the system.
//!
//! A user can create cgroups below `user@UID.service`, a container below its own scope, and a
//! service with `Delegate=` below itself, each under any name. Only systemd creates cgroups in
//! slices, and only a runtime in the few directories below the root that are its own.

/// The deepest level that is scanned where other users can create cgroups.
pub(crate) const DEEPEST: usize = 16;

/// Returns whether a path consists of slices only, in which only systemd, and runtimes that run as
/// root, create cgroups. The root is such a path.
pub(crate) fn is_of_slices(path: &str) -> bool {
    parts(path).all(|part| part.ends_with(".slice"))
}

/// Returns whether the kubelet puts its pods into this cgroup when it does not use systemd.
pub(crate) fn is_of_kubelet(path: &str) -> bool {
    let mut parts = parts(path);
    parts.next() == Some("kubepods")
        && parts.all(|part| ["besteffort", "burstable"].contains(&part) || part.starts_with("pod"))
}

/// Returns the id of the user whose manager has this path, or is an ancestor of this slice.
pub(crate) fn user_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/user.slice/user-")?;
    let (user, rest) = rest.split_once(".slice/user@")?;
    let rest = rest.strip_prefix(user)?.strip_prefix(".service")?;
    (is_number(user) && (rest.is_empty() || rest.starts_with('/')) && is_of_slices(rest))
        .then_some(user)
}

/// Returns whether a user's manager, or a unit of it, can be below a path.
pub(crate) fn leads_to_users(path: &str) -> bool {
    if user_of(path).is_some() {
        return depth(path) < DEEPEST;
    }
    let user = path.strip_prefix("/user.slice/user-");
    let user = user.and_then(|rest| rest.strip_suffix(".slice"));
    ["", "/user.slice"].contains(&path) || user.is_some_and(is_number)
}

/// Returns the number of components of a path.
pub(crate) fn depth(path: &str) -> usize {
    parts(path).count()
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
