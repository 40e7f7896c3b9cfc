#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the PKGBUILD with makepkg (`cargo xtask integrations`), which root may not run.

set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp /integrations/arch/PKGBUILD "$work"
chmod -R a+rwX "$work"
cd "$work"
# makepkg looks for pacman, but does not run it for this.
PACMAN=true setpriv --reuid=nobody --clear-groups makepkg --printsrcinfo >info
for package in tools host-dkms guest-dkms; do
    grep -qx "pkgname = doubledecker-$package" info
done
