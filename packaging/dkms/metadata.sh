#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# metadata.sh KERNEL HEADERS
#
# Prints the directory against which modules in Rust are built. If HEADERS contain the metadata of
# the kernel's Rust code, this is HEADERS. Otherwise it is a directory below /var/cache/doubledecker
# with links to the files of HEADERS, and with the metadata, which this script builds from the
# matching source once for each kernel. The build takes a minute or two, and up to 2 GiB in that
# directory; the result takes about 200 MiB.

set -eu

kernel=$1
headers=$(readlink -f "$2")
here=$(dirname "$0")
# shellcheck source=packaging/dkms/kernel.sh
. "$here/kernel.sh"

# The standard output is for the path alone.
exec 3>&1 >&2

if [ -e "$headers/rust/libkernel.rmeta" ]; then
    echo "$headers" >&3
    exit
fi

mkdir -p "$cache_root"
exec 9>"$cache_root/lock"
flock 9
if has_metadata; then
    echo "$cache" >&3
    exit
fi

# Removes the metadata of removed kernels, and the files of interrupted builds.
for old in "$cache_root"/*/ "$cache_root"/.build.*/; do
    [ -e "/lib/modules/$(basename "$old")/build" ] || rm -rf "$old"
done

work=$(mktemp -d "$cache_root/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The build needs all headers, Kconfig files and scripts of the source, but little of its code.
echo "unpacking the source of Linux $series"
source=linux-source-$series
tar -xf "$(source_archive)" -C "$work" \
    --exclude="$source/Documentation/*/*" --exclude="$source/drivers/*.c" \
    --exclude="$source/drivers/gpu/drm/*.h" --exclude="$source/crypto/*.c" \
    --exclude="$source/fs/*.c" --exclude="$source/net/*.c" --exclude="$source/sound/*.c" \
    --exclude="$source/tools/perf/*" --exclude="$source/tools/testing/*"
source=$work/$source

upstream=${kernel%%[-+]*}
found=$(make -s -C "$source" kernelversion)
if [ "$found" != "$upstream" ]; then
    echo "$(source_archive) holds Linux $found, and the kernel is $upstream"
    exit 1
fi

echo "building the metadata"
compiler=$(setting CC_VERSION_TEXT)
compiler=${compiler%% *}
cp "$config" "$source/.config"
make -C "$source" -j"$(nproc)" CC="$compiler" HOSTCC="$compiler" \
    RUSTC="$rustc" HOSTRUSTC="$rustc" \
    LOCALVERSION="${kernel#"$upstream"}" KERNELRELEASE="$kernel" \
    olddefconfig modules_prepare
if ! grep -q '^CONFIG_RUST=y$' "$source/.config"; then
    echo "the installed tools cannot build Rust code of this kernel:"
    make -C "$source" RUSTC="$rustc" rustavailable || :
    exit 1
fi

# Modules are built against the distribution's headers, with additional files in two directories.
result=$work/result
mkdir -p "$result/rust" "$result/scripts"
for file in "$headers"/* "$headers"/.[!.]*; do
    case ${file##*/} in
        Makefile | rust | scripts) ;;
        *) ln -s "$file" "$result/" ;;
    esac
done
for file in "$headers"/scripts/*; do
    ln -s "$file" "$result/scripts/"
done
cp "$source"/rust/*.rmeta "$source"/rust/*.so "$result/rust/"
if [ -e "$source/scripts/target.json" ]; then
    cp "$source/scripts/target.json" "$result/scripts/"
fi
sed "s|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT=$cache|" "$headers/Makefile" >"$result/Makefile"
metadata_key >"$result/key"

rm -rf "$cache"
mv "$result" "$cache"
echo "$cache" >&3
