# SPDX-License-Identifier: GPL-2.0-or-later
"""Import logs of rt-app: a directory with one log per thread, or one such directory per run."""

from collections.abc import Mapping

from schedperf.inputs.benchmarks.rt_app import HEADER
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.tree import Tree, natural_order, strip_compression
from schedperf.model.errors import InputError

# The first lines of a log name its columns.
HEAD_BYTES = 4096


@importer("rt-app", summary="directory with logs of rt-app, or with one such directory per run")
def import_rt_app(tree: Tree) -> Imported:
    """Read the logs; all logs in a directory belong to one run.

    :raises InputError: there is no log
    """
    logs: dict[str, dict[str, bytes]] = {}
    for file in tree.files():
        folder, _, name = file.rpartition("/")
        content = tree.read_or_skip(file) if ".log" in name else None
        if content is not None and HEADER.search(content[:HEAD_BYTES].decode(errors="replace")):
            logs.setdefault(folder, {})[file] = content
    if not logs:
        raise InputError(
            f"{tree.root}: no logs of rt-app (expected files such as rt-app-thread-0.log, which "
            "begin with #idx); set `logdir` in the configuration of rt-app"
        )
    runs = tuple(
        ImportedRun(workload="rt-app", command=("rt-app",), point={}, text=_join(logs[folder]))
        for folder in sorted(logs, key=natural_order)
    )
    return Imported(
        label=tree.name,
        boots=(ImportedBoot(host={}, runs=runs),),
        originals=tuple(file for files in logs.values() for file in files),
        notes=tuple(tree.skipped),
    )


def _join(files: Mapping[str, bytes]) -> bytes:
    # The format in which head(1) prints several files.
    return b"".join(
        f"==> {strip_compression(file).rpartition('/')[2]} <==\n".encode() + content + b"\n"
        for file, content in files.items()
    )
