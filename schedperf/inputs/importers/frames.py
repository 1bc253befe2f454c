# SPDX-License-Identifier: GPL-2.0-or-later
"""Import frame times: logs of MangoHud and PresentMon, one run per file.

MangoHud writes names and values of the system, then a header and one line per frame; older versions
only the last two. PresentMon, and tools that use it (OCAT, FrameView, CapFrameX), write a header
and one line per frame and process.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.inputs.benchmarks.imported_values import format_values
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.tree import Tree, natural_order, strip_compression
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.rows import Better
from schedperf.model.text import clean_line, list_some

Floats = npt.NDArray[np.float64]

MOST_RUNS = 1000
MOST_FRAMES = 5_000_000
# Longest line, and lines above the header: system and version.
LONGEST_LINE = 10_000
MOST_HEAD_LINES = 20
# Longer ones are errors of the log.
LONGEST_FRAME_S = 3600.0
FEWEST_FRAMES = 10
# Fewest frames of which 1% and 0.1% are at least one.
FEWEST_OF_1_PERCENT = 100
FEWEST_OF_01_PERCENT = 1000
# A stutter takes this many times the median of the frames before it.
STUTTER = 2.5
FRAMES_BEFORE = 20
# A rate per frame does not fall if all frames take longer.
STUTTERS = "stutters per 1000 frames"
# Logged frames shorter in sum than this share of the elapsed time are samples of all frames.
LEAST_COVERED = 0.8
MOST_NAMES = 5
LONGEST_NAME = 80
MILLISECOND_S = 1e-3

SYSTEM = ("os", "cpu", "gpu", "ram", "kernel", "driver", "cpuscheduler")
# Columns with the time of a frame in ms, the best first, in lower case: PresentMon 2, then 1.
PRESENTMON = ("frametime", "msbetweenappstart", "msbetweenpresents")
# fps times the frame time, by the unit of the frame time: older versions of MangoHud wrote us.
_UNITS: Mapping[float, float] = {1e3: 1e-3, 1e6: 1e-6, 1e9: 1e-9}
_WIDEST_UNIT = 5.0
_DATE = re.compile(r"_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}\Z", re.ASCII)
_RUN = re.compile(r"[-_ .]?(?:run)?\d{1,4}\Z", re.ASCII)


class _Log(Struct, frozen=True, kw_only=True):
    """One file.

    :param application: program that drew the frames; "" if the file does not name it
    :param frames: time of each frame in s, in the order of the file
    :param elapsed_s: time from the first to the last line; None if not recorded
    :param system: what MangoHud recorded of the machine, by column
    :param notes: what was left out
    """

    application: str
    frames: Floats
    elapsed_s: float | None
    system: Mapping[str, str]
    notes: tuple[str, ...]


@importer("frames", summary="frame times: log of MangoHud or PresentMon, or a directory of logs")
def import_frames(tree: Tree) -> Imported:
    """Read all logs in the order of their names, as runs of one boot.

    :raises InputError: no file is a log with frame times; or the logs are of several kernels
    """
    runs, used, notes, systems = [], [], [], []
    for file in sorted(tree.files(), key=natural_order):
        content = tree.read_or_skip(file)
        if content is None:
            continue
        try:
            log = _read(content.decode("utf-8-sig", errors="replace"))
        except ValueError as error:
            notes.append(f"{file}: {error}")
            continue
        runs.append(_to_run(log, file, tree.name))
        used.append(file)
        systems.append(log.system)
        notes += [f"{file}: {note}" for note in log.notes]
        if len(runs) > MOST_RUNS:
            raise InputError(
                f"{tree.root}: more than {MOST_RUNS} logs (expected one recording); import parts "
                "of it separately"
            )
    if not runs:
        why = f" ({list_some(notes, MOST_NAMES)})" if notes else ""
        raise InputError(
            f"{tree.root}: no log of MangoHud or PresentMon with frame times{why}; check the path"
        )
    return Imported(
        label=strip_compression(tree.name).removesuffix(".csv"),
        boots=(ImportedBoot(host=_host(systems, tree), runs=tuple(runs)),),
        originals=tuple(used),
        notes=(*notes, *tree.skipped),
    )


def _to_run(log: _Log, file: str, folder: str) -> ImportedRun:
    name = PurePosixPath(strip_compression(file)).name.removesuffix(".csv")
    name = log.application or _RUN.sub("", _DATE.sub("", name)) or folder
    workload = clean_line(name)[:LONGEST_NAME] or "frames"
    return ImportedRun(
        workload=workload,
        command=(workload,),
        point={},
        text=format_values(_values(log)),
        source=file,
    )


def _values(log: _Log) -> Iterator[tuple[str, str, str, Better]]:
    """Yield name, value, unit and direction of each metric of a log."""
    frames = log.frames
    n, total = len(frames), float(frames.sum())
    yield "frame time p50", repr(float(np.quantile(frames, 0.5))), "s", "lower"
    if n >= FEWEST_OF_1_PERCENT:
        yield "frame time p99", repr(float(np.quantile(frames, 0.99))), "s", "lower"
        slowest = np.sort(frames)[-math.ceil(n / 100) :]
        yield "1% low", repr(len(slowest) / float(slowest.sum())), "1/s", "higher"
    if n >= FEWEST_OF_01_PERCENT:
        yield "frame time p99.9", repr(float(np.quantile(frames, 0.999))), "s", "lower"
    if not _is_sampled(log):
        yield STUTTERS, repr(1000.0 * count_stutters(frames) / n), "stutters", "lower"
    yield "fps", repr(n / total), "1/s", "unknown"


def count_stutters(frames: Floats) -> int:
    """Return how many frames take more than 2.5 times the median of the 20 frames before.

    The first 20 frames have too few before them.

    :param frames: times of the frames, shape (frames,)
    """
    if len(frames) <= FRAMES_BEFORE:
        return 0
    before = np.lib.stride_tricks.sliding_window_view(frames, FRAMES_BEFORE)[:-1]
    return int((frames[FRAMES_BEFORE:] > STUTTER * np.median(before, axis=1)).sum())


def _is_sampled(log: _Log) -> bool:
    return log.elapsed_s is not None and float(log.frames.sum()) < LEAST_COVERED * log.elapsed_s


def _read(text: str) -> _Log:
    """Parse a log.

    :raises ValueError: the file has no frame times; the message says why
    """
    lines = text.splitlines()
    if any(len(line) > LONGEST_LINE for line in lines[:MOST_HEAD_LINES]):
        raise ValueError(f"a line has more than {LONGEST_LINE} characters")
    head = [[cell.strip().lower() for cell in _split(line)] for line in lines[:MOST_HEAD_LINES]]
    at = next((i for i, cells in enumerate(head) if _column(cells) is not None), None)
    if at is None:
        raise ValueError("no column with frame times (expected a log of MangoHud or PresentMon)")
    if len(lines) - at > MOST_FRAMES:
        raise ValueError(f"more than {MOST_FRAMES} frames")
    system: dict[str, str] = {}
    for names, values in zip(head[:at], lines[1 : at + 1], strict=True):
        if tuple(names[:3]) == SYSTEM[:3]:
            system = dict(zip(names, _split(values), strict=False))
    is_cut = not text.endswith(("\n", "\r"))
    table = _Table(head[at], lines[at + 1 :])
    log = table.mangohud(system) if "fps" in head[at] else table.presentmon()
    if len(log.frames) < FEWEST_FRAMES:
        raise ValueError(f"{len(log.frames)} frames (expected at least {FEWEST_FRAMES})")
    notes = list(log.notes)
    if is_cut:
        notes.append("the last line has no end, so the file may be cut")
    if _is_sampled(log):
        notes.append("not all frames are logged (log_interval), so stutters are unknown, and "
                     "percentiles are those of the logged frames")  # fmt: skip
    return _Log(application=log.application, frames=log.frames, elapsed_s=log.elapsed_s,
                system=log.system, notes=tuple(notes))  # fmt: skip


def _split(line: str) -> list[str]:
    return next(csv.reader([line.replace("\0", "")]), [])


def _column(cells: Sequence[str]) -> int | None:
    return next((cells.index(name) for name in PRESENTMON if name in cells), None)


class _Table:
    """The lines below a header."""

    def __init__(self, names: Sequence[str], lines: Sequence[str]) -> None:
        self._names = names
        self._rows = [_split(line) for line in lines if line.strip()]

    def mangohud(self, system: Mapping[str, str]) -> _Log:
        """Return the log of MangoHud.

        :raises ValueError: the unit of the frame times is unknown
        """
        rows = self._numbers("frametime", self._rows)
        fps = self._numbers("fps", self._rows)
        both = [fps[i] * time for i, time in rows.items() if i in fps]
        product = float(np.median(both)) if both else 0.0
        unit = next(
            (unit for of_unit, unit in _UNITS.items()
             if of_unit / _WIDEST_UNIT < product < of_unit * _WIDEST_UNIT),
            None,
        )  # fmt: skip
        if unit is None:
            raise ValueError("unknown unit of frametime (expected ms, us or ns, as fps shows)")
        elapsed = list(self._numbers("elapsed", self._rows).values())
        return self._log(
            {i: unit * time for i, time in rows.items()},
            self._rows,
            elapsed_s=(elapsed[-1] - elapsed[0]) * 1e-9 if len(elapsed) > 1 else None,
            system=system,
        )

    def presentmon(self) -> _Log:
        """Return the frames of the swap chain that has the most."""
        chains = Counter(self._chain(row) for row in self._rows)
        most = max(chains.values(), default=0)
        chain = next((chain for chain in chains if chains[chain] == most), ())
        rows = [row for row in self._rows if self._chain(row) == chain]
        column = _column(self._names)
        assert column is not None
        times = self._numbers(self._names[column], rows)
        others = len(self._rows) - len(rows)
        return self._log(
            {i: MILLISECOND_S * time for i, time in times.items()},
            rows,
            application=chain[0] if chain else "",
            notes=(f"left out {others} frames of other processes or swap chains",) * (others > 0),
        )

    def _log(
        self,
        times: Mapping[int, float],
        rows: Sequence[Sequence[str]],
        *,
        application: str = "",
        elapsed_s: float | None = None,
        system: Mapping[str, str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> _Log:
        frames = [time for time in times.values() if 0.0 < time < LONGEST_FRAME_S]
        bad = len(rows) - len(frames)
        if bad:
            notes = (*notes, f"left out {bad} line{'s' * (bad != 1)} without a frame time")
        return _Log(
            application=application, frames=np.array(frames, dtype=np.float64),
            elapsed_s=elapsed_s, system=system or {}, notes=notes,
        )  # fmt: skip

    def _numbers(self, name: str, rows: Sequence[Sequence[str]]) -> dict[int, float]:
        """Return the numbers of a column by the number of their row."""
        if name not in self._names:
            return {}
        column = self._names.index(name)
        read = {i: read_number(row[column].strip()) for i, row in enumerate(rows)
                if column < len(row)}  # fmt: skip
        return {i: value for i, value in read.items() if value is not None}

    def _chain(self, row: Sequence[str]) -> tuple[str, ...]:
        columns = [self._names.index(name) for name in ("application", "processid",
                   "swapchainaddress") if name in self._names]  # fmt: skip
        return tuple(row[column].strip() if column < len(row) else "" for column in columns)


def _host(systems: Sequence[Mapping[str, str]], tree: Tree) -> dict[str, dict[str, object]]:
    host: dict[str, dict[str, object]] = {}
    kernels = dict.fromkeys(each["kernel"] for each in systems if each.get("kernel"))
    if len(kernels) > 1:
        raise InputError(
            f"{tree.root}: logs of {len(kernels)} kernels ({list_some(list(kernels), MOST_NAMES)}; "
            "expected one); import one directory per kernel"
        )
    fields = {"kernel": ("kernel", "release"), "cpu": ("cpu", "model"),
              "cpuscheduler": ("cpufreq", "governor")}  # fmt: skip
    for column, (group, field) in fields.items():
        values = {clean_line(each[column].strip()) for each in systems if each.get(column)}
        if len(values) == 1:
            host.setdefault(group, {})[field] = values.pop()
    return host
