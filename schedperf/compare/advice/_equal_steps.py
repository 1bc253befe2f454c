# SPDX-License-Identifier: GPL-2.0-or-later
"""Next steps if two sides are not comparable, or have no benchmark in common."""

from collections.abc import Sequence

from schedperf.compare.advice._contrast import Contrast, kernel_images
from schedperf.compare.advice.rerun import join
from schedperf.model.comparison import BASE, NextStep
from schedperf.model.text import list_some

# Fields that a sentence names; the command names all of them.
MOST_FIELDS = 5
# Tables do not record the workload; the reader replaces the words in capitals.
RECORD_BOTH = (
    "schedperf record -o base.tar -n 5 -- WORKLOAD",
    "schedperf record -o new.tar -n 5 -- WORKLOAD",
    "schedperf compare base.tar new.tar",
)


def blocking(contrast: Contrast) -> NextStep | None:
    """Return the step that makes blocking fields equal or allows them; None if nothing blocks."""
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
    return NextStep(
        id="equalise",
        what=f"use equal values of {list_some(names, MOST_FIELDS)} on both sides",
        why=f"{names[0]} differs ({differences[0].reason}), so the sides are not comparable{meant}",
        commands=(*again, *((contrast.compare(*allow),) if allow else ())),
    )


def _same_workload(contrast: Contrast, names: Sequence[str]) -> NextStep:
    # Allowing the other fields would not help: the sides have no result in common.
    others = [name for name in names if name != "workload"]
    equal = f"; also use equal values of {list_some(others, MOST_FIELDS)}" if others else ""
    return NextStep(
        id="equalise",
        what="record the same workload on both sides",
        why=f"the workloads differ, so the sides are not comparable{equal}",
        commands=_record_as_base(contrast),
    )


def _record_as_base(contrast: Contrast) -> tuple[str, ...]:
    """Return the commands that record the workload of base on the new side, too."""
    base, new = (contrast.recordings.get(name) for name in (BASE, contrast.name))
    if base is None or new is None or base.program != new.program:
        return ()
    if base.program in ("ab", "boots"):
        # The workload of one interleaved side cannot be chosen.
        return ()
    if base.program == "vm":
        return (
            join("rerun", base.path, *kernel_images({base.stem: BASE, new.stem: contrast.name})),
        )
    return (join("rerun", base.path), join("compare", base.path, f"rerun/{base.stem}.tar"))


def nothing_shared(contrast: Contrast) -> NextStep | None:
    """Return the step that gives the sides common results; None if they have one."""
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
    return NextStep(
        id="same-benchmarks",
        what="run the same benchmarks on both sides",
        why=f"base and {contrast.name} have no result in common",
        commands=RECORD_BOTH if is_table else _record_as_base(contrast),
    )
