# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# Functions that make this root a node of Kubernetes, after those of expect.sh.

export CONTAINER_RUNTIME_ENDPOINT=unix:///run/containerd/containerd.sock
daemons=

# Mounts controllers of version 1 in place of version 2 if the machine has them there. Pods are not
# started without controllers. A kubelet ends the pods that it does not know.
mount_controllers() {
    # Volumes may be mounted only below mounts that are shared, as systemd makes all of them.
    mount --make-rshared /
    if ! grep -qw memory "$cgroups/cgroup.controllers"; then
        mount -t tmpfs tmpfs "$cgroups"
        sed -n 's/^[0-9]*:\([a-z_,]\+\):.*/\1/p' /proc/self/cgroup | while read -r controllers; do
            mkdir "$cgroups/$controllers"
            mount -t cgroup -o "$controllers" cgroup "$cgroups/$controllers"
        done
        cgroups=$cgroups/memory
    fi
    remove_pods
    [ ! -e "$cgroups/kubepods" ] || fail 'this machine is a node of Kubernetes itself'
}

# Removes the cgroups of pods that have ended.
remove_pods() {
    find /sys/fs/cgroup -depth -type d \( -name kubepods -o -path '*/kubepods/*' \) \
        -exec rmdir {} + || :
}

# Starts a daemon. Its messages are in a file of its name.
start() {
    "$@" >"$work/$1.log" 2>&1 &
    daemons="$! $daemons"
}

# Ends all pods and daemons.
end_node() {
    find "$work" -name '*.log' -exec tail -n 30 {} +
    crictl rmp --all --force
    # shellcheck disable=SC2086
    kill $daemons
    wait
    umount --lazy /run/containerd "$work/kubelet" || :
    remove_pods
    leave kubepods
}

# Starts containerd with its usual state, which ends with the script, and with the image
# localhost/busybox:1, which is that of sandboxes as well.
start_containerd() {
    mkdir -p /run/containerd
    mount -t tmpfs tmpfs /run/containerd
    cat >"$work/containerd.toml" <<END
version = 2
root = "$work/root"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/busybox:1"
# The machine may forbid lower scores than its own.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["cache.example.com/*"]
END
    start containerd --config "$work/containerd.toml"
    wait_until ctr version
    make_image localhost/busybox:1 '"Cmd": ["/bin/sleep", "10000"]'
}

# Makes the image $1 from the root directory of a container, in the form of `docker save`. $2 is a
# part of its configuration.
make_image() {
    mkdir -p "$work/image"
    tar -C "$work/rootfs" -cf "$work/image/layer" .
    layer=$(sha256sum "$work/image/layer" | cut -d ' ' -f 1)
    cat >"$work/image/config" <<END
{"architecture": "amd64", "os": "linux", "config": {$2},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
END
    cat >"$work/image/manifest.json" <<END
[{"Config": "config", "RepoTags": ["$1"], "Layers": ["layer"]}]
END
    tar -C "$work/image" -c manifest.json config layer |
        ctr --namespace k8s.io images import --snapshotter native -
}
