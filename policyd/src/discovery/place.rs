// SPDX-License-Identifier: GPL-2.0-only

//! Which places of the cgroup tree belong to the system.
//!
//! Any user may make cgroups below `user@UID.service`, a container below its own scope, and a
//! service with `Delegate=` below itself, each under any name. Only systemd makes cgroups in
//! slices, and only a runtime in the few directories below the root that are its own.

/// How deep a place that others can fill is followed.
pub(crate) const DEEPEST: usize = 16;

/// Whether a path leads through slices only: only systemd, and runtimes that are root, make
/// cgroups there. The root does.
pub(crate) fn is_of_slices(path: &str) -> bool {
    parts(path).all(|part| part.ends_with(".slice"))
}

/// Whether a path is one of those where the kubelet has its pods, without systemd.
pub(crate) fn is_of_kubelet(path: &str) -> bool {
    let mut parts = parts(path);
    parts.next() == Some("kubepods")
        && parts.all(|part| ["besteffort", "burstable"].contains(&part) || part.starts_with("pod"))
}

/// The number of the user whose manager a path is, or whose slices it is below the manager.
pub(crate) fn user_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/user.slice/user-")?;
    let (user, rest) = rest.split_once(".slice/user@")?;
    let rest = rest.strip_prefix(user)?.strip_prefix(".service")?;
    (is_number(user) && (rest.is_empty() || rest.starts_with('/')) && is_of_slices(rest))
        .then_some(user)
}

/// Whether the manager of a user may be below a path, or what it has made.
pub(crate) fn leads_to_users(path: &str) -> bool {
    if user_of(path).is_some() {
        return depth(path) < DEEPEST;
    }
    let user = path.strip_prefix("/user.slice/user-");
    let user = user.and_then(|rest| rest.strip_suffix(".slice"));
    ["", "/user.slice"].contains(&path) || user.is_some_and(is_number)
}

/// How many parts a path has.
pub(crate) fn depth(path: &str) -> usize {
    parts(path).count()
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
