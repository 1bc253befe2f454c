#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A machine made of processes, in a mount namespace of its own: files in $1 are what the kernel
# says of itself; a boot kills the recorder, and replaces the boot id and the release.
# usage: machine.sh FOLDER COMMAND...
set -e
machine=$1
shift
mkdir -p "$machine/lib/schedperf" "$machine/etc"
if [ ! -e "$machine/boot_id" ]; then
    cat /proc/sys/kernel/random/uuid > "$machine/boot_id"
    echo one > "$machine/default"
    echo one > "$machine/release"
    echo '#1 build of one' > "$machine/version"
fi
mount --make-rprivate /
mount --bind "$machine/lib" /var/lib
mount --bind "$machine/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$machine/release" /proc/sys/kernel/osrelease
mount --bind "$machine/version" /proc/sys/kernel/version
export MACHINE="$machine" SCHEDPERF_SSH="sh $(dirname "$0")/machine_ssh.sh"
exec "$@"
