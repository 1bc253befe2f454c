# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons for records about first bad commits: really made ones, with facts replaced."""

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.rows import digest_of
from schedperf.model.sides import GitSource
from schedperf.publish.culprit.commits import Ends
from schedperf.publish.culprit.record import Commit
from tests import golden_inputs as inputs

GOOD, BAD, TIP = ("1" * 40, "2" * 40, "3" * 40)
ENDS = Ends(
    good=Commit(commit=GOOD, subject="sched: before"),
    bad=Commit(commit=BAD, subject="sched/fair: change the placement"),
    is_range=False,
)


@functools.cache
def compared(make: Callable[[Path], None], *names: str) -> Comparison:
    """Return the comparison of the bundles that a function of ``golden_inputs`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        paths = [Path(folder) / f"{name}.tar" for name in names or ("base", "new")]
        return compare_bundles([open_bundle(path) for path in paths])


def source(commit: str, subject: str = "sched: a change") -> GitSource:
    """Return the commit of a side as the recorder was given it."""
    return GitSource(
        tree="https://git.example.org/linux",
        ref="master",
        commit=commit,
        subject=subject,
        author="A. Author <a@example.org>",
        committed="2026-11-20T12:00:00Z",
        describe=None,
        dirty=False,
    )


def variant(
    comparison: Comparison,
    name: str,
    *commits: str | None,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Return a comparison of the same numbers from other bundles, on other boots.

    :param name: distinguishes the bundles and boots
    :param commits: of the sides; None is not recorded
    :param hosts: groups of host.json, for all sides
    """
    sides = []
    for index, side in enumerate(comparison.sides):
        groups = {"system": {"boot_id": f"{name}-{side.name}"}, **(hosts or {})}
        host = {**side.host}
        for group, fields in groups.items():
            host[group] = {**(host.get(group) or {}), **fields}  # type: ignore[dict-item]
        commit = commits[index] if index < len(commits) else None
        sides.append(
            replace(
                side,
                digest=digest_of([name, side.name]),
                host=host,
                source=None if commit is None else source(commit),
                machine_class=None,
            )
        )
    return replace(comparison, id=digest_of([name]), sides=tuple(sides))


def regression(name: str = "found", *commits: str | None, **facts: Any) -> Comparison:
    """Return a comparison that shows a regression of 30%."""
    return variant(compared(inputs.regression), name, *(commits or (GOOD, BAD)), **facts)


def no_change(name: str, *commits: str | None, **facts: Any) -> Comparison:
    """Return a comparison that shows no change."""
    return variant(compared(inputs.no_change), name, *(commits or (GOOD, BAD)), **facts)


def improvement(name: str, *commits: str | None, **facts: Any) -> Comparison:
    """Return a comparison that shows an improvement."""
    return variant(compared(inputs.improvement), name, *(commits or (GOOD, BAD)), **facts)


def emulated(name: str, *commits: str | None, **facts: Any) -> Comparison:
    """Return a comparison of an emulated machine, which is slower with the new kernel."""
    return variant(compared(inputs.emulated), name, *(commits or (GOOD, BAD)), **facts)


def series() -> Comparison:
    """Return the comparison of three kernels; the last one is slower than the one before it."""
    return compared(inputs.four_kernels, "tip", "repair", "cluster")
