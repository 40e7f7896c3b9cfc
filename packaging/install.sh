#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# install.sh ROOT VERSION PACKAGE...
#
# Installs the files of the Debian packages PACKAGE... below the directory ROOT, for packages of
# other distributions. The lists in packaging/debian name these files. Before, the programs must be
# built (`cargo build --release`), and `ddpages` must write man pages and completions to
# target/pages. Run this script in the top directory of the sources.

set -eu

root=$1
version=$2
shift 2
debian=packaging/debian

# Copies files or folders $2... into the folder $1 below the root.
copy() {
    folder=$root/$1
    shift
    mkdir -p "$folder"
    for file; do
        if [ ! -e "$file" ]; then
            echo "install.sh: there is no $file" >&2
            exit 1
        fi
        cp -R --preserve=mode "$file" "$folder/"
    done
}

# Installs a list of files of debhelper's form: sources, then the folder that they go to.
install_list() {
    while read -r from to; do
        to=$(echo "$to" | sed "s/\${env:DD_VERSION}/$version/")
        # The sources may be patterns.
        # shellcheck disable=SC2086
        copy "$to" $from
    done <"$1"
}

for package; do
    [ -e "$debian/$package.install" ] || {
        echo "install.sh: there is no package $package" >&2
        exit 1
    }
    install_list "$debian/$package.install"
    if [ -e "$debian/$package.manpages" ]; then
        while read -r pages; do
            for page in $pages; do
                copy "usr/share/man/man${page##*.}" "$page"
            done
        done <"$debian/$package.manpages"
    fi
    if [ "$package" = doubledecker-tools ]; then
        # The Debian package does this when it is installed.
        copy etc/doubledecker ddhostd/host.toml
    fi
    if [ -e "$debian/$package.dkms" ]; then
        module=${package%-dkms}-$version
        sed "s/#MODULE_VERSION#/$version/g" "$debian/$package.dkms" >"$root/usr/src/$module/dkms.conf"
    fi
done
