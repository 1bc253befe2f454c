# SPDX-License-Identifier: GPL-2.0-or-later
"""Write imported results as an ordinary bundle that includes the original files."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun
from schedperf.inputs.importers.tree import Tree
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, list_some
from schedperf_collectors import __version__
from schedperf_collectors.contract import (
    BUNDLE_FORMAT,
    BUNDLE_VERSION,
    boot_folder,
    point_key,
    run_folder,
)
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.bundle import BundleWriter, check_output

# Directory of the original files, which keep their relative paths.
ORIGINALS = "import/files"
MOST_NOTES = 20
# A run's number has at most 6 digits. The other limits are in characters.
MOST_RUNS = 100_000
LONGEST_POINT = 500
LONGEST_WORKLOAD = 500
LONGEST_SHOWN = 60
MOST_LEFT_OUT = 5

_CAPTURE = re.compile(r"[a-z][a-z0-9_]{0,40}/[a-z][a-z0-9_.]{0,40}", re.ASCII)


def write_bundle(imported: Imported, tree: Tree, kind: str, path: Path, *, force: bool) -> Path:
    """Write a bundle; return its path.

    :param tree: the files, of which the originals are copied
    :param kind: name of the format: "mmtests"
    :param force: replace an existing file
    :raises InputError: there are no runs or too many, a capture has an invalid name, an original
        cannot be read, or the bundle cannot be created
    :raises OSError: the bundle cannot be written completely
    """
    _check(imported, tree)
    try:
        check_output(path, force=force)
        writer = BundleWriter(path)
    except RecordError as error:
        raise InputError(str(error)) from None
    try:
        for name in imported.originals:
            writer.add(f"{ORIGINALS}/{name}", tree.original(name), "import")
        for number, boot in enumerate(imported.boots):
            _write_boot(writer, number, boot, kind)
        return writer.finish(_manifest(imported, kind))
    except BaseException:
        writer.discard()
        raise


def leave_out_invalid(imported: Imported) -> Imported:
    """Return the results without runs whose workload or point is invalid in a bundle.

    A note lists these runs. Boots without other runs are left out, too.
    """
    left_out: list[str] = []
    boots: list[ImportedBoot] = []
    for boot in imported.boots:
        problems = [_problem(run) for run in boot.runs]
        left_out += filter(None, problems)
        runs = tuple(
            run for run, problem in zip(boot.runs, problems, strict=True) if problem is None
        )
        boots += [replace(boot, runs=runs)] if runs else []
    if not left_out:
        return imported
    count = f"left out {len(left_out)} run{'s' * (len(left_out) != 1)}"
    note = f"{count}: {list_some(left_out, MOST_LEFT_OUT)}"
    return replace(imported, boots=tuple(boots), notes=(note, *imported.notes))


def _problem(run: ImportedRun) -> str | None:
    where = f"{clean_line(run.source)}: " if run.source is not None else ""
    names = (
        ("benchmark", run.workload, LONGEST_WORKLOAD),
        ("parameters", _key(run), LONGEST_POINT),
    )
    for kind, text, limit in names:
        if len(text) > limit or not text.isprintable():
            shown = ascii(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")
            return (
                f"{where}invalid name of {kind} {shown} (expected at most {limit} printable "
                "characters)"
            )
    return None


def _check(imported: Imported, tree: Tree) -> None:
    runs = [run for boot in imported.boots for run in boot.runs]
    if not runs:
        why = f"; {imported.notes[0]}" if imported.notes else "; check the path"
        raise InputError(f"{tree.root}: no results{why}")
    if len(runs) > MOST_RUNS:
        raise InputError(
            f"{tree.root}: {len(runs)} runs (expected at most {MOST_RUNS}); import parts of it "
            "separately"
        )
    for file in (file for run in runs for file in run.captures):
        if not _CAPTURE.fullmatch(file):
            raise InputError(
                f"{tree.root}: invalid name of a capture {file[:60]!r} (expected "
                "COLLECTOR/NAME, e.g. perf_stat/perf_stat.csv); correct the importer"
            )


def _key(run: ImportedRun) -> str:
    return point_key(dict(run.point))


def _write_boot(writer: BundleWriter, number: int, boot: ImportedBoot, kind: str) -> None:
    folder = boot_folder(number)
    writer.add(f"{folder}/host.json", _to_json(boot.host), "host")
    if boot.config is not None:
        writer.add(f"{folder}/layout/config", boot.config, "layout")
    for index, run in enumerate(boot.runs):
        name = run_folder(number, index)
        entries = [writer.add(f"{name}/stdout", run.text, "workload")]
        if run.more is not None:
            entries.append(writer.add(f"{name}/stderr", run.more, "workload"))
        for file, content in run.captures.items():
            entries.append(writer.add(f"{name}/{file}", content, file.partition("/")[0]))
        record = _run_record(run, number, index, kind)
        writer.add(f"{name}/run.json", _to_json({**record, "captures": entries}), "record")


def _run_record(run: ImportedRun, boot: int, index: int, kind: str) -> Mapping[str, object]:
    return {
        "boot": boot,
        "run": index,
        "boot_id": None,
        "workload": run.workload,
        "command": run.command,
        "label": kind,
        "tool_version": __version__,
        "imported": kind,
        "source": run.source,
        "point": run.point,
        "point_key": _key(run),
        "kind": "clean",
        "warmup": False,
        "block": 0,
        "round": None,
        "side": None,
        "order": index,
        "session": None,
        "start": run.start,
        "exit_status": run.exit_status,
        "signal": None,
        "failure": run.failure,
        "wall_s": run.wall_s,
        "rusage": run.usage,
        **({} if run.period_s is None else {"period_s": run.period_s}),
    }


def _manifest(imported: Imported, kind: str) -> Mapping[str, object]:
    runs = [run for boot in imported.boots for run in boot.runs]
    starts = [run.start for run in runs if run.start is not None]
    return {
        "format": BUNDLE_FORMAT,
        "version": dict(zip(("major", "minor"), BUNDLE_VERSION, strict=True)),
        "tool_version": __version__,
        "label": imported.label,
        "created": min(starts, default=None),
        "workload": _unique(run.workload for run in runs),
        "points": _unique(map(_key, runs)),
        "treatment": [],
        "setup": None,
        "metric": None,
        "sequential": None,
        "complete": imported.incomplete is None,
        "incomplete_reason": imported.incomplete,
        "planned_runs": None,
        "imported": {"format": kind, "notes": _some(imported.notes)},
        "better": dict(imported.better),
    }


def _unique(texts: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _some(notes: Sequence[str]) -> list[str]:
    left = len(notes) - MOST_NOTES
    more = [f"{left} more notes, see `schedperf import`"] if left > 0 else []
    return [*notes[:MOST_NOTES], *more]


def _to_json(value: object) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
