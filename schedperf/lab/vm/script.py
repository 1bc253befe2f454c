# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the guest's shell script into the directory shared with this machine.

::

    run             the script            events    the recorder's events while it runs
    recorder        its zipapp            log       all other output
    kernel/         System.map, config    status    exit status; written last
    bundle.tar      the bundle so far, replaced when the recording is over
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

# Path of the shared directory in the guest. It is on the kernel's command line, which bundles
# store, so it is the same for all boots.
SHARE = "/mnt"
# The guest mounts its own file systems here, which hide this machine's.
HIDDEN = (SHARE, "/run", "/dev", "/proc", "/sys", "/var/tmp", "/var/log", "/var/cache")  # noqa: S108 # not ours

COMMAND = f"sh {SHARE}/run"
BOOTED = '{"event": "booted"}'
ALIVE = '{"event": "alive"}'
ALIVE_S = 10

# If one of these fails, the collectors that need it are skipped with a reason.
PREPARE = """\
mount -t bpf bpf /sys/fs/bpf
[ -e /sys/kernel/debug/sched ] || mount -t debugfs debugfs /sys/kernel/debug
[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
[ ! -e /proc/sys/kernel/sched_schedstats ] || echo 1 >/proc/sys/kernel/sched_schedstats
"""

# Everything is recorded in memory and then copied: perf loses build ids when it writes to 9p.
_SCRIPT = """\
exec 9>{share}/events
echo {booted} >&9
while sleep {alive_s}; do echo {alive} >&9; done &
pulse=$!

record() {{
    set -eu
    export TMPDIR=/run/schedperf
    mkdir $TMPDIR
    cp {share}/recorder $TMPDIR/schedperf
    [ ! -e {share}/bundle.tar ] || cp {share}/bundle.tar $TMPDIR/{bundle}
    cd {folder}
    {setup}
    status=0
    {python} -I $TMPDIR/schedperf record --events 9 {target} {arguments} || status=$?
    if [ -e $TMPDIR/{bundle} ]; then
        cp $TMPDIR/{bundle} {share}/bundle.tar.copy
        mv {share}/bundle.tar.copy {share}/bundle.tar
    fi
    return $status
}}

{{
    {prepare}
    (record)
    echo $? >{share}/status
    kill $pulse
}} >{share}/log 2>&1
"""


class Work(Struct, frozen=True, kw_only=True):
    """What to record in every boot.

    :param python: Python interpreter of the guest
    :param recorder: zipapp of the recorder
    :param arguments: arguments of ``record``, from its options to the end of the command
    :param setup: shell command to run first; "" for none
    :param folder: the working directory
    """

    python: str
    recorder: bytes
    arguments: Sequence[str]
    setup: str
    folder: Path


def write_script(share: Path, work: Work, bundle: str, options: Sequence[str]) -> None:
    """Write the script of the next boot.

    :param share: the shared directory; if it has a bundle, runs are added to it
    :param bundle: file name of the bundle inside the guest, which determines its label
    :param options: options of ``record`` for this boot only
    """
    target = "--append" if (share / "bundle.tar").exists() else "-o"
    setup = f"sh -c {shlex.quote(work.setup)}" if work.setup else ":"
    text = _SCRIPT.format(
        share=SHARE,
        booted=shlex.quote(BOOTED),
        alive=shlex.quote(ALIVE),
        alive_s=ALIVE_S,
        prepare=PREPARE,
        bundle=shlex.quote(bundle),
        folder=shlex.quote(str(work.folder)),
        setup=setup,
        python=work.python,
        target=f"{target} $TMPDIR/{shlex.quote(bundle)}",
        arguments=shlex.join([*options, *work.arguments]),
    )
    (share / "run").write_text(text)
