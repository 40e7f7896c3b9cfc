// SPDX-License-Identifier: GPL-2.0-only

//! Tests of runtimes' files, with a directory in place of the root of a machine.

use policyd::{
    config::Config,
    discovery::{Identity, Pod, Runtime, Runtimes},
};
use serde_json::json;
use std::{collections::BTreeMap, fs};
use tempfile::TempDir;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn who(&self, cgroup: &str) -> Option<Identity> {
        self.who_by("", cgroup)
    }

    /// Returns the container of a cgroup, with a file of this text.
    fn who_by(&self, file: &str, cgroup: &str) -> Option<Identity> {
        let config = Config::parse(file).unwrap();
        Runtimes::new(self.0.path(), &config).identify(cgroup)
    }

    fn name(&self, cgroup: &str) -> Option<String> {
        self.who(cgroup).map(|one| one.name)
    }
}

#[test]
fn docker_names_its_containers() {
    let tree = Tree::new();
    let cgroup = format!("/system.slice/docker-{A}.scope");
    assert_eq!(tree.who(&cgroup), None);
    let path = format!("/var/lib/docker/containers/{A}/config.v2.json");
    tree.write(&path, "{\"Name\": \"/we");
    assert_eq!(tree.who(&cgroup), None, "half written");
    let state = json!({ "ID": A, "Name": "/web-1", "State": { "Running": true } });
    tree.write(&path, &state.to_string());
    assert_eq!(tree.name(&cgroup).as_deref(), Some("web-1"));
    assert_eq!(tree.name(&format!("/docker/{A}")).as_deref(), Some("web-1"));
    assert_eq!(tree.name(&format!("/docker/{B}")), None);
}

#[test]
fn podman_names_its_containers() {
    let tree = Tree::new();
    let list = json!([{ "id": B, "names": ["other"] }, { "id": A, "names": ["db", "db2"] }]);
    let storage = "/var/lib/containers/storage/overlay-containers";
    tree.write(&format!("{storage}/containers.json"), &list.to_string());
    let cgroup = format!("/machine.slice/libpod-{A}.scope");
    assert_eq!(tree.name(&cgroup).as_deref(), Some("db"));
    // Containers that do not outlive a reboot are listed in another file.
    tree.write(&format!("{storage}/containers.json"), "[]");
    tree.write(
        &format!("{storage}/volatile-containers.json"),
        &list.to_string(),
    );
    assert_eq!(tree.name(&cgroup).as_deref(), Some("db"));
}

#[test]
fn new_names_are_found() {
    let tree = Tree::new();
    let docker = format!("/var/lib/docker/containers/{A}/config.v2.json");
    let podman = "/var/lib/containers/storage/overlay-containers/containers.json";
    let mut runtimes = Runtimes::new(tree.0.path(), &Config::default());
    for name in ["old", "new"] {
        tree.write(&docker, &json!({ "Name": format!("/{name}") }).to_string());
        let list = json!([{ "id": A, "names": [name] }]);
        // containers/storage writes another file and renames it.
        let path = tree.0.path().join(&podman[1..]);
        let _ = fs::remove_file(path);
        tree.write(podman, &list.to_string());
        for cgroup in [
            format!("/docker/{A}"),
            format!("/machine.slice/libpod-{A}.scope"),
        ] {
            let found = runtimes.identify(&cgroup).unwrap();
            assert!(found.runtime.renames());
            assert_eq!(found.name, name);
        }
    }
}

/// The annotations of a container's bundle.
fn bundle(annotations: serde_json::Value) -> String {
    json!({ "ociVersion": "1.1.0", "process": {}, "annotations": annotations }).to_string()
}

fn pod() -> Option<Pod> {
    Some(Pod {
        namespace: "shop".into(),
        name: "web-0".into(),
        container: "nginx".into(),
        annotations: BTreeMap::new(),
    })
}

#[test]
fn kubernetes_names_pods_and_containers() {
    let tree = Tree::new();
    let tasks = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let of = |kind: &str| {
        bundle(json!({
            "io.kubernetes.cri.container-type": kind,
            "io.kubernetes.cri.container-name": "nginx",
            "io.kubernetes.cri.sandbox-name": "web-0",
            "io.kubernetes.cri.sandbox-namespace": "shop",
        }))
    };
    tree.write(&format!("{tasks}/{A}/config.json"), &of("container"));
    tree.write(&format!("{tasks}/{B}/config.json"), &of("sandbox"));
    let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice";
    let who = tree.who(&format!("{slice}/cri-containerd-{A}.scope"));
    let who = who.unwrap();
    assert_eq!((who.runtime, who.pod.clone()), (Runtime::Containerd, pod()));
    assert_eq!(who.title(), "web-0/nginx");
    // The pause container does not count as a container of the pod.
    let pause = tree.who(&format!("{slice}/cri-containerd-{B}.scope"));
    assert_eq!(pause.unwrap().pod, None);

    let storage = "/run/containers/storage/overlay-containers";
    let crio = bundle(json!({
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.container.name": "nginx",
        "io.kubernetes.pod.name": "web-0",
        "io.kubernetes.pod.namespace": "shop",
    }));
    tree.write(&format!("{storage}/{A}/userdata/config.json"), &crio);
    let who = tree.who(&format!("{slice}/crio-{A}.scope")).unwrap();
    assert_eq!((who.runtime, who.pod), (Runtime::Crio, pod()));
}

/// containerd and CRI-O copy annotations of a pod to the bundles of its containers.
#[test]
fn pods_are_selected_by_annotations() {
    let file = "[[container]]\nname = \"gold\"\npod = \"shop/*\"\n\
                pod_annotations = { \"cache.example.com/class\" = \"gold\" }\n\
                [[container]]\nname = \"other\"\npod = \"*\"\n";
    let config = Config::parse(file).unwrap();
    let tasks = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let storage = "/run/containers/storage/overlay-containers";
    let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice";
    let both = [
        (
            format!("{slice}/cri-containerd-{A}.scope"),
            format!("{tasks}/{A}/config.json"),
        ),
        (
            format!("{slice}/crio-{B}.scope"),
            format!("{storage}/{B}/userdata/config.json"),
        ),
    ];
    let long = "x".repeat(65);
    for (namespace, class, expected, kept) in [
        ("shop", Some("gold"), "gold", 1),
        ("shop", Some("silver"), "other", 1),
        ("shop", None, "other", 0),
        ("shop", Some(long.as_str()), "other", 0),
        // The file says whose pods may choose.
        ("play", Some("gold"), "other", 1),
    ] {
        let tree = Tree::new();
        let mut annotations = json!({
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "nginx",
            "io.kubernetes.cri.image-name": "docker.io/library/nginx:1.29",
            "io.kubernetes.cri.sandbox-id": B,
            "io.kubernetes.cri.sandbox-name": "web-0",
            "io.kubernetes.cri.sandbox-namespace": namespace,
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.cri-o.Annotations": "{\"cache.example.com/class\":\"none\"}",
            "io.kubernetes.container.name": "nginx",
            "io.kubernetes.pod.name": "web-0",
            "io.kubernetes.pod.namespace": namespace,
            "kubernetes.io/config.source": "api",
        });
        if let Some(class) = class {
            annotations["cache.example.com/class"] = class.into();
        }
        for (cgroup, path) in &both {
            tree.write(path, &bundle(annotations.clone()));
            let who = tree.who_by(file, cgroup).unwrap();
            let found = config.container_of(cgroup, Some(&who)).unwrap();
            assert_eq!(found.name, expected, "{namespace} {class:?} {cgroup}");
            assert_eq!(who.pod.unwrap().annotations.len(), kept, "{cgroup}");
        }
    }
}

#[test]
fn nerdctl_and_lxc_name_theirs() {
    let tree = Tree::new();
    let tasks = "/run/containerd/io.containerd.runtime.v2.task/default";
    let named = bundle(json!({ "nerdctl/name": "cache" }));
    tree.write(&format!("{tasks}/{A}/config.json"), &named);
    tree.write(&format!("{tasks}/{B}/config.json"), "{}");
    let name = |id: &str| tree.name(&format!("/default/{id}"));
    assert_eq!(name(A).as_deref(), Some("cache"));
    assert_eq!(name(B).as_deref(), Some(B));
    assert_eq!(tree.name("/lxc.payload.mail").as_deref(), Some("mail"));
}

/// Names are looked for in the directories of the file, and only there.
#[test]
fn runtimes_keep_their_files_where_the_file_says() {
    let file = "[runtimes]\n\
                docker = [\"/srv/none\", \"/srv/docker\"]\n\
                podman = [\"/srv/storage\"]\n\
                containerd = [\"/run/other/containerd\"]\n\
                crio = [\"/srv/crio\"]\n";
    let names = |name: &str| json!([{ "id": A, "names": [name] }]).to_string();
    let docker = |name: &str| json!({ "Name": format!("/{name}") }).to_string();
    let nerdctl = |name: &str| bundle(json!({ "nerdctl/name": name }));
    let crio = |name: &str| {
        bundle(json!({
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.container.name": name,
            "io.kubernetes.pod.name": "web-0",
            "io.kubernetes.pod.namespace": "shop",
        }))
    };
    let kubepods = format!("/kubepods.slice/kubepods-podx.slice/crio-{A}.scope");
    for (cgroup, usual, other, below, content) in [
        (
            format!("/docker/{A}"),
            "var/lib/docker",
            "srv/docker",
            format!("containers/{A}/config.v2.json"),
            &docker as &dyn Fn(&str) -> String,
        ),
        (
            format!("/machine.slice/libpod-{A}.scope"),
            "var/lib/containers/storage",
            "srv/storage",
            "btrfs-containers/containers.json".into(),
            &names,
        ),
        (
            format!("/default/{A}"),
            "run/containerd",
            "run/other/containerd",
            format!("io.containerd.runtime.v2.task/default/{A}/config.json"),
            &nerdctl,
        ),
        (
            kubepods,
            "run/containers/storage",
            "srv/crio",
            format!("overlay-containers/{A}/userdata/config.json"),
            &crio,
        ),
    ] {
        let tree = Tree::new();
        tree.write(&format!("{usual}/{below}"), &content("usual"));
        assert_eq!(tree.name(&cgroup).as_deref(), Some("usual"), "{cgroup}");
        assert_eq!(tree.who_by(file, &cgroup), None, "{cgroup}");
        tree.write(&format!("{other}/{below}"), &content("other"));
        let name = tree.who_by(file, &cgroup).map(|one| one.name);
        assert_eq!(name.as_deref(), Some("other"), "{cgroup}");
    }
}

/// k3s and RKE2 have a containerd of their own, beside that of the system.
#[test]
fn containerds_are_looked_for_in_both_usual_places() {
    let tree = Tree::new();
    for (state, id) in [("/run/containerd", A), ("/run/k3s/containerd", B)] {
        let path = format!("{state}/io.containerd.runtime.v2.task/k8s.io/{id}/config.json");
        tree.write(&path, &bundle(json!({ "nerdctl/name": state })));
        assert_eq!(tree.name(&format!("/k8s.io/{id}")).as_deref(), Some(state));
    }
}

#[test]
fn only_regular_lists_of_runtimes_are_read() {
    let tree = Tree::new();
    let path = format!("/var/lib/docker/containers/{A}/config.v2.json/x");
    tree.write(&path, "");
    assert_eq!(tree.who(&format!("/docker/{A}")), None);
}

#[test]
fn selectors_use_the_names_of_runtimes() {
    let config = Config::parse(
        "[[container]]\nname = \"{}\"\ndocker = \"web-*\"\n\
         [[container]]\nname = \"shop\"\npod = \"shop/web-*\"\nweight = 7\n",
    )
    .unwrap();
    assert!(config.asks_names());
    let mut who = Identity {
        runtime: Runtime::Docker,
        id: A.into(),
        name: "web-1".into(),
        pod: None,
    };
    let of = |who: &Identity| {
        let container = config.container_of("/x", Some(who))?;
        Some(container.pool_name_of("/x", Some(who)))
    };
    assert_eq!(of(&who).as_deref(), Some("web-1"));
    who.name = "db".into();
    assert_eq!(of(&who), None);
    who.pod = pod();
    assert_eq!(of(&who).as_deref(), Some("shop-web-0/nginx"));
}
