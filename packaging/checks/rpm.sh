#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the spec file with RPM's tools (`cargo xtask integrations`).

set -eu

rpmspec --parse /integrations/rpm/doubledecker.spec >/dev/null
# Each Debian package has a counterpart.
packages=$(rpmspec --query /integrations/rpm/doubledecker.spec)
for package in tools host-dkms guest-dkms; do
    echo "$packages" | grep -q "^doubledecker-$package-[0-9]"
done
# Archives are made by hand, tests are run before a release, and units are in systemd's directories.
cat >/tmp/rpmlint.toml <<'END'
Filters = ["no-buildroot-tag", "no-%check-section", "invalid-url Source", "hardcoded-library-path in %{_prefix}/lib/modules-load.d"]
END
rpmlint --strict --config /tmp/rpmlint.toml /integrations/rpm/doubledecker.spec
