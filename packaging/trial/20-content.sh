# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Checks the installed files.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

for side in $SIDES; do
    module=doubledecker_$side
    modprobe --set-version "$KERNEL" --show-depends "$module" | grep -q "/$module.ko" ||
        fail "modprobe does not find $module"
    modinfo -k "$KERNEL" "$module"
    # DKMS signs with the key that the administrator enrols for Secure Boot.
    [ "$(modinfo -k "$KERNEL" -F signer "$module")" = 'DKMS module signing key' ] ||
        fail "$module is not signed"
    [ "$(modinfo -k "$KERNEL" -F vermagic "$module" | cut -d' ' -f1)" = "$KERNEL" ] ||
        fail "$module is for another kernel"
    grep -qx "$module" "/usr/lib/modules-load.d/doubledecker-$side.conf"
    # The file explains all parameters of the module, and no other.
    sed -n "s/^# options $module \([a-z_]*\)=.*/\1/p" "/etc/modprobe.d/doubledecker-$side.conf" |
        sort >/tmp/explained
    modinfo -k "$KERNEL" -F parm "$module" | cut -d: -f1 | sort >/tmp/parameters
    diff /tmp/explained /tmp/parameters || fail "/etc/modprobe.d explains other parameters"
done

ddctl --version
policyd --version
# The containers of the example are not there.
policyd check --file-only
ddhostd --version
ddhostd check
expect_text 'set-weight' man --pager=cat ddctl
expect_text 'Exit codes' man --pager=cat ddctl
expect_text 'ddhostd' man --pager=cat 8 ddhostd-dry-run
expect_text 'policyd' man --pager=cat 8 policyd-dry-run
expect_text 'cache_floor' man --pager=cat policyd.toml
expect_text 'keep-free' man --pager=cat host.toml
for program in ddctl ddhostd policyd; do
    for file in "bash-completion/completions/$program.bash" \
        "fish/vendor_completions.d/$program.fish" "zsh/vendor-completions/_$program"; do
        [ -s "/usr/share/$file" ] || fail "/usr/share/$file is missing"
    done
    bash -n "/usr/share/bash-completion/completions/$program.bash"
done
for file in doubledecker-guests.yml doubledecker-hosts.yml doubledecker.json \
    doubledecker.rules.yml prometheus.yml netlink/dd_host.yaml netlink/dd_guest.yaml; do
    [ -s "/usr/share/doubledecker/$file" ] || fail "/usr/share/doubledecker/$file is missing"
done
# Problems of other units do not count.
for daemon in ddhostd policyd; do
    unit=doubledecker-$daemon.service
    systemd-analyze verify "$unit" >/tmp/output 2>&1 || fail "$(cat /tmp/output)"
    ! grep -F "$unit" /tmp/output || fail "systemd complains about $unit"
    # No unit is enabled, because the administrator has to edit its file first.
    [ "$(systemctl is-enabled "$unit" || :)" = disabled ] || fail "$unit is enabled"
    # An upgrade restarts the daemon if it runs, and a removal stops it. No service manager runs here.
    for script in postinst prerm; do
        grep -q "deb-systemd-invoke .*'$unit'" \
            "/var/lib/dpkg/info/doubledecker-tools.$script" || fail "no $script for $unit"
    done
done
# A file with an error is refused, and the message has the place of the error.
printf 'wieght = 1\n' >/tmp/host.toml
! ddhostd check --config /tmp/host.toml >/tmp/output 2>&1 || fail 'a wrong file passes'
grep -qF 'host.toml: line 1, column 1: unknown key' /tmp/output ||
    fail "ddhostd check says $(cat /tmp/output)"
# The documentation that the units refer to exists.
for file in $(sed -n 's/^Documentation=//p' /usr/lib/systemd/system/doubledecker-*.service |
    tr ' ' '\n' | sed -n 's/^file://p'); do
    [ -s "$file" ] || fail "there is no $file"
done
