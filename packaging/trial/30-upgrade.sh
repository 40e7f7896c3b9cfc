# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Upgrades and downgrades the packages. Changes by an administrator are kept.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

setting='options doubledecker_host capacity_mib=4096'
echo "$setting" >>/etc/modprobe.d/doubledecker-host.conf
for file in host policyd; do
    echo '# kept' >>"/etc/doubledecker/$file.toml"
done

apt-get install -y /packages/next/*.deb
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/next)"

apt-get install -y --allow-downgrades /packages/current/*.deb
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/current)"

expect_installed

grep -qx "$setting" /etc/modprobe.d/doubledecker-host.conf || fail 'a setting was lost'
for file in host policyd; do
    grep -qx '# kept' "/etc/doubledecker/$file.toml" || fail "a change of $file.toml was lost"
done
