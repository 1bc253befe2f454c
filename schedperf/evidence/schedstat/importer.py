# SPDX-License-Identifier: GPL-2.0-or-later
"""Import recordings or reports of ``perf sched stats``, one file per run.

A file is the capture of its run: the section "Scheduler statistics" reads it in place of the
snapshots that the collector takes.
"""

from collections.abc import Sequence

from schedperf.evidence.schedstat.perf_sched import (
    is_perf_data,
    is_sched_stats_report,
    parse_sched_stats,
)
from schedperf.evidence.schedstat.section import FOLDER, PERF_FILE
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.host_fields import (
    Fields,
    merge,
    read_perf_header,
    refuse_several_kernels,
)
from schedperf.inputs.importers.tree import Tree, natural_order
from schedperf.model.errors import InputError
from schedperf.model.text import list_some

CAPTURE = f"{FOLDER}/{PERF_FILE}"
HEAD_BYTES = 64
MOST_NAMES = 5


@importer("perf-sched-stats", summary="recordings or reports of perf sched stats, one per run")
def import_perf_sched_stats(tree: Tree) -> Imported:
    """Read all files in the order of their names; each file is a run.

    Damaged files and other files are left out, with a note.

    :raises InputError: no file is a readable recording or report, or the files are from several
        kernels
    """
    runs: list[ImportedRun] = []
    used: list[str] = []
    others: list[str] = []
    damaged: list[str] = []
    hosts: dict[str, Fields] = {}
    for file in sorted(tree.files(), key=natural_order):
        content = tree.read_or_skip(file) or b""
        if not _is_known(content[:HEAD_BYTES]):
            others.append(file)
            continue
        try:
            parse_sched_stats(content, file)
        except InputError as error:
            damaged.append(str(error))
            continue
        used.append(file)
        runs.append(_run(content))
        hosts[file] = read_perf_header(content, file) if is_perf_data(content) else {}
    if not runs:
        raise InputError(f"{tree.root}: {_why_nothing(damaged)}")
    refuse_several_kernels(tree, hosts.values())
    not_read = (
        [f"not read, because they are not perf sched stats: {list_some(others, MOST_NAMES)}"]
        if others
        else []
    )
    return Imported(
        label=tree.name,
        boots=(ImportedBoot(host=merge(hosts.values()), runs=tuple(runs)),),
        originals=tuple(used),
        notes=(*damaged, *not_read, *tree.skipped),
    )


def _is_known(head: bytes) -> bool:
    return is_perf_data(head) or is_sched_stats_report(head.decode(errors="replace"))


def _run(content: bytes) -> ImportedRun:
    return ImportedRun(
        workload="perf sched stats",
        command=("perf", "sched", "stats"),
        point={},
        text=b"",
        captures={CAPTURE: content},
    )


def _why_nothing(damaged: Sequence[str]) -> str:
    if damaged:
        return damaged[0]
    return (
        "no scheduler statistics (expected files written by `perf sched stats record`, or by "
        "`perf sched stats report`); record again"
    )
