# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Installs the packages where the source of the kernel is missing, and then that.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

apt-get update
install_debian "linux-image-$KERNEL" "linux-headers-$KERNEL" \
    bc bison cpio flex libelf-dev libssl-dev man-db

expect_text "apt install -t trixie-backports $KERNEL_SOURCE" \
    apt-get install -y /packages/current/*.deb
expect_no_modules "$KERNEL"

# The trigger builds what was passed over.
install_debian "$KERNEL_SOURCE=$KERNEL_VERSION"
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/current)"
