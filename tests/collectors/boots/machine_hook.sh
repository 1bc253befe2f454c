#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The boot hook of machine.sh: a reboot kills what runs there, and a loader chooses the kernel.
job=/var/lib/schedperf/boots/job.status
boot() {
    if [ -e $job ] && ! grep -q '"status"' $job; then
        pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' $job)
        kill -KILL "-$pid" 2>/dev/null
    fi
    if [ -e "$MACHINE/armed" ]; then
        cat "$MACHINE/armed" > "$MACHINE/release"
        [ -e "$MACHINE/sticky" ] || rm -f "$MACHINE/armed"
    else
        cat "$MACHINE/default" > "$MACHINE/release"
    fi
    # A kernel that does not boot ends at the default one.
    if [ "$(cat "$MACHINE/release")" = "$(cat "$MACHINE/broken" 2>/dev/null)" ]; then
        cat "$MACHINE/default" > "$MACHINE/release"
    fi
    echo "#1 build of $(cat "$MACHINE/release")" > "$MACHINE/version"
    cat /proc/sys/kernel/random/uuid > "$MACHINE/boot_id"
}
case $1 in
check) ;;
arm) echo "$2" > "$MACHINE/armed" ;;
armed) cat "$MACHINE/armed" 2>/dev/null ;;
disarm) rm -f "$MACHINE/armed" ;;
default) cat "$MACHINE/default" ;;
reboot) boot ;;
esac
exit 0
