#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests that policyd finds a container of LXC by its name.

set -eu
# shellcheck source=packaging/checks/runtimes/expect.sh
. /checks/runtimes/expect.sh

mount_all
make_rootfs
cat >"$work/config" <<END
lxc.rootfs.path = dir:$work/rootfs
lxc.uts.name = shop
lxc.net.0.type = empty
lxc.apparmor.profile = unconfined
lxc.init.cmd = /bin/sleep 1000
END
lxc-start --name shop --rcfile "$work/config" --logfile "$work/log" --logpriority DEBUG \
    --lxcpath "$work" || { cat "$work/log"; exit 1; }
trap 'lxc-stop --name shop --kill --lxcpath "$work"; leave lxc.pivot' EXIT
lxc-wait --name shop --state RUNNING --timeout 60 --lxcpath "$work"

expect_found 'lxc = "shop"' ''
expect_missing 'does not run now' 'lxc = "store"' ''
