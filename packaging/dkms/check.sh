#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# check.sh KERNEL HEADERS
#
# Checks whether modules in Rust can be built for KERNEL (as `uname -r` prints it) against HEADERS
# (its /lib/modules/KERNEL/build). Returns 1 if not, and prints the problem and its remedy to the
# standard error. dkms.conf runs this script before DKMS begins a build, so that a kernel for which
# the modules cannot be built is skipped, and neither its installation nor that of a package fails.

set -eu

kernel=$1
headers=$2
here=$(dirname "$0")
# shellcheck source=packaging/dkms/kernel.sh
. "$here/kernel.sh"

refuse() {
    echo "doubledecker: no module is built for kernel $kernel: $1" >&2
    shift
    for line; do
        echo "doubledecker: $line" >&2
    done
    exit 1
}

# In a stable release of Debian, the backports have newer kernels.
from_backports=
if [ "$(os_release VERSION_CODENAME)" = trixie ]; then
    from_backports='-t trixie-backports '
fi
supported='Linux 7.2 or 7.3'
newer_kernel="apt install ${from_backports}linux-image-amd64 linux-headers-amd64 linux-source"

case $series in
    7.2 | 7.3) ;;
    [0-6].* | 7.[01])
        refuse "it is too old, $supported is needed" \
            "install a newer kernel and boot it: $newer_kernel" ;;
    *)
        refuse "it is newer than this version of DoubleDecker, which supports $supported" \
            "install a newer version of DoubleDecker, or boot a supported kernel" ;;
esac

[ -e "$headers/include" ] ||
    refuse "its headers are not installed" \
        "install them: apt install linux-headers-$kernel"
[ -r "$config" ] ||
    refuse "its headers have no configuration ($config)" \
        "reinstall them: apt install --reinstall linux-headers-$kernel"

# Options of the kernel that the modules need.
for option in RUST KPROBES DYNAMIC_FTRACE; do
    is_set "$option" ||
        refuse "it was built without CONFIG_$option" \
            "boot a kernel with CONFIG_$option, as those of Debian are: $newer_kernel"
done
if is_set PREEMPT_RT; then
    refuse "it is a PREEMPT_RT kernel, which is not supported" \
        "boot a kernel without PREEMPT_RT: $newer_kernel"
fi

# Only the compiler that wrote metadata can read it, and the names of the kernel's symbols depend on
# the compiler, too.
wanted=$(setting RUSTC_VERSION_TEXT)
if [ -z "$rustc" ]; then
    installed=$(rustc --version 2>/dev/null) || installed='none'
    refuse "it was built with $wanted; installed is: $installed" \
        "install that version (the package rustc or rustc-$rust_series), or boot a kernel that was built with the installed one"
fi

# If there is metadata from the distribution or from an earlier build, nothing more is needed.
if [ -e "$headers/rust/libkernel.rmeta" ] || has_metadata; then
    exit 0
fi

[ -e "$("$rustc" --print sysroot)/lib/rustlib/src/rust/library/core/src/lib.rs" ] ||
    refuse "the source of Rust's core library is not installed" \
        "install it: apt install rust-src"
command -v bindgen >/dev/null ||
    refuse "bindgen, which translates the kernel's headers to Rust, is not installed" \
        "install it: apt install bindgen"
grep -q '^KBUILD_OUTPUT=' "$headers/Makefile" ||
    refuse "its headers have neither Rust metadata nor the layout of Debian's" \
        "install the package with the kernel's Rust metadata, if the distribution has one"

archive=$(source_archive)
package=linux-source-$series
[ -e "$archive" ] ||
    refuse "its headers lack the metadata of its Rust code, and its source, from which that can be built, is not installed" \
        "install it: apt install $from_backports$package"
of_headers=$(package_version "linux-headers-$kernel")
of_source=$(package_version "$package")
if [ -n "$of_headers" ] && [ "$of_headers" != "$of_source" ]; then
    refuse "$package is of version $of_source, and the kernel of $of_headers" \
        "install the same version of both: apt install $package=$of_headers, or the newest kernel: $newer_kernel"
fi

# Other programs that the preparation of a kernel's source needs.
missing=
for program in bc bison cpio flex make python3 xz; do
    command -v "$program" >/dev/null || missing="$missing $(package_of "$program")"
done
[ -e /usr/include/libelf.h ] || missing="$missing libelf-dev"
[ -e /usr/include/openssl/evp.h ] || missing="$missing libssl-dev"
[ -z "$missing" ] ||
    refuse "programs to prepare its source are not installed" \
        "install them: apt install $from_backports${missing# }"
