# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Runs in the root of a system in which the packages were installed. $1 is the name of its module,
# /out the directory for the files to boot from. A kernel without the module is the former one, whose
# files come into /out/former.
set -x

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Copies the files from which a kernel boots into a directory.
copy() {
    mkdir -p "$2/modules"
    cp "/boot/vmlinuz-$1" "$2/vmlinuz"
    for module in virtio_pci virtio_blk virtio_console erofs ext4; do
        modprobe -S "$1" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >/tmp/list
    number=100
    while read -r file; do
        xz -dc "$file" >"$2/modules/$number.ko"
        number=$((number + 1))
    done </tmp/list
}

# The machine boots the only kernel for which DKMS has built the module.
kernel=$(cd /lib/modules && echo */updates/dkms | sed 's,/updates/dkms,,g')
[ -d "/lib/modules/$kernel" ] || fail "not one kernel has modules of DKMS: $kernel"
[ -z "$(dpkg --audit)" ] || fail "not installed completely: $(dpkg --audit)"
modinfo -k "$kernel" "$1" || fail "there is no module for $kernel"

copy "$kernel" /out
for former in /lib/modules/*; do
    [ "$former" = "/lib/modules/$kernel" ] || copy "$(basename "$former")" /out/former
done

# The agent is started by systemd. Timers would run jobs of a day at the first boot.
ln -s ../ddagent.service /etc/systemd/system/sysinit.target.wants/ddagent.service
rm -rf /etc/systemd/system/timers.target.wants
mkdir -p /etc/systemd/system.conf.d /opt/dd
printf '[Manager]\nDefaultTimeoutStartSec=15min\nDefaultTimeoutStopSec=15min\n' \
    >/etc/systemd/system.conf.d/slow.conf
echo 646f75626c656465636b657264656269 >/etc/machine-id
rm -rf /var/lib/apt/lists /tmp/list /etc/resolv.conf
