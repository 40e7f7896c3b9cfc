# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Facts about a kernel for the other scripts of this directory. This file is sourced with
#   kernel   the kernel, as `uname -r` prints it
#   headers  its headers, /lib/modules/KERNEL/build
# and, if the headers are installed, sets
#   series       the first two numbers of its version
#   config       the file with its configuration
#   rustc        the compiler that it was built with, or nothing if that is not installed
#   rust_series  the first two numbers of that compiler's version
#   cache        the directory for metadata that is built on this machine
# All of them are for the scripts that source this file.
# shellcheck disable=SC2034

: "${kernel:?}" "${headers:?}"

cache_root=/var/cache/doubledecker

# Prints a field of /etc/os-release.
os_release() {
    (
        field=
        [ ! -r /etc/os-release ] || . /etc/os-release
        eval "field=\${$1-}"
        echo "$field"
    )
}

# Returns whether an option is set, as built-in or as a module.
is_set() {
    grep -q "^CONFIG_$1=[ym]$" "$config"
}

# Prints the value of an option, without quotes.
setting() {
    sed -n "s/^CONFIG_$1=//p" "$config" | tr -d '"'
}

# Prints the path of the compiler whose version is $1, if it is installed. A kernel without Rust has
# no such version.
find_rustc() {
    [ -n "$1" ] || return 0
    for candidate in rustc "rustc-$2" "/usr/lib/rust-$2/bin/rustc"; do
        if [ "$("$candidate" --version 2>/dev/null)" = "$1" ]; then
            command -v "$candidate"
            return
        fi
    done
}

# Prints the version of a package, or nothing if there is no dpkg or no such package.
package_version() {
    dpkg-query --show --showformat '${Version}' "$1" 2>/dev/null || :
}

# Prints the name of the package that contains a program.
package_of() {
    case $1 in
        xz) echo xz-utils ;;
        *) echo "$1" ;;
    esac
}

# Prints the path of the archive in Debian's package of the source.
source_archive() {
    echo "/usr/src/linux-source-$series.tar.xz"
}

# Prints a key of everything that the metadata depends on: another build of the kernel needs other
# metadata.
metadata_key() {
    cksum <"$config"
    cksum <"$headers/Module.symvers"
    "$rustc" --version
}

# Returns whether metadata for this very kernel was built before.
has_metadata() {
    [ -e "$cache/rust/libkernel.rmeta" ] && [ "$(metadata_key)" = "$(cat "$cache/key")" ]
}

series=$(echo "$kernel" | sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p')
cache=$cache_root/$kernel
config=$headers/.config
[ -e "$config" ] || config=$headers/include/config/auto.conf
rustc=
rust_series=
if [ -r "$config" ]; then
    rust_series=$(setting RUSTC_VERSION_TEXT | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
    rustc=$(find_rustc "$(setting RUSTC_VERSION_TEXT)" "$rust_series")
fi
