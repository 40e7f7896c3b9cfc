# SPDX-License-Identifier: GPL-2.0-only
"""Checks that the parts of the manifest refer to each other correctly."""

import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    objects = {one["kind"]: one for one in yaml.safe_load_all(file)}
assert set(objects) == {"Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"}, objects.keys()
namespace = objects.pop("Namespace")["metadata"]["name"]
for kind, one in objects.items():
    assert one["metadata"]["namespace"] == namespace, kind

spec = objects["DaemonSet"]["spec"]
pod = spec["template"]["spec"]
labels = spec["template"]["metadata"]["labels"]
assert spec["selector"]["matchLabels"].items() <= labels.items(), labels
assert pod["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"]
# The module uses the initial network namespace, and the cgroup namespace of the node.
assert pod["hostNetwork"] is True
(container,) = pod["containers"]
assert container["securityContext"]["privileged"] is True

volumes = {volume["name"]: volume for volume in pod["volumes"]}
mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
assert volumes.keys() == mounts.keys(), (volumes.keys(), mounts.keys())
for name, volume in volumes.items():
    # The files of the node have the same paths in the container as on the node.
    path = volume.get("hostPath", {}).get("path", mounts[name])
    assert path == mounts[name], (path, mounts[name])
assert volumes["config"]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
(file,) = objects["ConfigMap"]["data"]
assert f"{mounts['config']}/{file}" in container["args"], container["args"]
