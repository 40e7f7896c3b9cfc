# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Removes the packages, and then their settings. No file is left behind.
# shellcheck source=packaging/trial/expect.sh
. /trial/expect.sh

# Prints the paths of DoubleDecker's files, without logs of other programs.
ours() {
    find / -xdev \( -path /packages -o -path /trial -o -path /var/log -o -path /proc -o \
        -path /var/cache/apt -o -path /var/cache/man -o -path /tmp -o -path /var/lib/dpkg/info \) -prune -o \
        \( -iname '*doubledecker*' -o -name '*ddctl*' -o -name '*ddhostd*' -o -name '*policyd*' \) -print
}

packages='doubledecker-host-dkms doubledecker-guest-dkms doubledecker-tools'
# shellcheck disable=SC2086
apt-get remove -y $packages
[ -z "$(dkms status)" ] || fail 'DKMS still has modules'
for path in $(ours); do
    case $path in
        # Debian keeps until a purge which units were enabled.
        /etc/* | /var/lib/systemd/deb-systemd-helper-enabled/*) ;;
        *) fail "$path is still there" ;;
    esac
done

# shellcheck disable=SC2086
apt-get purge -y $packages
[ -z "$(ours)" ] || fail "still there: $(ours)"
