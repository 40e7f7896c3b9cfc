// SPDX-License-Identifier: GPL-2.0-only

//! Trust in cgroups: only a cgroup at a place where no process but the runtime, or systemd itself,
//! can create one counts as a container.

use policyd::{
    config::Config,
    discovery::{Reference, Runtimes},
};
use std::fs;
use tempfile::TempDir;

const WEB: &str = "3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f";
const OTHER: &str = "00000000000000000000000000000000000000000000000000000000000000ff";
const FILE: &str = "\
[[container]]
name = \"web\"
docker = \"web\"
class = \"gold\"
[[container]]
name = \"mail\"
lxc = \"mail\"
class = \"gold\"
[[container]]
name = \"nginx\"
unit = \"nginx\"
class = \"gold\"
[[container]]
name = \"batch\"
unit = \"batch*.slice\"
";

/// Returns the container of the file that a cgroup is, on a machine whose docker knows `web`.
fn container(cgroup: &str) -> Option<String> {
    let root = TempDir::new().unwrap();
    let state = root
        .path()
        .join(format!("var/lib/docker/containers/{WEB}/config.v2.json"));
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    fs::write(state, r#"{"Name":"/web"}"#).unwrap();
    let config = Config::parse(FILE).unwrap();
    let identity = Runtimes::new(root.path(), &config).identify(cgroup);
    let container = config.container_of(cgroup, identity.as_ref());
    container.map(|one| one.name.clone())
}

#[test]
fn cgroups_of_runtimes_and_systemd_are_known() {
    for (cgroup, name) in [
        (format!("/system.slice/docker-{WEB}.scope"), "web"),
        (format!("/docker/{WEB}"), "web"),
        (
            format!("/shop.slice/shop-a.slice/docker-{WEB}.scope"),
            "web",
        ),
        ("/lxc.payload.mail".into(), "mail"),
        ("/lxc/mail".into(), "mail"),
        ("/system.slice/nginx.service".into(), "nginx"),
        ("/batch.slice/batch-night.slice".into(), "batch"),
    ] {
        assert_eq!(container(&cgroup).as_deref(), Some(name), "{cgroup}");
    }
}

#[test]
fn cgroups_of_other_users_are_no_containers() {
    let user = "/user.slice/user-1000.slice/user@1000.service";
    let inside = format!("/system.slice/docker-{OTHER}.scope");
    let pod = "/kubepods/burstable/pod1";
    for cgroup in [
        format!("{user}/docker-{WEB}.scope"),
        format!("{user}/x.slice/docker-{WEB}.scope"),
        format!("{user}/docker/{WEB}"),
        format!("{user}/lxc.payload.mail"),
        format!("{user}/app.slice/nginx.service"),
        format!("{user}/batch-mine.slice"),
        format!("{inside}/docker-{WEB}.scope"),
        format!("{inside}/docker/{WEB}"),
        format!("{inside}/lxc.payload.mail"),
        format!("{inside}/system.slice/nginx.service"),
        format!("/docker/{OTHER}/docker/{WEB}"),
        format!("/docker/{OTHER}/docker-{WEB}.scope"),
        "/lxc.payload.other/lxc.payload.mail".into(),
        "/lxc.payload.other/lxc/mail".into(),
        "/lxc.payload.other/system.slice/nginx.service".into(),
        "/lxc/other/lxc/mail".into(),
        format!("/system.slice/builder.service/docker/{WEB}"),
        format!("/system.slice/builder.service/docker-{WEB}.scope"),
        format!("/machine.slice/machine-a.scope/system.slice/docker-{WEB}.scope"),
        format!("{pod}/{OTHER}/docker-{WEB}.scope"),
    ] {
        assert_eq!(container(&cgroup), None, "{cgroup}");
    }
    // Below a pod only the kubelet's own directories lead to a container.
    for cgroup in [
        format!("{pod}/{OTHER}/{WEB}"),
        format!("{pod}/{OTHER}/kubepods/{WEB}"),
        format!("{user}/kubepods/burstable/pod1/{WEB}"),
        format!("{user}/k8s.io/{WEB}"),
        format!("{user}/x.slice:cri-containerd:{WEB}"),
        format!("{user}/user.slice/libpod-{WEB}.scope"),
    ] {
        assert_eq!(Reference::of(&cgroup), None, "{cgroup}");
    }
}

/// An entry selects a user's unit by the user's id, and only that user can create such a unit.
#[test]
fn a_users_unit_is_selected_by_its_user() {
    let config = Config::parse(
        "[[container]]\nname = \"a\"\nuser_unit = \"1000/nginx\"\n\
         [[container]]\nname = \"job {}\"\nuser_unit = \"*/job-*.scope\"\n",
    )
    .unwrap();
    let name = |cgroup: &str| config.container(cgroup).map(|one| one.name.as_str());
    let user = |number: u32| format!("/user.slice/user-{number}.slice/user@{number}.service");
    let unit = format!("{}/app.slice/nginx.service", user(1000));
    assert_eq!(name(&unit), Some("a"));
    assert_eq!(
        name(&format!("{}/app.slice/nginx.service", user(1001))),
        None
    );
    assert_eq!(name(&format!("{}/job-7.scope", user(1001))), Some("job {}"));
    assert_eq!(name("/system.slice/nginx.service"), None);
    let within = format!("{}/x.service{unit}", user(1001));
    assert_eq!(name(&within), None);
    let lies = "/user.slice/user-1001.slice/user@1000.service/nginx.service";
    assert_eq!(name(lies), None);
    for wrong in ["nginx", "1000/a/b", "/nginx", "1000/", "root/nginx"] {
        let file = format!("[[container]]\nname = \"a\"\nuser_unit = \"{wrong}\"\n");
        assert!(Config::parse(&file).is_err(), "{wrong}");
    }
}

/// Names that are not hashes are shown in full.
#[test]
fn names_of_lxc_are_not_cut() {
    let config = Config::parse("[[container]]\nname = \"{}\"\nlxc = \"*\"\n").unwrap();
    let mut runtimes = Runtimes::new(std::path::Path::new("/nowhere"), &config);
    let mut pool = |name: &str| {
        let cgroup = format!("/lxc.payload.{name}");
        let identity = runtimes.identify(&cgroup);
        let container = config.container_of(&cgroup, identity.as_ref()).unwrap();
        container.pool_name_of(&cgroup, identity.as_ref())
    };
    assert_eq!(pool("production-database-1"), "production-database-1");
    assert_eq!(pool("production-database-2"), "production-database-2");
}
