// SPDX-License-Identifier: GPL-2.0-only

//! Bundles of containers by the OCI runtime specification. Their annotations have the name of a
//! container and its place in Kubernetes.

use super::{Identity, Pod, Runtime, named};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The fields of a bundle's configuration that are used here.
#[derive(Deserialize)]
pub(super) struct Bundle {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Maximum length of a value of a pod's annotation that is kept, in bytes.
const MAX_VALUE_LEN: usize = 64;

impl Bundle {
    /// Returns the identity of a container of containerd. `asked` are the annotations of pods that
    /// are kept.
    pub(super) fn of_containerd(&self, id: String, asked: &BTreeSet<String>) -> Identity {
        let cri = |key: &str| self.annotation(&format!("io.kubernetes.cri.{key}"));
        let sandbox = cri("container-type").as_deref() == Some("sandbox");
        let pod = || {
            Some(Pod {
                namespace: cri("sandbox-namespace")?,
                name: cri("sandbox-name")?,
                container: cri("container-name")?,
                annotations: self.kept(asked),
            })
        };
        let pod = if sandbox { None } else { pod() };
        let name = pod
            .as_ref()
            .map(|pod| pod.container.clone())
            .or_else(|| self.annotation("nerdctl/name"))
            .unwrap_or_else(|| id.clone());
        Identity {
            pod,
            ..named(Runtime::Containerd, id, name)
        }
    }

    /// Returns the identity of a container of CRI-O.
    pub(super) fn of_crio(&self, id: String, asked: &BTreeSet<String>) -> Identity {
        let crio = |key: &str| self.annotation(&format!("io.kubernetes.{key}"));
        let sandbox = crio("cri-o.ContainerType").as_deref() == Some("sandbox");
        let pod = || {
            Some(Pod {
                namespace: crio("pod.namespace")?,
                name: crio("pod.name")?,
                container: crio("container.name")?,
                annotations: self.kept(asked),
            })
        };
        let pod = if sandbox { None } else { pod() };
        let name = pod
            .as_ref()
            .map_or_else(|| id.clone(), |pod| pod.container.clone());
        Identity {
            pod,
            ..named(Runtime::Crio, id, name)
        }
    }

    fn annotation(&self, key: &str) -> Option<String> {
        self.annotations.get(key).cloned()
    }

    fn kept(&self, asked: &BTreeSet<String>) -> BTreeMap<String, String> {
        let keep = |key: &String| {
            let value = self.annotations.get(key)?;
            (value.len() <= MAX_VALUE_LEN).then(|| (key.clone(), value.clone()))
        };
        asked.iter().filter_map(keep).collect()
    }
}
