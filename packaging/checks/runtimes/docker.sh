#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests that policyd finds a container of Docker, whose data root is not the usual one, by its name.

set -eu
# shellcheck source=packaging/checks/runtimes/expect.sh
. /checks/runtimes/expect.sh

mount_all
make_rootfs
data=$work/docker
# There is neither a network nor systemd in this root.
dockerd --data-root "$data" --exec-root "$work/run" --pidfile "$work/pid" \
    --host "unix://$work/socket" --bridge none --iptables=false --ip6tables=false \
    --storage-driver vfs --exec-opt native.cgroupdriver=cgroupfs >"$work/log" 2>&1 &
trap 'cat "$work/log"; kill $!; wait; umount "$data"; leave docker' EXIT
export DOCKER_HOST="unix://$work/socket"
wait_until docker info
tar -C "$work/rootfs" -c . | docker import - busybox
docker run --detach --name shop --network none busybox sleep 1000

roots="[runtimes]
docker = [\"$data\"]"
expect_found 'docker = "shop"' "$roots"
expect_missing 'does not run now' 'docker = "store"' "$roots"
docker rename shop store
expect_found 'docker = "store"' "$roots"
# Without the data root in the file, the name is not found.
expect_missing 'there is no /var/lib/docker/containers' 'docker = "store"' ''
docker rm --force store
expect_missing 'does not run now' 'docker = "store"' "$roots"
