#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Build the reference and today's kernel of a tree, and install them on the machine under test by ssh:
# an example of the program that builds the kernels of `schedperf night`. Copy it and change it.
#
# usage: kernel-build SETTINGS
#
# SETTINGS is a file of shell assignments:
#   tree=https://git.kernel.org/pub/scm/linux/kernel/git/tip/tip.git    [default: $SCHEDPERF_URL]
#   ref=sched/core          the branch (or tag) that is tested [default: the first of $SCHEDPERF_REFS]
#   reference=v6.19         tag of the reference kernel; empty for none
#   config=lab.config       .config of both kernels, beside SETTINGS
#   work=/srv/kernels       clone and builds, one directory per tree
#   commits=DIRECTORY       for RELEASE.json [default: $SCHEDPERF_SOURCES, or commits in `work`]
#   keep=5                  tested kernels that stay on the machine [default: 5]
#   install=deb             deb: bindeb-pkg; files: image and modules, e.g. for Fedora [default: deb]
#   make='make -j8'         with LLVM=1, ARCH=, CROSS_COMPILE= ... [default: make -jCPUS]
# The machine is $SCHEDPERF_TARGET (HOST or HOST:PORT, root); the commit is pinned as
# refs/schedperf/$SCHEDPERF_NIGHT. It can be killed at any moment and be run again: what is complete
# is not repeated. A kernel is built again if its commit, its .config or the toolchain changed.
#
# shellcheck disable=SC2016 # the machine expands the scripts in quotes
set -eu

die() { echo "kernel-build: $1" >&2; exit "${2:-1}"; }

[ -f "${1:-}" ] || die 'no settings; usage: kernel-build SETTINGS (see the head of this file)' 2
beside=$(cd "$(dirname "$1")" && pwd)
tree=${SCHEDPERF_URL-} ref=${SCHEDPERF_REFS-} commits=${SCHEDPERF_SOURCES-}
ref=${ref%% *} keep=5 install=deb reference='' make="make -j$(nproc)"
# shellcheck source=/dev/null
. "$beside/$(basename "$1")"
: "${tree:?set it in $1}" "${ref:?set it in $1}" "${config:?set it in $1}" "${work:?set it in $1}"
: "${SCHEDPERF_TARGET:?set it to the machine, e.g. root@lab1}" "${SCHEDPERF_NIGHT:=$(date +%F)}"
commits=${commits:-$work/commits}
case $config in /*) ;; *) config=$beside/$config ;; esac
port=${SCHEDPERF_TARGET##*:}
[ "$port" != "$SCHEDPERF_TARGET" ] || port=

# on SCRIPT ARGUMENT... runs a shell script on the machine; its stdin is this one's.
on() {
    script=$1
    shift
    quoted=
    for word in "sh" "-c" "$script" "sh" "$@"; do
        quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
    done
    # shellcheck disable=SC2086 # SCHEDPERF_SSH is a command with options
    ${SCHEDPERF_SSH:-ssh} -o BatchMode=yes ${port:+-p "$port"} -- "${SCHEDPERF_TARGET%:*}" "$quoted" ||
        die "$SCHEDPERF_TARGET: a command there failed (see above)" 75
}

# make_in BUILD TARGET...: LOCALVERSION, even if empty, keeps the "+" of an untagged commit away.
make_in() {
    out=$1
    shift
    $make -C "$linux" "O=$out" "LOCALVERSION=$suffix" "$@"
}

fetch() {
    [ -d "$linux/.git" ] || git init -q "$linux"
    pin=refs/schedperf/$SCHEDPERF_NIGHT
    # A night that goes on tests the commit that it began with.
    if ! git -C "$linux" rev-parse -q --verify "$pin^{commit}" >/dev/null; then
        git -C "$linux" fetch -q --no-tags "$tree" "$ref"
        git -C "$linux" update-ref "$pin" "$(git -C "$linux" rev-parse 'FETCH_HEAD^{commit}')"
    fi
    new=$(git -C "$linux" rev-parse "$pin^{commit}")
    if [ -n "$reference" ] && ! git -C "$linux" rev-parse -q --verify "$reference^{commit}" >/dev/null; then
        git -C "$linux" fetch -q --no-tags "$tree" "refs/tags/$reference:refs/tags/$reference"
    fi
}

# write_commit COMMIT REF writes commits/RELEASE.json, as `schedperf ab --source` reads it.
write_commit() {
    build_id=$(readelf -n "$build/vmlinux" 2>/dev/null | sed -n 's/.*Build ID: *//p' | head -n 1)
    git -C "$linux" log -1 --format='%H%n%s%n%an <%ae>%n%cn <%ce>%n%cI' "$1" |
        python3 -c '
import json, sys
keys = ["commit", "subject", "author", "committer", "committed", "tree", "ref", "build_id"]
values = [*sys.stdin.buffer.read().decode(errors="replace").splitlines(), *sys.argv[1:]]
print(json.dumps({key: value[:500] for key, value in zip(keys, values) if value}, indent=1))
' "$tree" "$2" "$build_id" >"$commits/$release.json.new"
    mv "$commits/$release.json.new" "$commits/$release.json"
}

# Prints what the kernel of a release was built from, if it is completely installed.
installed='[ ! -e "/boot/vmlinuz-$1" ] || head -n 1 "/lib/modules/$1/schedperf-build" 2>/dev/null || :'
# The last file says that the installation is complete.
complete='cd "/lib/modules/$1" && cat >new && sync && mv new schedperf-build'
install_deb='rm -f "/lib/modules/$1/schedperf-build" && cat >"/var/tmp/$1.deb" &&
    DEBIAN_FRONTEND=noninteractive dpkg -i "/var/tmp/$1.deb" >&2 && rm "/var/tmp/$1.deb" &&
    mkdir -p "/lib/modules/$1"'
install_files='rm -f "/lib/modules/$1/schedperf-build" && tar -xf - -C / --no-same-owner && depmod "$1" &&
    if command -v kernel-install >/dev/null; then kernel-install add "$1" "/boot/vmlinuz-$1" >&2
    elif [ -d /etc/kernel/postinst.d ]; then
        run-parts --arg="$1" --arg="/boot/vmlinuz-$1" /etc/kernel/postinst.d >&2
    fi'
# Prints the kernels of this program, the newest first; the running one and $1, $2 are kept.
removable='cd /lib/modules && ls -t -- */schedperf-build 2>/dev/null | while IFS=/ read -r release _; do
    [ "$release" = "$(uname -r)" ] || [ "$release" = "$1" ] || [ "$release" = "$2" ] || echo "$release"
done'
remove=': "${1:?}"
    if dpkg -s "linux-image-$1" >/dev/null 2>&1; then dpkg --purge "linux-image-$1" >&2
    elif command -v kernel-install >/dev/null; then kernel-install remove "$1" >&2; fi
    rm -rf "/boot/vmlinuz-$1" "/boot/System.map-$1" "/boot/config-$1" "/boot/initrd.img-$1" \
        "/boot/initramfs-$1.img" "/lib/modules/$1"
    if [ -d /etc/kernel/postrm.d ]; then run-parts --arg="$1" /etc/kernel/postrm.d >&2; fi'

# build_and_install NAME COMMIT REF SUFFIX sets $release.
build_and_install() {
    build=$work/build/$1 suffix=$4
    mkdir -p "$build"
    git -C "$linux" checkout -q --force --detach "$2"
    cp "$config" "$build/.config"
    make_in "$build" olddefconfig >&2
    # The prepared .config names compiler, assembler, linker and pahole.
    key=$({ echo "$2" && cat "$build/.config"; } | sha256sum | cut -c1-64)
    release=$(make_in "$build" -s kernelrelease)
    there=$(on "$installed" "$release" </dev/null)
    if [ "$there" = "$key" ] && [ -e "$commits/$release.json" ]; then
        echo "$1: $release is installed"
        return
    fi
    echo "$1: building $release"
    rm -rf "$build/stage" "$work/build/"linux-*"$release"*
    if [ "$install" = deb ]; then
        make_in "$build" bindeb-pkg "KDEB_PKGVERSION=1" >&2
        deb=$(find "$work/build" -maxdepth 1 -name "linux-image-${release}_*.deb" | head -n 1)
        [ -n "$deb" ] || die "$work/build: bindeb-pkg wrote no linux-image-${release}_*.deb"
    else
        make_in "$build" >&2
        mkdir -p "$build/stage/boot" "$build/stage/lib/modules/$release"
        if grep -q '^CONFIG_MODULES=y' "$build/.config"; then
            make_in "$build" modules_install "INSTALL_MOD_PATH=$build/stage" INSTALL_MOD_STRIP=1 >&2
            rm -f "$build/stage/lib/modules/$release/build" "$build/stage/lib/modules/$release/source"
        fi
        cp "$build/$(make_in "$build" -s image_name)" "$build/stage/boot/vmlinuz-$release"
        cp "$build/System.map" "$build/stage/boot/System.map-$release"
        cp "$build/.config" "$build/stage/boot/config-$release"
    fi
    write_commit "$2" "$3"
    echo "$1: installing $release on $SCHEDPERF_TARGET"
    if [ "$install" = deb ]; then
        on "$install_deb" "$release" <"$deb"
    else
        # Without the directories themselves: /lib is a symbolic link on most machines.
        (cd "$build/stage" && tar -cf - boot/* "lib/modules/$release") | on "$install_files" "$release"
    fi
    {
        echo "$key"
        grep -E '^CONFIG_(CC_VERSION_TEXT|AS_VERSION|LD_VERSION|LLD_VERSION|PAHOLE_VERSION)=' "$build/.config" || :
    } | on "$complete" "$release"
}

mkdir -p "$work/build" "$commits"
work=$(cd "$work" && pwd) commits=$(cd "$commits" && pwd)
linux=$work/linux
exec 9>"$work/lock"
flock 9
fetch
release=''
if [ -n "$reference" ]; then
    build_and_install reference "$(git -C "$linux" rev-parse "$reference^{commit}")" "$reference" ''
fi
of_reference=$release
build_and_install new "$new" "$ref" "-g$(git -C "$linux" rev-parse --short=12 "$new")"
# The kernel that was installed last is the one to test.
on 'touch "/boot/vmlinuz-$1" "/lib/modules/$1/schedperf-build"' "$release" </dev/null
others=$(on "$removable" "$release" "$of_reference" </dev/null)
echo "$others" | tail -n "+$keep" | while read -r old; do
    [ -n "$old" ] || continue
    echo "removing $old"
    on "$remove" "$old" </dev/null
done
