#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests the hook with libvirt's own daemon and a domain that is started paused, saved, restored and
# migrated to a second daemon (`cargo xtask integrations`). A script that records its arguments
# replaces ddctl on either side.

set -eu

# Makes the directory $1/bin with a ddctl that records its arguments in $1/calls.
make_ddctl() {
    mkdir -p "$1/bin"
    cat >"$1/bin/ddctl" <<END
#!/bin/sh
echo "\$*" >>$1/calls
END
    chmod +x "$1/bin/ddctl"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_ddctl "$work"
mkdir -p /etc/libvirt/hooks /run/libvirt
rm -f /etc/libvirt/qemu/web.xml
cp /integrations/libvirt/qemu /etc/libvirt/hooks/qemu

# libvirt looks for processors in /sys. The mount ends with this script.
mount -t sysfs sysfs /sys

# There is neither a service manager nor a policy kit in this root.
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
remember_owner = 0
END
cat >/etc/libvirt/libvirtd.conf <<'END'
auth_unix_ro = "none"
auth_unix_rw = "none"
END
cat >"$work/domain.xml" <<'END'
<domain type='qemu'>
  <name>web</name>
  <metadata>
    <dd:cache xmlns:dd="urn:doubledecker:1" weight="300" ssd-weight="50"/>
  </metadata>
  <memory unit='MiB'>16</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>
</domain>
END

PATH="$work/bin:$PATH" libvirtd --daemon --pid-file "$work/pid"
trap 'kill "$(cat "$work/pid")"; rm -rf "$work" /etc/libvirt/qemu/web.xml' EXIT
# The daemon listens before it detaches.
virsh --connect qemu:///system define "$work/domain.xml"
virsh --connect qemu:///system start --paused web
[ "$(cat "$work/calls")" = 'set-weight --save --later --cgroup /machine.slice --ssd 50 name:web 300' ]

# A restored domain is started like one that is migrated from another host. The hook gets a weight
# that was changed in between.
virsh --connect qemu:///system save web "$work/state"
virsh --connect qemu:///system save-image-dumpxml "$work/state" | sed 's/weight="300"/weight="70"/' \
    >"$work/changed.xml"
virsh --connect qemu:///system restore "$work/state" --xml "$work/changed.xml" --paused
[ "$(tail -n 1 "$work/calls")" = 'set-weight --save --later --cgroup /machine.slice --ssd 50 name:web 70' ]
[ "$(wc -l <"$work/calls")" = 2 ]
virsh --connect qemu:///system dumpxml web >"$work/running.xml"
virsh --connect qemu:///system destroy web

# `virsh metadata` creates the element, too.
virsh --connect qemu:///system metadata web --uri urn:doubledecker:1 --key dd \
    --set '<cache weight="20"/>' --config
virsh --connect qemu:///system start web
[ "$(tail -n 1 "$work/calls")" = 'set-weight --save --later --cgroup /machine.slice name:web 20' ]

# A second daemon is another host: it has another name and UUID, and its own directories in place of
# libvirt's, in which nothing knows the domain.
there=$work/there
make_ddctl "$there"
for directory in /etc/libvirt /run/libvirt /var/cache/libvirt /var/lib/libvirt /var/log/libvirt; do
    mkdir -p "$directory" "$there$directory"
done
cp -R /etc/libvirt/qemu.conf /etc/libvirt/libvirtd.conf /etc/libvirt/hooks "$there/etc/libvirt"
echo "host_uuid = \"$(cat /proc/sys/kernel/random/uuid)\"" >>"$there/etc/libvirt/libvirtd.conf"
# shellcheck disable=SC2016
PATH="$there/bin:$PATH" unshare --mount --uts sh -euxc '
    hostname there
    for directory in /etc/libvirt /run/libvirt /var/cache/libvirt /var/lib/libvirt /var/log/libvirt; do
        mount --bind "$1$directory" "$directory"
    done
    exec libvirtd --daemon --pid-file "$1/pid"
' sh "$there"
trap 'kill "$(cat "$there/pid")" "$(cat "$work/pid")"; rm -rf "$work" /etc/libvirt/qemu/web.xml' EXIT
other="qemu+unix:///system?socket=$there/run/libvirt/libvirt-sock"
calls=$(wc -l <"$work/calls")
virsh --connect qemu:///system migrate --live web "$other" --migrateuri tcp://127.0.0.1 --verbose
[ "$(virsh --connect "$other" domstate web)" = running ]
[ "$(virsh --connect qemu:///system domstate web)" = 'shut off' ]
[ "$(cat "$there/calls")" = 'set-weight --save --later --cgroup /machine.slice name:web 20' ]
# The hook of the source was not called again.
[ "$(wc -l <"$work/calls")" = "$calls" ]
virsh --connect "$other" destroy web
