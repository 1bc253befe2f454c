# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the installed perf on a perf.data and parse its output."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from schedperf_generators.truth import Counted

_SECONDS = 60
# The user's cache may have symbols of files that are in another root directory.
_NO_CACHE = "/nonexistent"
# A separator that does not occur in symbol names.
_SEPARATOR = "|"
_HEADING = re.compile(r"# Samples: \S+ +of events? '(?P<name>[^']*)'")
_STATISTIC = re.compile(r"  (?P<name>\S.*?)\s+: +(?P<count>\d+)$")
# "[k] " or "[.] " before a symbol: its privilege level.
_LEVEL_CHARACTERS = 4
_C2C_COLUMNS = (
    "index", "address", "node", "pages", "percent", "contended", "local", "remote", "records",
    "loads", "store", "store_l1_hit", "store_l1_miss", "store_na", "load_fb_hit", "load_l1_hit",
    "load_l2_hit", "load_llc_hit", "lcl_hitm", "rmt_hit", "rmt_hitm", "lcl_dram", "rmt_dram",
)  # fmt: skip


class Reported(NamedTuple):
    """One row of perf report; columns that were not asked for are "" or None.

    :param level: ``k`` kernel, ``.`` user, ``g`` guest kernel, ``u`` guest user, ``H`` hypervisor
    :param symbol: name, or an address if perf has no name
    """

    event: str
    cpu: int | None
    comm: str
    dso: str
    level: str
    symbol: str
    pid: int | None


def run_perf(*args: str | Path) -> str:
    """Run perf and return what it prints on stdout.

    :raises FileNotFoundError: perf is not installed
    :raises subprocess.CalledProcessError: it failed
    :raises subprocess.TimeoutExpired: it took longer than a minute
    """
    done = subprocess.run(
        ["perf", "--buildid-dir", _NO_CACHE, *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SECONDS,
        check=True,
        # No pager, no user configuration, and the C locale.
        env={**os.environ, "LC_ALL": "C", "PERF_CONFIG": "/dev/null", "PAGER": "cat"},
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def perf_report(
    path: Path, *args: str, keys: str = "cpu,comm,dso,symbol"
) -> Mapping[Reported, Counted]:
    """Return the samples and periods of each row of ``perf report``; raise as :func:`run_perf`.

    :param path: the perf.data
    :param args: further options, such as ``--kallsyms``
    :param keys: sort keys, some of ``cpu``, ``pid``, ``comm``, ``dso`` and ``symbol``, separated by
        commas
    """
    names = keys.split(",")
    command: tuple[str | Path, ...] = (
        "report", "-i", path, "--stdio", "--no-children", "-g", "none", "--no-inline",
        "-F", f"period,sample,{keys}", "--sort", keys, "-t", _SEPARATOR, *args,
    )  # fmt: skip
    try:
        text = run_perf(*command, "--no-group")
    except subprocess.CalledProcessError as error:
        # perf 6.1 crashes with this option on one of 60 recordings that went through a pipe. The
        # option changes nothing where no events are grouped.
        if error.returncode != -signal.SIGSEGV:
            raise
        text = run_perf(*command)
    rows: dict[Reported, Counted] = {}
    event = ""
    for line in text.splitlines():
        if match := _HEADING.match(line):
            event = match["name"]
        cells = [cell.strip() for cell in line.split(_SEPARATOR)]
        if line.startswith("#") or len(cells) < 2 + len(names):
            continue
        row = _reported(event, dict(zip(names, cells[2:], strict=False)))
        before = rows.get(row, Counted(0, 0))
        rows[row] = Counted(before.samples + int(cells[1]), before.period + int(cells[0]))
    return rows


def _reported(event: str, cells: Mapping[str, str]) -> Reported:
    symbol = cells.get("symbol", "")
    return Reported(
        event=event,
        cpu=int(cells["cpu"]) if "cpu" in cells else None,
        comm=cells.get("comm", ""),
        dso=cells.get("dso", ""),
        level=symbol[1:2],
        symbol=symbol[_LEVEL_CHARACTERS:],
        # perf prints the name of the process after the pid.
        pid=int(cells["pid"].partition(":")[0]) if "pid" in cells else None,
    )


def perf_c2c_statistics(path: Path) -> Mapping[str, int]:
    """Return perf c2c's "Trace Event Information" by the names of its rows, in snake case.

    It raises as :func:`run_perf`.
    """
    text = run_perf("c2c", "report", "-i", path, "--stats")
    counts = {}
    for line in text.partition("Global Shared Cache Line")[0].splitlines():
        if match := _STATISTIC.fullmatch(line):
            counts["_".join(re.findall(r"\w+", match["name"].lower()))] = int(match["count"])
    return counts


def perf_c2c_lines(path: Path, *args: str) -> Mapping[int, Mapping[str, int]]:
    """Return perf c2c's table of cache lines: counts by column, by address of the line.

    It raises as :func:`run_perf`.

    :param args: further options, such as ``--show-all``, without which perf hides lines
    """
    text = run_perf("c2c", "report", "-i", path, "--stdio", *args)
    table = text.partition("Shared Data Cache Line Table")[2].partition("Distribution Pareto")[0]
    lines = {}
    for words in map(str.split, table.splitlines()):
        if len(words) == len(_C2C_COLUMNS) and words[0].isdecimal():
            row = dict(zip(_C2C_COLUMNS, words, strict=True))
            lines[int(row["address"], 16)] = {
                name: int(row[name]) for name in _C2C_COLUMNS[_C2C_COLUMNS.index("contended") :]
            }
    return lines
