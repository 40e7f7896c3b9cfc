# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Kernels for which the modules cannot be built are installed nevertheless, and the reason is
# printed.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

# Debian's older kernel, and one with PREEMPT_RT.
old=$(apt-cache depends linux-headers-cloud-amd64=6.12* | sed -n 's/.*Depends: linux-headers-//p')
expect_text 'it is too old, Linux 7.2 or 7.3 is needed' apt-get install -y "linux-headers-$old"
expect_no_modules "$old"
rt=$(echo "$KERNEL" | sed 's/-cloud-/-rt-/')
expect_text 'it is a PREEMPT_RT kernel' install_debian "linux-headers-$rt"
expect_no_modules "$rt"
apt-get purge -y "linux-headers-$old" "linux-headers-$rt"

# Kernels that do not exist in Debian.
series=${KERNEL%%.*}.$(echo "$KERNEL" | cut -d. -f2)
fake_kernel "9.9.1-new" ''
expect_text 'it is newer than this version of DoubleDecker' run_kernel_hook "9.9.1-new"
remove_fake_kernel "9.9.1-new"
fake_kernel_without_rust "$series.901-norust"
expect_text 'it was built without CONFIG_RUST' run_kernel_hook "$series.901-norust"
remove_fake_kernel "$series.901-norust"
mkdir -p "/lib/modules/$series.902-noheaders"
expect_text 'headers for this kernel do not seem to be installed' \
    run_kernel_hook "$series.902-noheaders"
rm -r "/lib/modules/$series.902-noheaders"

# A source of another version, which is only detected when the source is unpacked.
other=$series.903-other
fake_kernel "$other" ''
expect_text 'was skipped for module(s) doubledecker-guest doubledecker-host' \
    run_kernel_hook "$other"
grep -qF "and the kernel is $series.903" /var/lib/dkms/doubledecker-host/*/build/make.log ||
    fail 'the log does not tell that the source is of another version'
expect_no_modules "$other"

# Tools.
mkdir -p /tmp/hidden
mv /usr/bin/rustc /tmp/hidden
expect_text 'installed is: none' run_kernel_hook "$other"
printf '#!/bin/sh\necho rustc 1.99.0\n' >/usr/bin/rustc
chmod +x /usr/bin/rustc
expect_text 'installed is: rustc 1.99.0' run_kernel_hook "$other"
mv /tmp/hidden/rustc /usr/bin
mv /usr/bin/bindgen /tmp/hidden
expect_text 'apt install bindgen' run_kernel_hook "$other"
mv /tmp/hidden/bindgen /usr/bin
mv /usr/bin/flex /usr/include/libelf.h /tmp/hidden
expect_text 'apt install -t trixie-backports flex libelf-dev' run_kernel_hook "$other"
mv /tmp/hidden/flex /usr/bin
mv /tmp/hidden/libelf.h /usr/include
remove_fake_kernel "$other"

# A module that does not compile.
broken=$series.904-broken
fake_kernel "$broken" ''
mkdir "/usr/src/linux-headers-$broken/rust"
touch "/usr/src/linux-headers-$broken/rust/libkernel.rmeta"
expect_text 'was skipped for module(s) doubledecker-guest doubledecker-host' \
    run_kernel_hook "$broken"
grep -qF 'could not be built' /var/lib/dkms/doubledecker-host/*/build/make.log ||
    fail 'the log does not tell that the module could not be built'
remove_fake_kernel "$broken"

# None of this has changed the existing modules.
expect_modules "$KERNEL"
expect_installed
