# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Runs in the root of a system in which the packages were installed. Installs the kernel of Debian's
# release beside that of the backports. It is too old for the module, and DKMS says so.
set -x

image=$(apt-cache depends 'linux-image-cloud-amd64=6.12*' | sed -n 's/.*Depends: linux-image-//p')
apt-get install --yes --no-install-recommends -o Acquire::Retries=5 \
    -o APT::Keep-Downloaded-Packages=true "linux-image-$image" "linux-headers-$image" \
    >/tmp/said 2>&1 || { cat /tmp/said; exit 1; }
cat /tmp/said
grep -q 'it is too old, Linux 7.2 or 7.3 is needed' /tmp/said
[ ! -e "/lib/modules/$image/updates/dkms" ]
rm /tmp/said
