# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Runs in the root of a system in which the packages were installed. $1 is the name of its module,
# /out the directory for the files to boot from.
set -x

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# The machine boots the only kernel, for which DKMS has built the module.
kernel=$(ls /lib/modules)
[ "$(echo "$kernel" | wc -l)" = 1 ] || fail "there are several kernels: $kernel"
[ -z "$(dpkg --audit)" ] || fail "not installed completely: $(dpkg --audit)"
modinfo -k "$kernel" "$1" || fail "there is no module for $kernel"

cp "/boot/vmlinuz-$kernel" /out/vmlinuz
mkdir /out/modules
for module in virtio_pci virtio_blk virtio_console erofs ext4; do
    modprobe -S "$kernel" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >/tmp/list
number=100
while read -r file; do
    xz -dc "$file" >/out/modules/$number.ko
    number=$((number + 1))
done </tmp/list

# The agent is started by systemd. Timers would run jobs of a day at the first boot.
ln -s ../ddagent.service /etc/systemd/system/sysinit.target.wants/ddagent.service
rm -rf /etc/systemd/system/timers.target.wants
mkdir -p /etc/systemd/system.conf.d /opt/dd
printf '[Manager]\nDefaultTimeoutStartSec=15min\nDefaultTimeoutStopSec=15min\n' \
    >/etc/systemd/system.conf.d/slow.conf
echo 646f75626c656465636b657264656269 >/etc/machine-id
rm -rf /var/lib/apt/lists /tmp/list /etc/resolv.conf
