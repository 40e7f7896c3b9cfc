// SPDX-License-Identifier: GPL-2.0-only

//! Selection of cgroups by the names that users know.

use super::Pattern;
use crate::discovery::{Identity, Reference, Runtime, place};
use globset::{GlobBuilder, GlobMatcher};
use std::{collections::BTreeMap, fmt};

/// A name, or a glob of names, in which `*` stands for any characters.
#[derive(Clone)]
pub struct Name {
    text: String,
    glob: Option<Box<GlobMatcher>>,
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Name").field(&self.text).finish()
    }
}

impl Name {
    /// Parses a name or a glob.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a name may not be empty".into());
        }
        let glob = if text.contains(['*', '?', '[', '{']) {
            let glob = GlobBuilder::new(text).backslash_escape(false).build();
            let glob = glob.map_err(|error| error.to_string())?;
            Some(Box::new(glob.compile_matcher()))
        } else {
            None
        };
        Ok(Self {
            text: text.into(),
            glob,
        })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.is_match(name),
            None => self.text == name,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The key by which an entry of the file selects cgroups.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    /// `cgroup`: by path.
    Cgroup(Pattern),
    /// `pod`: a Kubernetes pod, all its containers or one of them.
    Pod {
        /// The namespace; any if absent.
        namespace: Option<Name>,
        /// The pod's name.
        pod: Name,
        /// The container; all of the pod if absent.
        container: Option<Name>,
        /// Annotations that the pod must have.
        annotations: BTreeMap<String, Name>,
    },
    /// `docker`, `podman`, `containerd`, `lxc`: by the name the runtime's own tools show.
    Runtime(Runtime, Name),
    /// `unit`: a unit of the system's manager.
    Unit(Name),
    /// `user_unit`: a unit of a user's manager.
    UserUnit {
        /// The user's id.
        user: Name,
        /// The unit's name.
        unit: Name,
    },
}

impl Selector {
    /// Parses `unit`. A name without a suffix is that of a service.
    pub fn unit(text: &str) -> Result<Self, String> {
        unit_name(text).map(Self::Unit)
    }

    /// Parses `user_unit`, which has a user's id and a unit. The id is needed because each user can
    /// name units freely.
    pub fn user_unit(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not of the form UID/UNIT, such as `1000/nginx`");
        let (user, unit) = text.split_once('/').ok_or_else(form)?;
        if user.is_empty() || unit.is_empty() || user.contains(char::is_alphabetic) {
            return Err(form());
        }
        Ok(Self::UserUnit {
            user: Name::parse(user)?,
            unit: unit_name(unit)?,
        })
    }

    /// Parses `pod` (`name` or `namespace/name`) and `pod_container`.
    pub fn pod(
        pod: &str,
        container: Option<&str>,
        annotations: BTreeMap<String, Name>,
    ) -> Result<Self, String> {
        let (namespace, pod) = match pod.split_once('/') {
            Some((namespace, pod)) => (Some(Name::parse(namespace)?), pod),
            None => (None, pod),
        };
        Ok(Self::Pod {
            namespace,
            pod: Name::parse(pod)?,
            container: container.map(Name::parse).transpose()?,
            annotations,
        })
    }

    /// Returns the selector as it was written, to compare selectors and to show them.
    pub fn text(&self) -> String {
        match self {
            Self::Cgroup(pattern) => pattern.text().into(),
            Self::Pod {
                namespace,
                pod,
                container,
                annotations,
            } => {
                let part = |name: &Option<Name>| {
                    name.as_ref()
                        .map_or_else(|| "*".into(), |name| name.text.clone())
                };
                let annotations = annotations.iter();
                let annotations: String = annotations
                    .map(|(key, value)| format!(" {key}={}", value.text))
                    .collect();
                let (namespace, container) = (part(namespace), part(container));
                format!("pod {namespace}/{}/{container}{annotations}", pod.text)
            }
            Self::Runtime(runtime, name) => format!("{} {}", runtime.word(), name.text),
            Self::Unit(name) => name.text.clone(),
            Self::UserUnit { user, unit } => format!("{}/{}", user.text, unit.text),
        }
    }

    /// Returns whether it can select several cgroups.
    pub fn is_glob(&self) -> bool {
        match self {
            Self::Cgroup(pattern) => pattern.is_glob(),
            // A pod can have several containers, and a name without a namespace can be that of
            // several pods.
            Self::Pod { .. } => true,
            Self::Runtime(_, name) | Self::Unit(name) => name.glob.is_some(),
            Self::UserUnit { user, unit } => user.glob.is_some() || unit.glob.is_some(),
        }
    }

    /// Returns whether it has the name of one container, unit or pod, and no glob in its place.
    pub fn is_literal(&self) -> bool {
        match self {
            Self::Pod { pod, .. } => pod.glob.is_none(),
            _ => !self.is_glob(),
        }
    }

    /// Returns whether it can select a cgroup, judged by the path alone.
    pub fn may_mean(&self, cgroup: &str) -> bool {
        match self {
            Self::Pod { .. } => Reference::of(cgroup).is_some(),
            Self::Runtime(runtime, _) => {
                Reference::of(cgroup).is_some_and(|found| found.runtime == *runtime)
            }
            Self::Cgroup(_) | Self::Unit(_) | Self::UserUnit { .. } => self.matches(cgroup, None),
        }
    }

    /// Returns whether it can select cgroups below a path.
    pub fn leads(&self, cgroup: &str) -> bool {
        match self {
            Self::Cgroup(pattern) => pattern.leads(cgroup),
            Self::Pod { .. } | Self::Runtime(..) => Reference::leads(cgroup),
            Self::Unit(_) => place::is_of_slices(cgroup),
            Self::UserUnit { .. } => place::leads_to_users(cgroup),
        }
    }

    /// Returns whether it needs the identity that the runtime has for a cgroup. Paths and units
    /// need none.
    pub fn needs_identity(&self) -> bool {
        matches!(self, Self::Pod { .. } | Self::Runtime(..))
    }

    /// Returns whether it selects a cgroup. `identity` is the answer of its runtime, if there is
    /// one.
    pub fn matches(&self, cgroup: &str, identity: Option<&Identity>) -> bool {
        match self {
            Self::Cgroup(pattern) => pattern.matches(cgroup),
            Self::Unit(name) => {
                let system = |(way, _): &(&str, &str)| place::is_of_slices(way);
                let unit = unit_of(cgroup).filter(system);
                unit.is_some_and(|(_, unit)| name.matches(unit))
            }
            Self::UserUnit { user, unit } => unit_of(cgroup).is_some_and(|(way, own)| {
                place::user_of(way).is_some_and(|owner| user.matches(owner)) && unit.matches(own)
            }),
            Self::Runtime(runtime, name) => identity
                .is_some_and(|one| one.runtime == *runtime && names(one).any(|n| name.matches(n))),
            Self::Pod {
                namespace,
                pod,
                container,
                annotations,
            } => identity.and_then(|one| one.pod.as_ref()).is_some_and(|of| {
                namespace
                    .as_ref()
                    .is_none_or(|name| name.matches(&of.namespace))
                    && pod.matches(&of.name)
                    && container
                        .as_ref()
                        .is_none_or(|name| name.matches(&of.container))
                    && annotations.iter().all(|(key, name)| {
                        let value = of.annotations.get(key);
                        value.is_some_and(|value| name.matches(value))
                    })
            }),
        }
    }
}

/// Returns the name of a container and its id, complete and as short as tools show it.
fn names(identity: &Identity) -> impl Iterator<Item = &str> {
    const SHOWN: usize = 12;
    let short = identity.id.get(..SHOWN).unwrap_or(&identity.id);
    [identity.name.as_str(), identity.id.as_str(), short].into_iter()
}

const UNIT_KINDS: [&str; 3] = [".service", ".scope", ".slice"];

/// Parses the name of a unit. A name without a suffix is that of a service.
fn unit_name(text: &str) -> Result<Name, String> {
    if text.contains('/') {
        return Err(format!("`{text}` is a path; use `cgroup` for paths"));
    }
    if UNIT_KINDS.iter().any(|kind| text.ends_with(kind)) {
        return Name::parse(text);
    }
    Name::parse(&format!("{text}.service"))
}

/// Returns the parent of a unit's cgroup, and the unit's name.
fn unit_of(cgroup: &str) -> Option<(&str, &str)> {
    let (way, unit) = cgroup.rsplit_once('/')?;
    let is_unit = UNIT_KINDS.iter().any(|kind| unit.ends_with(kind));
    is_unit.then_some((way, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Pod;

    fn identity(runtime: Runtime, name: &str) -> Identity {
        Identity {
            runtime,
            id: "3f".repeat(32),
            name: name.into(),
            pod: None,
        }
    }

    #[test]
    fn units_are_found_wherever_their_slice_is() {
        let unit = Selector::unit("nginx").unwrap();
        assert!(unit.matches("/system.slice/nginx.service", None));
        assert!(unit.matches("/a.slice/a-b.slice/nginx.service", None));
        assert!(!unit.matches("/system.slice/nginx2.service", None));
        assert!(!unit.matches("/docker/1/system.slice/nginx.service", None));
        let slice = Selector::unit("batch-*.slice").unwrap();
        assert!(slice.matches("/batch.slice/batch-a.slice", None));
        // Each user can name units freely.
        let user = "/user.slice/user-1.slice/user@1.service/app.slice/nginx.service";
        assert!(!unit.matches(user, None));
        let theirs = Selector::user_unit("1/nginx").unwrap();
        assert!(theirs.matches(user, None));
    }

    #[test]
    fn runtimes_are_distinguished() {
        let web = Selector::Runtime(Runtime::Docker, Name::parse("web*").unwrap());
        assert!(web.matches("/x", Some(&identity(Runtime::Docker, "web-1"))));
        assert!(!web.matches("/x", Some(&identity(Runtime::Podman, "web-1"))));
        assert!(!web.matches("/web-1", None));
        let id = Selector::Runtime(Runtime::Docker, Name::parse("3f3f3f3f3f3f").unwrap());
        assert!(id.matches("/x", Some(&identity(Runtime::Docker, "db"))));
    }

    #[test]
    fn pods_have_namespaces_and_containers() {
        let mut one = identity(Runtime::Containerd, "nginx");
        one.pod = Some(Pod {
            namespace: "shop".into(),
            name: "web-0".into(),
            container: "nginx".into(),
            annotations: BTreeMap::from([("class".into(), "gold".into())]),
        });
        let with = |pod: &str, container: Option<&str>, annotations: &[(&str, &str)]| {
            let annotations = annotations.iter();
            let annotations =
                annotations.map(|(key, name)| ((*key).into(), Name::parse(name).unwrap()));
            let pod = Selector::pod(pod, container, annotations.collect()).unwrap();
            pod.matches("/x", Some(&one))
        };
        let matches = |pod: &str, container: Option<&str>| with(pod, container, &[]);
        assert!(matches("web-*", None) && matches("shop/web-0", Some("nginx")));
        assert!(!matches("other/web-0", None) && !matches("web-0", Some("sidecar")));
        let class = |name: &str| with("shop/*", None, &[("class", name)]);
        assert!(class("gold") && class("g*") && !class("silver"));
        assert!(!with("*", None, &[("class", "gold"), ("tier", "*")]));
        assert!(!with("other/*", None, &[("class", "gold")]));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Selector::unit("a/b").is_err() && Selector::unit("a[").is_err());
        assert!(Selector::pod("a/", None, BTreeMap::new()).is_err());
        assert!(Selector::pod("", None, BTreeMap::new()).is_err());
    }
}
