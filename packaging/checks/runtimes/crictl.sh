#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests that policyd finds a pod that containerd has made for the interface of Kubernetes, by its
# name and by its annotation. The client crictl takes the part of the kubelet.

set -eu
# shellcheck source=packaging/checks/runtimes/expect.sh
. /checks/runtimes/expect.sh
# shellcheck source=packaging/checks/runtimes/node.sh
. /checks/runtimes/node.sh

mount_all
mount_controllers
make_rootfs
trap end_node EXIT
start_containerd

# The network of the node needs no further plugins.
options='"linux": {"security_context": {"namespace_options": {"network": 2}},'
cat >"$work/pod.json" <<END
{"metadata": {"name": "web", "namespace": "shop", "uid": "shop"}, $options
 "cgroup_parent": "/kubepods/podshop"},
 "annotations": {"cache.example.com/class": "gold", "example.com/other": "gold"}}
END
cat >"$work/container.json" <<END
{"metadata": {"name": "server"}, "image": {"image": "localhost/busybox:1"}, $options
 "resources": {}}}
END
id=$(crictl run --no-pull "$work/container.json" "$work/pod.json")

gold='{ "cache.example.com/class" = "gold" }'
expect_found 'pod = "shop/web"' ''
expect_found 'pod = "shop/web"
pod_container = "server"' ''
expect_found "pod = \"shop/web\"
pod_annotations = $gold" ''
expect_missing 'does not run now' 'pod = "store/web"' ''
expect_missing 'does not run now' 'pod = "shop/web"
pod_annotations = { "cache.example.com/class" = "bronze" }' ''
# containerd does not pass this annotation on, because its file does not list it.
expect_missing 'does not run now' 'pod = "shop/web"
pod_annotations = { "example.com/other" = "gold" }' ''
crictl rm --force "$id"
# The sandbox, which still runs, is no container of the pod.
expect_missing 'does not run now' 'pod = "shop/web"' ''
