# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Modules are built for a newer kernel, and the older kernel keeps its modules and still boots.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

# Prints digests of what the older kernel boots from: itself, and the modules that it loads.
old_files() {
    sha256sum "/boot/vmlinuz-$KERNEL" "/lib/modules/$KERNEL/updates/dkms"/doubledecker_*.ko*
}

# Expects that a kernel finds its own modules when it boots.
expect_loadable() {
    for side in $SIDES; do
        modprobe --set-version "$1" --show-depends "doubledecker_$side" |
            grep -q "/lib/modules/$1/updates/dkms/doubledecker_$side.ko" ||
            fail "modprobe does not find doubledecker_$side of $1"
        [ "$(modinfo -k "$1" -F vermagic "doubledecker_$side" | cut -d' ' -f1)" = "$1" ] ||
            fail "doubledecker_$side of $1 is for another kernel"
    done
}

before=$(old_files)
install_debian linux-image-cloud-amd64 linux-headers-cloud-amd64 linux-source
newest=$(find /lib/modules -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
[ "$newest" != "$KERNEL" ] || fail "the mirror has no newer kernel than $KERNEL"
expect_modules "$newest"
expect_version "$newest" "$(version_in /packages/current)"
expect_loadable "$newest"
expect_installed
expect_loadable "$KERNEL"
[ "$(old_files)" = "$before" ] || fail "files of $KERNEL have changed"

# The modules of a kernel are removed with it.
apt-get purge -y "linux-image-$KERNEL" "linux-headers-$KERNEL"
expect_no_modules "$KERNEL"
expect_loadable "$newest"
