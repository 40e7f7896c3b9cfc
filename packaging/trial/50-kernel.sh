# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Modules are built for a newer kernel, and the older kernel keeps its modules.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

install_debian linux-image-cloud-amd64 linux-headers-cloud-amd64 linux-source
newest=$(find /lib/modules -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
[ "$newest" != "$KERNEL" ] || fail "the mirror has no newer kernel than $KERNEL"
expect_modules "$newest"
expect_version "$newest" "$(version_in /packages/current)"
expect_modules "$KERNEL"

# The modules of a kernel are removed with it.
apt-get purge -y "linux-image-$KERNEL" "linux-headers-$KERNEL"
expect_no_modules "$KERNEL"
