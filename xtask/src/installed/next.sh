# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Runs in the root of a system in which the packages were installed. Puts the packages of the next
# version into /root/new and those of the installed one into /root/old. $1 is the side, and
# /packages/new and /packages/old have the packages of both sides.
#
# An emulated machine would compile the module for an hour at each upgrade. DKMS looks for an archive
# with the module of a version when the package of that version is installed, and compiles nothing
# if there is one. Such an archive is made here for each version, where compiling takes a minute.
set -x

kernel=$(ls /lib/modules)
module=doubledecker-$1

# Prints the version of the packages in a directory, without Debian's revision.
version_in() {
    dpkg-deb -f "$1"/doubledecker-tools_*.deb Version | sed 's/-[^-]*$//'
}

for directory in old new; do
    mkdir "/root/$directory"
    cp "/packages/$directory/$module-dkms"_*.deb "/packages/$directory"/doubledecker-tools_*.deb \
        "/root/$directory"
done

# DKMS builds the next module beside the installed one, and forgets it again.
old=$(version_in /root/old)
new=$(version_in /root/new)
mkdir /tmp/new
dpkg-deb -x "/root/new/$module-dkms"_*.deb /tmp/new
mv "/tmp/new/usr/src/$module-$new" /usr/src
rm -r /tmp/new
dkms build -m "$module" -v "$new" -k "$kernel"
mkdir "/usr/share/$module-dkms"
for version in "$old" "$new"; do
    archive=/usr/share/$module-dkms/$module-$version.dkms.tar.gz
    dkms mktarball -m "$module" -v "$version" -k "$kernel" --archive "$archive"
    tar -tzf "$archive" | grep -q "/doubledecker_$1.ko"
done
dkms remove -m "$module" -v "$new" --all
rm -r "/usr/src/$module-$new"
dkms status | grep -q "^$module/$old, $kernel, .*: installed"

# The administrator answers yes to apt.
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/99yes
