#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests that policyd finds a container of containerd, whose state is not in the usual directory, by
# the name that nerdctl gives. Debian has no nerdctl: containerd's own client gives the container an
# id and the annotation with the name, as nerdctl does.

set -eu
# shellcheck source=packaging/checks/runtimes/expect.sh
. /checks/runtimes/expect.sh

mount_all
make_rootfs
state=$work/state
cat >"$work/containerd.toml" <<END
version = 2
root = "$work/root"
state = "$state"
[grpc]
address = "$work/socket"
END
containerd --config "$work/containerd.toml" >"$work/log" 2>&1 &
id=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
# Containers outlive this daemon.
trap 'cat "$work/log"; ctr task delete --force "$id" || :; kill $!; wait; leave default' EXIT
export CONTAINERD_ADDRESS="$work/socket"
wait_until ctr version
# Without shares, no controller is needed, and the machine may have them in version 1.
ctr run --detach --rootfs --cpu-shares 0 --annotation nerdctl/name=shop \
    "$work/rootfs" "$id" /bin/sleep 1000

roots="[runtimes]
containerd = [\"$state\"]"
expect_found 'containerd = "shop"' "$roots"
expect_missing 'does not run now' 'containerd = "store"' "$roots"
# Without the directory in the file, the name is not found.
expect_missing 'there is no /run/containerd/' 'containerd = "shop"' ''
ctr task kill --signal KILL "$id"
wait_until ctr task delete "$id"
expect_missing 'does not run now' 'containerd = "shop"' "$roots"
