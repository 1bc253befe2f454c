# SPDX-License-Identifier: GPL-2.0-or-later
# Functions of the examples' scripts; source it after `set -eu`.

# May be several words, e.g. `python3 -m schedperf`, so do not quote it.
SCHEDPERF=${SCHEDPERF:-schedperf}

die() {
    echo "$(basename "$0"): $1" >&2
    exit 2
}

# need PROGRAM COMMAND: exit if a program is missing, and print the command that installs it.
need() {
    command -v "$1" >/dev/null || die "$1 is missing; run: $2"
}

need_schedperf() {
    need "${SCHEDPERF%% *}" "pip install schedperf, or set SCHEDPERF to the command"
}

# Create $work, a folder that is removed at exit, also on Ctrl-C.
make_work_folder() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# in_guest BOOT_COMMAND...: boot a guest with $work; if that fails, print its output.
in_guest() {
    "$@" || {
        cat "$work/log" "$work/console" >&2 || true
        die "recording in the guest failed; see its output above"
    }
}

# keep FOLDER SIDE...: compress its bundles SIDE.tar into the current folder.
# The dictionary of -9 covers a whole bundle, so repeated captures compress well.
keep() {
    from=$1
    shift
    for side in "$@"; do
        xz -9e --stdout "$from/$side.tar" >"$side.tar.xz.partial"
        mv "$side.tar.xz.partial" "$side.tar.xz"
    done
}
