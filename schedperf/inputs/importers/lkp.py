# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results of LKP (0-day): a result root with one directory per run, or its matrix.json.

A run has ``stats.json`` (one number per stat). Where it is missing, the time series in
``MONITOR.json`` are averaged over ``stats_part_begin`` to ``stats_part_end`` of ``job.yaml``; for
counters LKP uses the increase or the sum instead. ``matrix.json`` has one list per stat with a
value per run, in which LKP writes 0 for a missing value; it is read if no run directory has
results.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.inputs.benchmarks import all_parsers
from schedperf.inputs.benchmarks.imported_values import LONGEST_NAME, format_values
from schedperf.inputs.bundle.json import MAX_JSON_INTEGER, parse_json
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers._times import parse_seconds, to_utc
from schedperf.inputs.importers.tree import Tree, strip_compression
from schedperf.model.errors import InputError
from schedperf.model.numbers import LARGEST_NUMBER
from schedperf.model.text import clean_line, list_some

# A comparison accepts 2,000 metrics per run; metrics of the benchmark come first.
MOST_STATS = 1_900
MOST_RUNS = 1_000
MOST_NAMES = 5
# Characters of a 64-bit integer with sign.
MOST_DIGITS = 20
# LKP writes this for "no data".
NO_DATA = -1
# The times of monitors are seconds since their start, or else begin later than this.
LATEST_START_S = 2.0
SHORTEST_SERIES = 3
INCOMPLETE = "last_state.is_incomplete_run"
# Keys of stats.json that are not stats.
NOT_STATS = ("stats_source",)
# Files of a run that are not the time series of a monitor.
NOT_SERIES = {"stats", "avg", "stddev", "job", "params"}
# Parameters that many jobs have beside those of the benchmark itself.
AXES = ("nr_threads", "nr_task", "nr_tasks", "nr_groups", "mode", "ipc", "ip", "test", "load")

_MATRIX = re.compile(r"matrix(?:_\d{1,4})?\.json")
_LINK = re.compile(rb"(?:\.\./)*[\w./-]{1,200}\.json\s*")
_SCALAR = re.compile(r"^( *)([\w.+-]{1,80}):(?: +(.{1,400}?))? *$")


class _Job(Struct, frozen=True, kw_only=True):
    # Scalars of job.yaml: of the top level, and of the benchmark's section.
    top: Mapping[str, str]
    own: Mapping[str, str]

    @property
    def testcase(self) -> str | None:
        return self.top.get("testcase") or self.top.get("suite")

    def seconds(self, name: str) -> float | None:
        try:
            value = float(self.top.get(name, ""))
        except ValueError:
            return None
        return value if math.isfinite(value) else None


class _Run(Struct, frozen=True, kw_only=True):
    folder: str
    job: _Job
    stats: Mapping[str, float]
    text: bytes | None = None


@importer("lkp", summary="result root of LKP, e.g. /lkp/result/hackbench/…/COMMIT")
def import_lkp(tree: Tree) -> Imported:
    """Read the runs of one kernel; each run is a boot. Damaged files are left out, with a note.

    :raises InputError: the directory has no results of LKP, results of several commits, or more
        than 1,000 runs
    """
    reading = _Reading(tree)
    runs = list(reading.runs())
    if not runs:
        why = f"; {reading.notes[0]}" if reading.notes else ""
        raise InputError(
            f"{tree.root}: not a result root of LKP (expected matrix.json, or directories of runs "
            f"with stats.json or MONITOR.json){why}; check the path"
        )
    commits = sorted({run.job.top["commit"] for run in runs if "commit" in run.job.top})
    if len(commits) > 1:
        names = list_some([clean_line(name) for name in commits], MOST_NAMES)
        raise InputError(
            f"{tree.root}: results of {len(commits)} commits ({names}; expected one); pass the "
            "directory of one commit"
        )
    # Every run of LKP boots the machine.
    boots = [ImportedBoot(host=_host(run.job), runs=(_imported(run),)) for run in runs]
    return Imported(
        label=commits[0][:12] if commits else tree.name,
        boots=tuple(boots),
        originals=tuple(sorted(reading.used)),
        notes=(*reading.notes, *tree.skipped),
    )


class _Reading:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._parsers = tuple(all_parsers().values())
        self.used: set[str] = set()
        self.notes: list[str] = []
        self._left_out = 0

    def runs(self) -> Iterator[_Run]:
        folders = sorted(self._run_folders(), key=_order)
        if len(folders) > MOST_RUNS:
            raise InputError(
                f"{self._tree.root}: {len(folders)} runs (expected at most {MOST_RUNS}); import "
                "parts of it separately"
            )
        found = [self._read_run(folder) for folder in folders]
        found = [run for run in found if run.stats or run.text]
        yield from found or self._read_matrices()
        if self._left_out:
            self.notes.append(
                f"{self._left_out} stats left out (at most {MOST_STATS} per run are compared)"
            )

    def _run_folders(self) -> set[str]:
        # A run directory has stats.json, or a job.yaml and time series.
        folders: set[str] = set()
        for name in self._tree.files():
            folder, _, file = name.rpartition("/")
            plain = strip_compression(file)
            is_numbered = folder.rpartition("/")[2].isdigit()
            if plain == "stats.json" or (plain == "job.yaml" and (is_numbered or not folder)):
                folders.add(folder)
        return folders

    def _read_run(self, folder: str) -> _Run:
        job = self._read_job(folder)
        stats = self._read_stats(_join(folder, "stats.json"))
        if stats is None:
            stats = self._average_series(folder, job)
        return _Run(
            folder=folder,
            job=job,
            stats=self._choose(stats, job),
            text=self._read_output(folder, job),
        )

    def _read_job(self, folder: str) -> _Job:
        for above in (folder, folder.rpartition("/")[0]):
            name = self._tree.find(_join(above, "job.yaml"))
            if name is not None:
                self.used.add(name)
                content = self._tree.read_or_skip(name) or b""
                return parse_job(content.decode(errors="replace"))
        return _Job(top={}, own={})

    def _read_json(self, name: str) -> Mapping[str, object] | None:
        file = self._tree.find(name)
        content = None if file is None else self._tree.read_or_skip(file)
        if file is not None and content is not None and _LINK.fullmatch(content):
            # If links were copied as files, the file contains the path of the target.
            self.used.add(file)
            file = self._tree.find(_resolve(file, content.decode()))
            content = None if file is None else self._tree.read_or_skip(file)
        if file is None or content is None:
            return None
        try:
            whole, unusable = _drop_numbers(content)
            value = parse_json(whole, str(self._tree.root / file))
        except InputError as error:
            self.notes.append(str(error))
            return None
        if not isinstance(value, dict):
            self.notes.append(f"{file}: not an object of stats (expected a JSON object)")
            return None
        if unusable:
            numbers = f"{unusable} number{'s' * (unusable != 1)}"
            self.notes.append(f"{file}: left out {numbers} that are NaN or too large")
        self.used.add(file)
        return value

    def _read_stats(self, name: str) -> Mapping[str, float] | None:
        value = self._read_json(name)
        if value is None:
            return None
        return {
            key: number for key, entry in value.items() if (number := _number(entry)) is not None
        }

    def _average_series(self, folder: str, job: _Job) -> Mapping[str, float]:
        begin, end = job.seconds("stats_part_begin"), job.seconds("stats_part_end")
        stats: dict[str, float] = {}
        for name in self._tree.files(folder):
            plain = strip_compression(name.rpartition("/")[2])
            stem = plain.removesuffix(".json")
            is_own = name.rpartition("/")[0] == folder
            if not is_own or stem == plain or stem in NOT_SERIES or _MATRIX.fullmatch(plain):
                continue
            series = self._read_json(name)
            stats.update(_averages(series or {}, f"{stem}.time", begin, end))
        if stats:
            note = (
                "runs without stats.json: values are means of the time series of monitors, also of "
                "counters, of which LKP uses the increase or the sum"
            )
            self.notes += [] if note in self.notes else [note]
        return stats

    def _choose(self, stats: Mapping[str, float], job: _Job) -> Mapping[str, float]:
        prefix = f"{job.testcase}."
        names = [
            name
            for name in stats
            if 0 < len(name) <= LONGEST_NAME and name.isprintable() and name not in NOT_STATS
        ]
        names.sort(key=lambda name: not name.startswith(prefix))
        self._left_out = max(self._left_out, len(stats) - len(names[:MOST_STATS]))
        return {name: stats[name] for name in names[:MOST_STATS]}

    def _read_output(self, folder: str, job: _Job) -> bytes | None:
        """Return the output of the benchmark if a parser recognizes it; else None."""
        name = job.testcase and self._tree.find(_join(folder, job.testcase))
        content = self._tree.read_or_skip(name) if name else None
        if not name or not content:
            return None
        text = content.decode(errors="replace")
        if not any(parser.claims(text) for parser in self._parsers):
            return None
        self.used.add(name)
        return content

    def _read_matrices(self) -> Iterator[_Run]:
        for name in self._tree.files():
            folder, _, file = name.rpartition("/")
            # The matrix.json of a run directory has the time series of the run.
            is_of_run = folder.rpartition("/")[2].isdigit()
            if strip_compression(file) != "matrix.json" or is_of_run:
                continue
            matrix = self._read_json(name)
            if matrix is not None:
                yield from self._split(folder, matrix)

    def _split(self, folder: str, matrix: Mapping[str, object]) -> Iterator[_Run]:
        job = self._read_job(folder)
        columns = {
            key: entry
            for key, entry in matrix.items()
            if isinstance(entry, list) and key not in NOT_STATS
        }
        count = max((len(entry) for entry in columns.values()), default=0)
        if count > MOST_RUNS:
            raise InputError(
                f"{self._tree.root}: matrix.json has {count} runs (expected at most {MOST_RUNS}); "
                "import parts of it separately"
            )
        dropped = 0
        for index in range(count):
            stats: dict[str, float] = {}
            for key, entry in columns.items():
                value = entry[index] if index < len(entry) else NO_DATA
                number = _number(value)
                if number:
                    stats[key] = number
                elif isinstance(value, int | float):
                    dropped += 1
            if stats:
                yield _Run(folder=f"{folder}#{index}", job=job, stats=self._choose(stats, job))
        if dropped:
            self.notes.append(
                f"{dropped} values of matrix.json are 0 or -1, which LKP writes for missing "
                "values, and are left out"
            )


def parse_job(text: str) -> _Job:
    """Parse the scalars of job.yaml: those of the top level, and of the benchmark's section."""
    top: dict[str, str] = {}
    sections: dict[str, dict[str, str]] = {}
    section = ""
    for line in text.splitlines():
        match = _SCALAR.match(line)
        if match is None:
            continue
        indent, name, value = match[1], match[2], (match[3] or "").strip("\"'")
        if not indent:
            section = name
            if value:
                top.setdefault(name, value)
        elif value:
            sections.setdefault(section, {}).setdefault(name, value)
    testcase = top.get("testcase") or top.get("suite") or ""
    return _Job(top=top, own=sections.get(testcase, {}))


def _averages(
    series: Mapping[str, object], clock: str, begin: float | None, end: float | None
) -> Iterator[tuple[str, float]]:
    # clock: the key whose values are the time stamps of the other series, in s.
    times = series.get(clock)
    seconds = [_number(entry) for entry in times] if isinstance(times, list) else []
    part = _steady_part(seconds, begin, end)
    for key, entry in series.items():
        if key == clock:
            continue
        # A single value is the result of the run, not a series.
        is_series = isinstance(entry, list) and len(entry) > 1
        given = entry if isinstance(entry, list) else [entry]
        kept = given[part] if is_series else given
        values = [number for each in kept if (number := _number(each)) is not None]
        if values:
            # Added like LKP does, so that its numbers are reproduced to the last digit.
            yield key, sum(values) / len(values)


def _steady_part(seconds: Sequence[float | None], begin: float | None, end: float | None) -> slice:
    """Return the slice from the first time >= ``begin`` to before the first time >= ``end``.

    The slice contains all values if both limits are missing or 0, or if there are fewer than 3
    times.

    :param seconds: times of the values, in s
    :param begin: in s since the start; None or 0 for no limit
    :param end: in s since the start; None or 0 for no limit
    """
    # LKP writes 0 for no limit; a series of two values has the start and the end of a program.
    if len(seconds) < SHORTEST_SERIES or not (begin or end):
        return slice(None)
    first = seconds[0] or 0.0
    start = first if first > LATEST_START_S else 0.0

    def reach(limit: float) -> int:
        return next(
            (
                index
                for index, each in enumerate(seconds)
                if each is not None and each - start >= limit
            ),
            len(seconds),
        )

    return slice(reach(begin) if begin else None, reach(end) if end else None)


def _drop_numbers(content: bytes) -> tuple[bytes, int]:
    """Return JSON with null in place of unusable numbers, and the number of these.

    Unusable are NaN, infinity, integers of 2**63 or more, and numbers that exceed float64. Invalid
    JSON is returned unchanged, with 0.
    """
    dropped = 0

    def drop(_: str) -> None:
        nonlocal dropped
        dropped += 1

    def whole(text: str) -> int | None:
        is_small = len(text) <= MOST_DIGITS and abs(int(text)) < MAX_JSON_INTEGER
        if is_small:
            return int(text)
        drop(text)
        return None

    def fraction(text: str) -> float | None:
        if math.isfinite(float(text)):
            return float(text)
        drop(text)
        return None

    try:
        value = json.loads(content, parse_constant=drop, parse_int=whole, parse_float=fraction)
        return (json.dumps(value).encode(), dropped) if dropped else (content, 0)
    except (ValueError, RecursionError):
        return content, 0


def _number(value: object) -> float | None:
    """Return a number as a float.

    Return None for anything else, for NaN, for numbers whose absolute value is above 1e150, and for
    -1 (LKP's "no data").
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A float cannot represent larger integers, and comparisons with NaN are false.
    return float(value) if abs(value) <= LARGEST_NUMBER and value != NO_DATA else None


def _imported(run: _Run) -> ImportedRun:
    name = run.job.testcase or "lkp"
    values = format_values(
        (key, json.dumps(value), "", "unknown") for key, value in run.stats.items()
    )
    start = parse_seconds(run.job.top.get("start_time", ""))
    is_incomplete = bool(run.stats.get(INCOMPLETE))
    return ImportedRun(
        workload=name,
        command=(name,),
        point=_point(run.job),
        text=values if run.text is None else run.text,
        more=None if run.text is None else values,
        source=run.folder or None,
        start=None if start is None else to_utc(start),
        failure="LKP marked the run as incomplete" if is_incomplete else None,
    )


def _point(job: _Job) -> dict[str, str]:
    chosen = {name: job.top[name] for name in AXES if name in job.top} | dict(job.own)
    return {
        re.sub(r"\W", "_", name): re.sub(r"[^\w.%+-]", "_", value) for name, value in chosen.items()
    }


def _host(job: _Job) -> Mapping[str, Mapping[str, object]]:
    def given(**names: str) -> dict[str, object]:
        return {ours: job.top[name] for ours, name in names.items() if name in job.top}

    groups = {
        "kernel": given(release="commit", compiler="compiler"),
        "cpufreq": given(governor="cpufreq_governor"),
        "cpu": given(microcode="ucode", model="model"),
        "system": given(hostname="testbox", distro="rootfs"),
    }
    return {name: fields for name, fields in groups.items() if fields}


def _resolve(file: str, target: str) -> str:
    parts = file.split("/")[:-1]
    for part in target.strip().split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _order(folder: str) -> tuple[Sequence[str], int, str]:
    above, _, last = folder.rpartition("/")
    return above.split("/"), int(last) if last.isdigit() and len(last) < 10 else 0, last  # noqa: PLR2004 # run numbers are small
