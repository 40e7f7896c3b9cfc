# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Functions that the scripts for container runtimes share (`cargo xtask integrations`). Each of them
# starts the runtime itself, and a container in which busybox sleeps. The scripts end with an error
# if policyd does not find the container.

work=$(mktemp -d)
# The hierarchy of cgroups whose paths policyd sees, and the directory in which it sees them.
cgroups=/sys/fs/cgroup
seen=$work/seen

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Waits until a command succeeds. A daemon that does not answer after a minute is an error.
wait_until() {
    for _ in $(seq 600); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail "$* has not succeeded"
}

# Makes the root directory of a container.
make_rootfs() {
    mkdir -p "$work/rootfs/bin" "$work/rootfs/dev" "$work/rootfs/proc" "$work/rootfs/sys" \
        "$work/rootfs/tmp"
    cp /bin/busybox "$work/rootfs/bin/"
    ln -s busybox "$work/rootfs/bin/sh"
    ln -s busybox "$work/rootfs/bin/sleep"
}

# Mounts what runtimes expect, above all the hierarchy of cgroup version 2. The mounts end with the
# script.
mount_all() {
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p /dev/pts
    mount -t devpts -o ptmxmode=666 devpts /dev/pts
    ln -sf pts/ptmx /dev/ptmx
}

# Removes what a script has made: its directory, and the cgroup $1, which the runtime leaves behind.
leave() {
    rmdir "$cgroups/$1" || :
    rm -rf "$work"
}

# Runs `policyd check --strict` for the container whose entry is $1, with the further text $2 in the
# file. policyd sees the paths of all cgroups in a directory of their own, because the machine that
# runs this may count memory in version 1, which policyd refuses.
check() {
    rm -rf "$seen/cgroup"
    (cd "$cgroups" && find . -type d) | while read -r path; do
        mkdir -p "$seen/cgroup/$path"
    done
    echo memory >"$seen/cgroup/cgroup.controllers"
    cat >"$seen/policyd.toml" <<END
cgroup_root = "$seen/cgroup"
$2
[[container]]
name = "found"
$1
END
    policyd check --strict "$seen/policyd.toml"
}

expect_found() {
    check "$@" || fail "policyd does not find $1"
}

# Expects that no container is found, and that policyd says $1.
expect_missing() {
    said=$1
    shift
    ! check "$@" 2>"$work/said" || fail "policyd finds $1"
    grep -qF "$said" "$work/said" || fail "policyd says $(cat "$work/said")"
}
