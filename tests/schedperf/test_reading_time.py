# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of every reader of untrusted text grows linearly with the text.

Readers are found by their names and parameters: ``parse_NAME(content, label)`` and ``read_NAME``,
of bytes, text or lines.
"""

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import schedperf.compare
import schedperf.evidence
import schedperf.inputs
import schedperf.model
import schedperf.publish
import schedperf.runs
from schedperf.model.errors import SchedperfError

PACKAGES = (
    schedperf.compare,
    schedperf.evidence,
    schedperf.inputs,
    schedperf.model,
    schedperf.publish,
    schedperf.runs,
)
# Their readers have tests of their own.
ELSEWHERE = frozenset({"schedperf.inputs.benchmarks"})
LARGE = 1 << 18
SMALL = LARGE // 4
# A linear reader takes 4 times as long for 4 times the text, a quadratic one 16 times.
MOST_RATIO = 8.0
MOST_TRIES = 3
# Shorter times are not compared: constant costs and the clock's resolution would decide.
LEAST_S = 0.1
LABELS = ("label", "where", "name")
# What is repeated to a text: blanks, one long line, and lines that readers know.
UNITS = {
    "newlines": "\n",
    "spaces": " ",
    "blank lines": "  \n",
    "a long word": "a",
    "a long number": "1",
    "open braces": "[",
    "open objects": '{"a":',
    "numbers": "1 2 3 4 5 6 7 8\n",
    "schedstat": "cpu0 0 0 0 0 0 0 1 2 3\n",
    "interrupts": " 24:  1  2  IO-APIC  2-edge  timer\n",
    "key and value": "nr_switches : 12\n",
    "perf stat": "12,,cycles,100,100.00,,\n",
    "symbols": "ffffffff81000000 T _stext\n",
    "timehist": " 1.000001 [0000]  hackbench[12]  0.001  0.002  0.003\n",
    "c2c": "  0  1  0x0  0x1  [.] main  a.out\n",
    "cgroup": "/a 1 usage_usec 5\n",
}


def modules() -> Iterator[str]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[0] not in ELSEWHERE:
                yield module.name


def kind_of(function: Callable[..., Any]) -> str | None:
    """Return what a function reads: "bytes", "text" or "lines"; None for other functions."""
    parameters = [*inspect.signature(function).parameters.values()]
    rest = [each for each in parameters[1:] if each.default is inspect.Parameter.empty]
    if not parameters or len(rest) > 1 or any(each.name not in LABELS for each in rest):
        return None
    kinds = {bytes: "bytes", str: "text", Iterable[str]: "lines"}
    return kinds.get(parameters[0].annotation)


def readers() -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each reader."""
    for module in modules():
        for name, function in inspect.getmembers(importlib.import_module(module)):
            is_ours = inspect.isfunction(function) and function.__module__ == module
            if is_ours and name.startswith(("parse_", "read_")) and kind_of(function):
                yield module, name


def seconds(read: Callable[..., Any], kind: str, text: str) -> float:
    """Return the CPU time of one reading; an input error is an answer, too."""
    content: object = {"bytes": text.encode(), "lines": text.splitlines(keepends=True)}.get(
        kind, text
    )
    labels = [""] * sum(
        each.default is inspect.Parameter.empty
        for each in [*inspect.signature(read).parameters.values()][1:]
    )
    begin = time.process_time()
    with suppress(SchedperfError):
        found = read(content, *labels)
        if inspect.isgenerator(found):
            for _ in found:
                pass
    return time.process_time() - begin


def test_readers_are_found() -> None:
    found = {name for _, name in readers()}
    assert {"parse_schedstat", "parse_c2c_text", "parse_kernel_symbols", "read_lscpu"} <= found


@pytest.mark.parametrize(("module", "name"), [*readers()])
def test_reading_takes_linear_time(module: str, name: str) -> None:
    read = getattr(importlib.import_module(module), name)
    kind = kind_of(read)
    assert kind is not None
    for title, unit in UNITS.items():
        large, small = (unit * (size // len(unit)) for size in (LARGE, SMALL))
        if seconds(read, kind, large) > LEAST_S:
            # The first time has the costs of imports, and garbage is collected at any time.
            ratios = (
                seconds(read, kind, large) / seconds(read, kind, small) for _ in range(MOST_TRIES)
            )
            assert any(ratio < MOST_RATIO for ratio in ratios), f"{title}: {unit.splitlines()[0]!r}"
