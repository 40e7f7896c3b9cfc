#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# build.sh MODULE VERSION KERNEL HEADERS
#
# Builds the module in the folder MODULE of the parent directory. DKMS runs this as its pre_build
# script. Returns 77 if the build fails, which DKMS takes as "not for this kernel": a kernel is
# installed and boots whether or not the module can be built for it. The output is in DKMS'
# make.log.

set -eu

module=$1
version=$2
kernel=$3
headers=$4
here=$(dirname "$0")
top=$(cd "$here/.." && pwd)
# shellcheck source=packaging/dkms/kernel.sh
. "$here/kernel.sh"

build() {
    tree=$("$here/metadata.sh" "$kernel" "$headers") &&
        make -C "$tree" -j"$(nproc)" M="$top/$module" RUSTC="$rustc" dd-version="$version" modules
}

if ! build; then
    echo "doubledecker: $module could not be built for kernel $kernel; the output above says why"
    exit 77
fi
