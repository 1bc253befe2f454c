# SPDX-License-Identifier: GPL-2.0-or-later
"""What to do next: what the comparison lacks, as exact commands, the most useful first.

Each rule looks at what was found and yields at most one step a side. They stand in the order of
``RULES``: what forbids a verdict, what keeps one open, what would explain it, and what would make
it hold elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath

from schedperf.compare.advice._contrast import Contrast
from schedperf.compare.advice._equal_steps import RECORD_BOTH, blocking, nothing_shared
from schedperf.compare.advice.rerun import Pair, Recording, as_argument, join
from schedperf.evidence.profile.record import Profile
from schedperf.model.comparison import Comparison, NextStep, Row, data_of
from schedperf.stats.verdicts import CHANGED, FEWEST_IN_BLOCKS, name_units
from schedperf.stats.welch import FEWEST_RUNS

# Boots of each kernel with which boots are the unit and still decide: four values per side.
BOOTS = 4

# The analyses that tell why, the collector that each of them needs, and what that one sees.
EXPLAINING: Mapping[str, tuple[str, str]] = {
    "pelt": ("bpf_pelt", "PELT updates"),
    "placement": ("bpf_placement", "task placement and migrations"),
    "c2c": ("perf_c2c", "bouncing cache lines"),
}
# The number stands behind the word in capitals.
METRIC_TO_NAME = "NAME[UNIT,lower]=BEFORE ([0-9.]+)"
# A kernel without these has no /proc/schedstat; the section's reason names the option.
SCHEDSTATS = "CONFIG_SCHEDSTATS"


def next_steps(comparison: Comparison, recordings: Mapping[str, Recording]) -> tuple[NextStep, ...]:
    """Return what to do next, the most useful first; () where nothing would help.

    :param recordings: by side; a side without one cannot be recorded again by a command, and its
        steps are words alone
    """
    base, *others = comparison.sides
    contrasts = [
        Contrast(found=comparison, recordings=recordings, base=base, new=side) for side in others
    ]
    steps: dict[str, NextStep] = {}
    for rule in RULES:
        for contrast in contrasts:
            found = rule(contrast)
            step = found and _with_folder(found, contrast)
            # What is advised for two sides alike is advised once.
            if step is not None and step not in steps.values():
                told = step.id if step.id not in steps else f"{step.id}-{contrast.name}"
                steps[told] = replace(step, id=told)
    return tuple(steps.values())


def _with_folder(step: NextStep, contrast: Contrast) -> NextStep:
    # ./enter-cgroup is a file of the machine of the recording, found from one folder alone.
    files = contrast.local_files(step.commands)
    if not files:
        return step
    bundles = [contrast.base.path, contrast.new.path]
    relative = [path for path in bundles if not PurePath(path).is_absolute()]
    takes_bundles = any(path in command for path in relative for command in step.commands)
    rest = "with bundle paths relative to it" if takes_bundles else "where base was recorded"
    where = f"run this in the folder of {files[0]}, {rest}"
    return replace(step, why=f"{step.why}; {where}")


def _same_data(contrast: Contrast) -> NextStep | None:
    if contrast.base.digest != contrast.new.digest:
        return None
    pair = contrast.pair()
    if pair is None or pair.base.program == "vm":
        commands: tuple[str, ...] = ()
    else:
        # Only the other side is to be recorded: a second time, or with another setting.
        commands = pair.beside(pair.new, "other", pair.base)
    return NextStep(
        id="same-data",
        what="record the other side under another name",
        why=f"base and {contrast.name} hold the same runs",
        commands=commands,
    )


def _no_results(contrast: Contrast) -> NextStep | None:
    if contrast.base.digest == contrast.new.digest:
        return None
    for one in (contrast.base, contrast.new):
        if one.runs_clean == 0:
            return NextStep(
                id="failed-runs",
                what=f"find out why all runs of {one.name} failed",
                why="a verdict needs successful runs",
                commands=(join("show", "--runs", as_argument(one.path)),),
            )
    pair = contrast.pair()
    if pair is None or contrast.rows():
        return None
    named = replace(
        pair,
        base=replace(pair.base, rules=(METRIC_TO_NAME,)),
        new=replace(pair.new, rules=(METRIC_TO_NAME,)),
    )
    return NextStep(
        id="name-metric",
        what="record again with a rule for the metric",
        why="no parser reads the output of this workload",
        commands=named.again("metric"),
    )


def _incomplete(contrast: Contrast) -> NextStep | None:
    cut = [one for one in (contrast.base, contrast.new) if not one.complete or one.runs_failed]
    if not cut or not contrast.rows():
        return None
    names = " and ".join(one.name for one in cut)
    return NextStep(
        id="look-at-runs",
        what=f"check the missing runs of {names}",
        why="failed and missing runs are left out",
        commands=tuple(join("show", "--runs", as_argument(one.path)) for one in cut),
    )


def _real_hardware(contrast: Contrast) -> NextStep | None:
    if not contrast.has_caveat("emulated"):
        return None
    pair = contrast.pair()
    why = "timings come from an emulator"
    if pair is None:
        return NextStep(id="real-hardware", what="record on real hardware", why=why, commands=())
    is_guest = pair.base.program == "vm"
    commands = pair.again("real", boots=BOOTS)
    return NextStep(
        id="real-hardware",
        what="boot the guests with KVM" if is_guest else "record on real hardware or under KVM",
        why=why,
        commands=("schedperf vm --check", *commands) if is_guest else commands,
    )


def _more_runs(contrast: Contrast) -> NextStep | None:
    if contrast.has_caveat("emulated"):
        return None
    missing = [
        (row, number)
        for row in contrast.rows()
        if row.verdict == "inconclusive" and (number := _missing_runs(row, contrast))
    ]
    if not missing:
        return None
    rows, number = [row for row, _ in missing], max(number for _, number in missing)
    unit = rows[0].replication
    each = "" if unit == "rounds" else " per side"
    pair = contrast.pair(rows)
    opened = rows[0].metric if len(rows) == 1 else f"{len(rows)} results"
    return NextStep(
        id="more-runs",
        what=f"record about {number} more {name_units(number, unit)}{each}",
        why=f"{opened}: neither a change nor equivalence is shown",
        commands=() if pair is None else _grow(pair, number, unit),
    )


def _missing_runs(row: Row, contrast: Contrast) -> int | None:
    # None where more runs would not help, or where the number is unknown.
    if row.more_runs is not None:
        return row.more_runs
    if row.n_base is None or row.n_new is None:
        return None
    fewest = min(row.n_base, row.n_new)
    if row.ci_low is None:
        return max(FEWEST_RUNS - fewest, 0) or None
    # One after the other, fewer runs than these cannot tell a change from drift.
    in_blocks = contrast.has_caveat("blocks") and row.replication == "runs"
    return max(FEWEST_IN_BLOCKS - fewest, 0) or None if in_blocks else None


def _grow(pair: Pair, number: int, unit: str) -> tuple[str, ...]:
    if unit == "boots":
        if pair.base.program == "vm":
            return pair.again("more", boots=pair.base.boots + number)
        return pair.append(pair.base.runs) or pair.again("more")
    return pair.append(number) or pair.again("more", runs=pair.base.runs + number)


def _explain(contrast: Contrast) -> NextStep | None:
    is_open = not contrast.has_verdict(*CHANGED)
    pair = contrast.pair([row for row in contrast.rows() if row.verdict in CHANGED])
    if pair is None or (is_open and not contrast.has_caveat("emulated")):
        return None
    blind = any(
        one.bearing == "unseen" and one.id.startswith("hotter_symbols")
        for one in contrast.found.findings
    )
    # Memory events need hardware that emulators and most guests lack.
    on_hardware = pair.base.program == "record"
    wanted = {
        collector: sees
        for name, (collector, sees) in EXPLAINING.items()
        if name in contrast.found.sections
        and contrast.found.sections[name].status == "absent"
        and (collector != "perf_c2c" or on_hardware)
    }
    if not wanted:
        return None
    kept = [name for name in pair.base.collectors if name not in ("default", "none", *wanted)]
    eyes = "the profile's event cannot see most of the scheduler, and " if blind else ""
    return NextStep(
        id="explain",
        what=f"record {', '.join(wanted.values())}",
        why=f"{eyes}no run was recorded with {' or '.join(wanted)}",
        commands=pair.again("why", collectors=("default", *kept, *wanted)),
    )


def _on_a_pmu(contrast: Contrast) -> NextStep | None:
    profile = data_of(contrast.found.sections, Profile)
    if profile is None or not contrast.has_verdict(*CHANGED):
        return None
    has_timer = any(
        "hrtimer" in tuple(event.clock)
        for compared in profile.comparisons
        if compared.side == contrast.name
        for event in compared.events
    )
    if not has_timer:
        return None
    pair = contrast.pair()
    return NextStep(
        id="pmu",
        what="record again with a PMU: on bare metal, or in a guest that has one",
        why="an hrtimer sampled the profile and cannot see code that runs with interrupts off",
        commands=() if pair is None else ("schedperf doctor", *pair.again("pmu")),
    )


def _record_it(contrast: Contrast) -> NextStep | None:
    is_table = not contrast.base.host and not contrast.new.host
    if not is_table or not contrast.has_verdict(*CHANGED):
        return None
    return NextStep(
        id="record",
        what="record both sides with schedperf; replace the words in capitals",
        why="tables hold no captures that could explain the change",
        commands=RECORD_BOTH,
    )


def _revert(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    if pair is None or not contrast.has_verdict("regression") or not contrast.has_other_kernel():
        return None
    if pair.new.program == "vm":
        commands = pair.in_guests(
            "revert", runs=pair.base.runs, boots=pair.base.boots,
            kernels=("base", "new", "reverted"),
        )  # fmt: skip
    else:
        commands = pair.beside(pair.new, "reverted", pair.base, pair.new)
    return NextStep(
        id="revert",
        what="revert the suspected commit on top of new, boot that kernel and record it",
        why="a change that the revert undoes is caused by that commit",
        commands=commands,
    )


def _more_boots(contrast: Contrast) -> NextStep | None:
    if not contrast.has_caveat("one-boot") or not contrast.has_verdict(*CHANGED, "no-change"):
        return None
    pair = contrast.pair()
    if pair is None:
        commands: tuple[str, ...] = ()
    elif pair.base.program == "vm":
        commands = pair.again("boots", boots=BOOTS)
    else:
        # A comparison of the second boot alone would again be of one boot.
        commands = pair.append_boot(pair.base.runs) or ()
    return NextStep(
        id="more-boots",
        what=f"reboot and append runs to both bundles, until each has {BOOTS} boots",
        why="boot-to-boot variance is unknown",
        commands=commands,
    )


def _take_turns(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    if pair is None or pair.base.program != "record" or not contrast.has_caveat("blocks"):
        return None
    if not contrast.has_other_kernel():
        return None
    return NextStep(
        id="take-turns",
        what="boot the kernels alternately",
        why="the sides were recorded one after the other, so drift confounds the comparison",
        commands=("schedperf vm --check", *pair.in_guests("vm", runs=pair.base.runs, boots=BOOTS)),
    )


def _against_itself(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    decided = contrast.has_verdict(*CHANGED, "no-change")
    if pair is None or not decided or pair.base.program == "vm":
        return None
    if contrast.has_caveat("history") or contrast.base.digest == contrast.new.digest:
        return None
    if pair.base.program == "ab":
        # Both sides get the setting of base, and the second the name of new.
        twin = replace(pair.base, path=pair.new.path)
        commands = replace(pair, new=twin).again("aa")
    else:
        commands = pair.beside(pair.base, "again", pair.base)
    return NextStep(
        id="a-a",
        what="compare base with itself (A/A)",
        why="a change between two recordings of base is noise",
        commands=commands,
    )


def _schedstats(contrast: Contrast) -> NextStep | None:
    section = contrast.found.sections.get("schedstat")
    reason = None if section is None else section.reason
    if reason is None or SCHEDSTATS not in reason:
        return None
    has_two = contrast.has_other_kernel()
    kernels = "both kernels" if has_two else "the kernel"
    return NextStep(
        id="schedstats",
        what=f"build {kernels} with {SCHEDSTATS}=y",
        why="load balancing was not counted: no /proc/schedstat",
        commands=("schedperf doctor",),
    )


RULES: tuple[Callable[[Contrast], NextStep | None], ...] = (
    _same_data,
    blocking,
    nothing_shared,
    _no_results,
    _real_hardware,
    _more_runs,
    _explain,
    _record_it,
    _on_a_pmu,
    _revert,
    _more_boots,
    _incomplete,
    _take_turns,
    _against_itself,
    _schedstats,
)
