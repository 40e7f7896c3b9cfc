# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Functions that the scripts of a trial share. They run as root in a Debian, one after the other in
# the order of their names, with
#   /packages/current, /packages/next  the packages, and the same ones of a later version
#   KERNEL                             a kernel of Debian's, as `uname -r` prints it
#   KERNEL_VERSION, KERNEL_SOURCE      the version of its packages, the package of its source
# and end with an error if the packages do not behave as expected.

# Prints each command, for the log.
set -x

SIDES='host guest'
NEWER=trixie-backports

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Installs packages of Debian; kernels and their packages come from the newer suite.
install_debian() {
    apt-get install -y -t "$NEWER" "$@"
}

# Runs a command that shall succeed and whose output shall contain the text $1.
expect_text() {
    text=$1
    shift
    "$@" >/tmp/output 2>&1 || {
        cat /tmp/output
        fail "$* ended with an error"
    }
    cat /tmp/output
    grep -qF "$text" /tmp/output || fail "$* did not print \"$text\""
}

# Prints the path of a side's module for a kernel, or nothing if there is none.
module_of() {
    find "/lib/modules/$2/updates/dkms" -name "doubledecker_$1.ko*" 2>/dev/null
}

expect_modules() {
    for side in $SIDES; do
        [ -n "$(module_of "$side" "$1")" ] || fail "there is no module doubledecker_$side for $1"
    done
}

expect_no_modules() {
    for side in $SIDES; do
        [ -z "$(module_of "$side" "$1")" ] || fail "there is a module doubledecker_$side for $1"
    done
}

# Prints the version that the packages in a directory have, without Debian's revision.
version_in() {
    dpkg-deb -f "$1"/doubledecker-tools_*.deb Version | sed 's/-[^-]*$//'
}

# Expects that the modules for the kernel $1 have the version $2, and that DKMS has no other
# version.
expect_version() {
    for side in $SIDES; do
        found=$(modinfo -F version "$(module_of "$side" "$1")")
        [ "$found" = "$2" ] || fail "doubledecker_$side is of version $found and not $2"
        dkms status -m "doubledecker-$side" | grep -v "/$2," && fail "DKMS has other versions"
    done
    return 0
}

# Expects that the packages, and those of the kernel, are installed completely, so that the machine
# boots.
expect_installed() {
    [ -z "$(dpkg --audit)" ] || fail "not installed completely: $(dpkg --audit)"
    for package in doubledecker-tools doubledecker-host-dkms doubledecker-guest-dkms; do
        state=$(dpkg-query --show --showformat '${Status}' "$package")
        [ "$state" = 'install ok installed' ] || fail "$package is $state"
    done
    [ -e "/boot/vmlinuz-$KERNEL" ] || fail "there is no kernel $KERNEL to boot"
}

# Runs DKMS for a kernel in the same way as the packages of kernels do.
run_kernel_hook() {
    /etc/kernel/postinst.d/dkms "$1"
}

# Makes a kernel $1 whose headers are those of $KERNEL. If $2 is not empty, sed changes the
# configuration by this expression.
fake_kernel() {
    cp -a "/usr/src/linux-headers-$KERNEL" "/usr/src/linux-headers-$1"
    mkdir -p "/lib/modules/$1"
    ln -s "/usr/src/linux-headers-$1" "/lib/modules/$1/build"
    [ -z "$2" ] || sed -i "$2" "/usr/src/linux-headers-$1/.config"
}

# Makes a kernel $1 that was built without Rust.
fake_kernel_without_rust() {
    fake_kernel "$1" 's/^CONFIG_RUST=y/# CONFIG_RUST is not set/'
    # DKMS reads a copy of the configuration.
    rm -rf "/usr/src/linux-headers-$1/include/config"
}

remove_fake_kernel() {
    rm -rf "/usr/src/linux-headers-$1" "/lib/modules/$1"
}
