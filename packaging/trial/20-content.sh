# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Looks at what was installed.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

for side in $SIDES; do
    module=doubledecker_$side
    modprobe --set-version "$KERNEL" --show-depends "$module" | grep -q "/$module.ko" ||
        fail "modprobe does not find $module"
    modinfo -k "$KERNEL" "$module"
    # DKMS signs with the key that Secure Boot is told to trust.
    [ "$(modinfo -k "$KERNEL" -F signer "$module")" = 'DKMS module signing key' ] ||
        fail "$module is not signed"
    [ "$(modinfo -k "$KERNEL" -F vermagic "$module" | cut -d' ' -f1)" = "$KERNEL" ] ||
        fail "$module is for another kernel"
    grep -qx "$module" "/usr/lib/modules-load.d/doubledecker-$side.conf"
    # The parameters that the file explains are those that there are.
    sed -n "s/^# options $module \([a-z_]*\)=.*/\1/p" "/etc/modprobe.d/doubledecker-$side.conf" |
        sort >/tmp/explained
    modinfo -k "$KERNEL" -F parm "$module" | cut -d: -f1 | sort >/tmp/parameters
    diff /tmp/explained /tmp/parameters || fail "/etc/modprobe.d explains other parameters"
done

ddctl --version
policyd --version
policyd check
ddhostd --version
ddhostd check
expect_text 'set-weight' man --pager=cat ddctl
expect_text 'Exit codes' man --pager=cat ddctl
expect_text 'ddhostd' man --pager=cat 8 ddhostd-dry-run
expect_text 'policyd' man --pager=cat 8 policyd-dry-run
for file in bash-completion/completions/ddctl.bash bash-completion/completions/policyd.bash \
    fish/vendor_completions.d/ddctl.fish zsh/vendor-completions/_ddctl; do
    [ -s "/usr/share/$file" ] || fail "/usr/share/$file is missing"
done
# Where the unit says that its documentation is.
for file in $(sed -n 's/^Documentation=//p' /usr/lib/systemd/system/doubledecker-*.service |
    tr ' ' '\n' | sed -n 's/^file://p'); do
    [ -s "$file" ] || fail "there is no $file"
done
