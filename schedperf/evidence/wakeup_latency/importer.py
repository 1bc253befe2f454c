# SPDX-License-Identifier: GPL-2.0-or-later
"""Import latencies that perf sched and rtla print, one run per file.

The supported texts are those of ``perf sched timehist``, ``perf sched latency``, ``rtla timerlat
hist`` and ``rtla osnoise hist``. A file becomes the capture of its run, which the section "Wakeup
latency" reads instead of the collector's histograms. The text of rtla is also the output of its
run, so that its percentiles become results.
"""

from schedperf.evidence.wakeup_latency.section import FOLDER
from schedperf.evidence.wakeup_latency.texts import recognise
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.tree import Tree, natural_order
from schedperf.model.errors import InputError
from schedperf.model.text import list_some

MOST_NAMES = 5


@importer("wakeup-latency", summary="text of perf sched timehist or latency, or of rtla, per run")
def import_wakeup_latency(tree: Tree) -> Imported:
    """Read all files in the order of their names; each file is a run.

    Files of another format are left out, with a note.

    :raises InputError: no file is the output of one of these commands
    """
    runs: list[ImportedRun] = []
    others: list[str] = []
    for file in sorted(tree.files(), key=natural_order):
        run = _read_run(file, tree.read_or_skip(file) or b"")
        if run is None:
            others.append(file)
        else:
            runs.append(run)
    if not runs:
        raise InputError(
            f"{tree.root}: no latencies (expected text files that `perf sched timehist`, "
            "`perf sched latency`, `rtla timerlat hist` or `rtla osnoise hist` printed); write "
            "the output of each run to a file"
        )
    not_read = [f"not read, because they are other texts: {list_some(others, MOST_NAMES)}"]
    return Imported(
        label=tree.name,
        boots=(ImportedBoot(host={}, runs=tuple(runs)),),
        originals=tuple(run.source for run in runs if run.source is not None),
        notes=(*(not_read if others else []), *tree.skipped),
    )


def _read_run(file: str, content: bytes) -> ImportedRun | None:
    kind = recognise(content)
    if kind is None:
        return None
    command: tuple[str, ...] = ("perf", "sched", kind)
    if kind == "rtla":
        command = ("rtla", "timerlat" if b"# RTLA timerlat" in content else "osnoise", "hist")
    return ImportedRun(
        workload=" ".join(command),
        command=command,
        point={},
        text=content if kind == "rtla" else b"",
        captures={f"{FOLDER}/{kind}.txt": content},
        source=file,
    )
