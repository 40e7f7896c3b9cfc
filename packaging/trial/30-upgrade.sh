# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Upgrades and downgrades the packages. What an administrator changed stays.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

setting='options doubledecker_host capacity_mib=4096'
echo "$setting" >>/etc/modprobe.d/doubledecker-host.conf

apt-get install -y /packages/next/*.deb
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/next)"

apt-get install -y --allow-downgrades /packages/current/*.deb
expect_modules "$KERNEL"
expect_version "$KERNEL" "$(version_in /packages/current)"

grep -qx "$setting" /etc/modprobe.d/doubledecker-host.conf || fail 'a setting was lost'
