# SPDX-License-Identifier: GPL-2.0-or-later
"""Suggest next steps if two sides are not comparable, or have no benchmark in common."""

from collections.abc import Sequence

from schedperf.compare.advice._contrast import Contrast, kernel_images
from schedperf.compare.advice.intent import COMPARE, RERUN, Intent, Step, intend
from schedperf.compare.advice.recorded import Recorded
from schedperf.model.base_new import BASE
from schedperf.model.text import list_some

# Number of fields that a sentence lists; the command lists all of them.
MOST_FIELDS = 5
# Tables do not record the workload; the reader replaces the words in capitals.
RECORD_BOTH = (
    *(
        intend("record", "-o", f"{name}.tar", "-n", "5", "--", "WORKLOAD")
        for name in ("base", "new")
    ),
    intend(COMPARE, paths=("base.tar", "new.tar")),
)


def blocking(contrast: Contrast) -> Step | None:
    """Return the step that makes blocking fields equal or allows them.

    :return: None if nothing blocks the comparison, and if both sides are the same data
    """
    differences = [
        difference
        for difference in contrast.comparison.comparability.differences
        if difference.severity == "blocking" and difference.side in (BASE, contrast.name)
    ]
    if not differences or contrast.base.digest == contrast.new.digest:
        return None
    names = [difference.path for difference in differences]
    if "workload" in names:
        return _same_workload(contrast, names)
    hosts = (contrast.base.host, contrast.new.host)
    groups = {path for host in hosts for path in host}
    # A metric's regular expression is not a field of host.json and cannot be allowed.
    can_allow = all(path.partition(".")[0] in groups for path in names)
    again = contrast.rerun()
    allow = [word for path in names if can_allow for word in ("--allow", path)]
    meant = "; if the difference is intended, use --allow" if allow else ""
    return Step(
        id="equalise",
        what=f"use equal values of {list_some(names, MOST_FIELDS)} on both sides",
        why=f"{names[0]} differs ({differences[0].reason}), so the sides are not comparable{meant}",
        commands=(*again, *((contrast.compare(*allow),) if allow else ())),
    )


def _same_workload(contrast: Contrast, names: Sequence[str]) -> Step:
    # Allowing the other fields would not help: the sides have no result in common.
    others = [name for name in names if name != "workload"]
    equal = f"; also use equal values of {list_some(others, MOST_FIELDS)}" if others else ""
    return Step(
        id="equalise",
        what="record the same workload on both sides",
        why=f"the workloads differ, so the sides are not comparable{equal}",
        commands=_record_as_base(contrast),
    )


def _record_as_base(contrast: Contrast) -> tuple[Intent, ...]:
    """Return the commands that also record the workload of base on the new side.

    :return: () if a recording is unknown, if the sides were recorded by different programs, and for
        interleaved recordings
    """
    base, new = (contrast.recordings.get(name) for name in (BASE, contrast.name))
    if base is None or new is None or base.program != new.program:
        return ()
    if base.program in ("ab", "boots"):
        # An interleaved recording has one workload for both sides.
        return ()
    if base.program == "vm":
        images = kernel_images({base.stem: BASE, new.stem: contrast.name})
        return (Intent(RERUN, (base.path,), images),)
    return record_beside(base, base.path)


def record_beside(side: Recorded, *paths: str) -> tuple[Intent, ...]:
    """Return the commands that record one side into a new bundle and compare others with it.

    :param paths: the other bundles, base first
    """
    return (
        intend(RERUN, paths=(side.path,)),
        intend(COMPARE, paths=(*paths, f"rerun/{side.stem}.tar")),
    )


def nothing_shared(contrast: Contrast) -> Step | None:
    """Return the step that gives the sides common results.

    :return: None if the sides have a common result, if a side has no clean run, if there is no
        result at all, and if a blocking difference of the workloads already explains the lack
    """
    rows = contrast.rows()
    is_shared = any(0 not in (row.n_base, row.n_new) for row in rows)
    has_runs = contrast.base.runs_clean != 0 and contrast.new.runs_clean != 0
    blocking = {
        difference.path
        for difference in contrast.comparison.comparability.differences
        if difference.severity == "blocking" and difference.side == contrast.name
    }
    if not rows or is_shared or not has_runs or "workload" in blocking:
        return None
    is_table = not contrast.base.host and not contrast.new.host
    return Step(
        id="same-benchmarks",
        what="run the same benchmarks on both sides",
        why=f"base and {contrast.name} have no result in common",
        commands=RECORD_BOTH if is_table else _record_as_base(contrast),
    )
