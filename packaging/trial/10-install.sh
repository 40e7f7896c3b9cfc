# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Installs the packages without the source of the kernel, and then the source. There are also
# kernels for which the modules cannot be built: for each of them a message is printed, and the
# packages are installed.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

apt-get update
install_debian "linux-image-$KERNEL" "linux-headers-$KERNEL" \
    bc bison cpio flex libelf-dev libssl-dev man-db python3 systemd

series=${KERNEL%%.*}.$(echo "$KERNEL" | cut -d. -f2)
old=6.12.900-old
norust=$series.900-norust
bare=$series.900-noheaders
fake_kernel "$old" ''
fake_kernel_without_rust "$norust"
# The state that the package of a kernel leaves if the package of its headers is not installed.
mkdir -p "/lib/modules/$bare"
ln -s "/usr/src/linux-headers-$bare" "/lib/modules/$bare/build"

expect_text "apt install -t trixie-backports $KERNEL_SOURCE" \
    apt-get install -y /packages/current/*.deb
for text in "for kernel $old: it is too old, Linux 7.2 or 7.3 is needed" \
    "for kernel $norust: it was built without CONFIG_RUST" \
    "Module build for kernel $bare was skipped since the"; do
    grep -qF "$text" /tmp/output || fail "the installation did not print \"$text\""
done
expect_installed
for kernel in "$KERNEL" "$old" "$norust" "$bare"; do
    expect_no_modules "$kernel"
done
for kernel in "$old" "$norust" "$bare"; do
    remove_fake_kernel "$kernel"
done

# The trigger builds the modules for the kernel that was skipped.
install_debian "$KERNEL_SOURCE=$KERNEL_VERSION"
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/current)"
expect_installed
