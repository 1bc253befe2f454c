# SPDX-License-Identifier: GPL-2.0-or-later
# What the examples' scripts share; to be sourced after `set -eu`.

# May be several words, `python3 -m schedperf`, so it stays unquoted where it is used.
SCHEDPERF=${SCHEDPERF:-schedperf}

die() {
    echo "$(basename "$0"): $1" >&2
    exit 2
}

# need PROGRAM COMMAND: ends the script with the command that brings a missing program.
need() {
    command -v "$1" >/dev/null || die "$1 is missing; run: $2"
}

need_schedperf() {
    need "${SCHEDPERF%% *}" "pip install schedperf, or set SCHEDPERF to the command"
}

# Makes $work, a folder that goes with the script, also on Ctrl-C.
make_work_folder() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
}

# in_guest BOOT_COMMAND...: boots a guest on $work and, when that fails, shows what it said.
in_guest() {
    "$@" || {
        cat "$work/log" "$work/console" >&2 || true
        die "recording in the guest failed; what it said is above"
    }
}

# keep FOLDER: compresses its base.tar and new.tar into the current folder.
# The dictionary of -9 spans a whole bundle, so what every run or boot captures again costs nothing.
keep() {
    for side in base new; do
        xz -9e --stdout "$1/$side.tar" >"$side.tar.xz.partial"
        mv "$side.tar.xz.partial" "$side.tar.xz"
    done
}
