# SPDX-License-Identifier: GPL-2.0-or-later
"""Suggest next steps as shell commands, the most useful first.

Each rule returns at most one step per side. The order of ``RULES``: what prevents a verdict, what
keeps it inconclusive, what would explain it, and what would generalise it.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile

from msgspec.structs import replace

from schedperf.compare.advice._benchmark import record_benchmark
from schedperf.compare.advice._contrast import BOOTING, Contrast, Pair, name_images, split_images
from schedperf.compare.advice._equal_steps import RECORD_BOTH, blocking, nothing_shared
from schedperf.compare.advice.rerun import Recording, as_argument, join
from schedperf.evidence.profile.record import Profile
from schedperf.model.comparison import BASE, Comparison, NextStep, Row, data_of
from schedperf.model.host import read_host
from schedperf.model.text import join_names, list_some
from schedperf.model.verdict import CHANGED, FEWEST_RUNS, name_units
from schedperf.runs.output import correct_rule, say_unread
from schedperf.stats.verdicts import FEWEST_IN_BLOCKS

# Boots of each kernel: enough for a verdict with boots as the unit of replication.
BOOTS = 4
# How users of other tools get several boots per side; other formats do not record boots.
MORE_BOOTS: Mapping[str, str] = {
    "mmtests": f"boot the sides alternately, each {BOOTS} times, run mmtests in each boot, and "
    f"copy the directories iter-0 of a side into one directory, as iter-0 to iter-{BOOTS - 1}",
    "lkp": f"run the job {BOOTS} times per side, alternating the sides",
}
# Files that a condition names.
MOST_FILES = 3

ONE_AFTER_THE_OTHER = (
    "the sides were recorded one after the other, so drift confounds the comparison"
)
NO_VARIANCE = "boot-to-boot variance is unknown"
# Explains changes of latencies only.
OF_LATENCIES = "wakeup_latency"
# Analyses that explain a change, with the collector of each and what it records.
EXPLAINING: Mapping[str, tuple[str, str]] = {
    "wakeup_latency": (OF_LATENCIES, "wakeup latencies"),
    "pelt": ("bpf_pelt", "PELT updates"),
    "placement": ("bpf_placement", "task placement and migrations"),
    "c2c": ("perf_c2c", "bouncing cache lines"),
}
# The number stands behind the word in capitals.
METRIC_TO_NAME = "NAME[UNIT,lower]=BEFORE ([0-9.]+)"
# ``uname -m``, as far as a sentence can quote it.
ARCHITECTURE = re.compile(r"\w{1,16}", re.ASCII)
# A kernel without these has no /proc/schedstat; the section's reason names the option.
SCHEDSTATS = "CONFIG_SCHEDSTATS"


def next_steps(comparison: Comparison, recordings: Mapping[str, Recording]) -> tuple[NextStep, ...]:
    """Return what to do next, the most useful step first; () if nothing would help.

    :param recordings: by side; steps for a side without one have no commands
    """
    base, *others = comparison.sides
    contrasts = [
        Contrast(comparison=comparison, recordings=recordings, base=base, new=side)
        for side in others
    ]
    steps: dict[str, NextStep] = {}
    for rule in RULES:
        for contrast in contrasts:
            proposal = rule(contrast)
            step = proposal and _with_conditions(proposal, contrast)
            # A step that applies to two sides is listed once.
            if step is not None and step not in steps.values():
                step_id = step.id if step.id not in steps else f"{step.id}-{contrast.name}"
                steps[step_id] = replace(step, id=step_id)
    return tuple(_merge(steps.values()))


def _merge(steps: Iterable[NextStep]) -> Iterator[NextStep]:
    # The same step for several sides is one step with the commands of each side.
    same: dict[tuple[object, ...], list[NextStep]] = {}
    for step in steps:
        same.setdefault((step.what, step.why, step.conditions), []).append(step)
    for first, *others in same.values():
        if others:
            commands = [command for step in (first, *others) for command in step.commands]
            yield replace(first, commands=tuple(_rerun_at_once(commands)))
        else:
            yield first


def _rerun_at_once(commands: Iterable[str]) -> Iterator[str]:
    # Reruns of several sides beside the same base and with the same options are one command.
    found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for command in commands:
        program, name, *words = shlex.split(command)
        paths = list(takewhile(lambda word: not word.startswith("-"), words))
        if not _records(command) or len(paths) == 1:
            found[program, name, *words] = ([], [])
            continue
        images, options = split_images(words[len(paths) :])
        sides, kernels = found.setdefault((program, name, paths[0], *options), ([], []))
        sides += paths[1:]
        kernels += images
    for (_, name, *words), (sides, kernels) in found.items():
        first, others = (words[:1], words[1:]) if sides else ([], words)
        yield join(name, *first, *sides, *name_images(kernels), *others)


def _with_conditions(step: NextStep, contrast: Contrast) -> NextStep:
    """Return the step with what must hold for its commands to run."""
    conditions = []
    says_so = step.id == "revert"
    if not says_so and contrast.has_other_kernel() and _is_of_one_side(step, contrast):
        name = BASE if step.id == "a-a" else contrast.name
        conditions.append(f"boot the kernel of {name} first")
    pair = contrast.pair()
    files = pair.local_files if pair is not None and any(map(_records, step.commands)) else ()
    if files:
        # A setup takes ./enter-cgroup from the directory in which it is run.
        needed = list_some(files, MOST_FILES)
        conditions.append(f"copy {needed} from the original machine to the current directory first")
    return replace(step, conditions=tuple(conditions))


def _records(command: str) -> bool:
    return command.startswith("schedperf rerun ")


def _is_of_one_side(step: NextStep, contrast: Contrast) -> bool:
    # With one bundle, the command cannot know for which kernel it is.
    paths = (contrast.base.path, contrast.new.path)
    return any(join("rerun", as_argument(path)) in step.commands for path in paths)


def _same_data(contrast: Contrast) -> NextStep | None:
    if contrast.base.digest != contrast.new.digest:
        return None
    # Only the new side needs a recording: a second one, or one with another setting.
    commands = _beside(contrast, contrast.name)
    is_imported = contrast.imported is not None
    return NextStep(
        id="same-data",
        what=f"pass other results as {contrast.name}"
        if is_imported
        else f"record the side {contrast.name} in its own bundle",
        why=f"base and {contrast.name} contain the same runs",
        commands=commands,
    )


def _no_results(contrast: Contrast) -> NextStep | None:
    if contrast.base.digest == contrast.new.digest:
        return None
    for bundle in (contrast.base, contrast.new):
        if bundle.runs_clean == 0 and bundle.runs_instrumented + bundle.runs_failed:
            return NextStep(
                id="failed-runs",
                what=f"find out why all runs of {bundle.name} failed",
                why="a verdict needs successful runs",
                commands=(join("show", "--runs", as_argument(bundle.path)),),
            )
    pair = contrast.pair()
    if pair is None or contrast.rows():
        return None
    return record_benchmark(contrast, pair) if pair.prints_nothing else _name_metric(contrast, pair)


def _name_metric(contrast: Contrast, pair: Pair) -> NextStep:
    has_rules = bool(pair.base.rules or pair.new.rules)
    omitted = pair.base.omitted_bytes + pair.new.omitted_bytes if has_rules else 0
    remedy = correct_rule(is_whole=not omitted) if has_rules else "define the metric with --metric"
    size = f", of which {omitted} bytes are omitted" if omitted else ""
    return NextStep(
        id="name-metric",
        what=f"record again and {remedy}",
        why=f"{say_unread(has_rules=has_rules)}{size}",
        commands=contrast.rerun("--metric", METRIC_TO_NAME),
    )


def _incomplete(contrast: Contrast) -> NextStep | None:
    cut = [
        bundle
        for bundle in (contrast.base, contrast.new)
        if not bundle.complete or bundle.runs_failed
    ]
    if not cut or not contrast.rows():
        return None
    names = join_names(bundle.name for bundle in cut)
    return NextStep(
        id="look-at-runs",
        what=f"find out why runs of {names} failed or are missing",
        why="failed and missing runs are excluded from the comparison",
        commands=tuple(join("show", "--runs", as_argument(bundle.path)) for bundle in cut),
    )


def _real_hardware(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    # Without results there is no verdict on any machine.
    if not contrast.has_caveat("emulated") or (pair is not None and pair.prints_nothing):
        return None
    is_guest = pair is not None and pair.program == "vm"
    commands = contrast.rerun(*(("--boots", str(BOOTS)) if is_guest else ()))
    machine = read_host(contrast.base.host).kernel.machine or ""
    machine = machine if ARCHITECTURE.fullmatch(machine) else "real"
    where = "on a machine with KVM" if is_guest else f"on {machine} hardware or under KVM"
    return NextStep(
        id="real-hardware",
        what=f"record again {where}",
        why="timings from an emulator are not used for a verdict",
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
    opened = rows[0].metric if len(rows) == 1 else f"{len(rows)} results"
    verb = "record" if contrast.imported is None else "import results of"
    return NextStep(
        id="more-runs",
        what=f"{verb} about {number} more {name_units(number, unit)}{each}",
        why=f"{opened}: inconclusive with the runs recorded so far",
        commands=_grow(contrast, number, unit),
    )


def _missing_runs(row: Row, contrast: Contrast) -> int | None:
    # None if more runs would not help, or if the number is unknown.
    if row.more_runs is not None:
        return row.more_runs
    if row.n_base is None or row.n_new is None:
        return None
    fewest = min(row.n_base, row.n_new)
    if row.ci_low is None:
        return max(FEWEST_RUNS - fewest, 0) or None
    # With sides recorded one after the other, fewer runs cannot separate a change from drift.
    in_blocks = contrast.has_caveat("blocks") and row.replication == "runs"
    return max(FEWEST_IN_BLOCKS - fewest, 0) or None if in_blocks else None


def _grow(contrast: Contrast, number: int, unit: str) -> tuple[str, ...]:
    pair = contrast.pair()
    if pair is None:
        return ()
    if unit == "boots" and pair.boots_itself:
        return contrast.rerun("--boots", str(pair.base.boots + number))
    # Runs that are added to interleaved ones are outside of the pairs.
    is_added = pair.grows and not (pair.base.in_rounds or pair.new.in_rounds)
    if unit == "boots":
        return contrast.rerun("--append") if is_added else contrast.rerun()
    if is_added:
        return contrast.rerun("--append", "-n", str(number))
    return contrast.rerun("-n", str(pair.base.runs + number))


def _beside(contrast: Contrast, name: str) -> tuple[str, ...]:
    """Return the commands that record one side into a new bundle and compare base with it."""
    side = contrast.recordings.get(name)
    if side is None or side.program in BOOTING:
        return ()
    base = as_argument(contrast.base.path)
    return (join("rerun", side.path), join("compare", base, f"rerun/{side.stem}.tar"))


def _explain(contrast: Contrast) -> NextStep | None:
    is_open = not contrast.has_verdict(*CHANGED)
    pair = contrast.pair()
    # Nothing is explained of a workload without results.
    if pair is None or pair.prints_nothing or (is_open and not contrast.has_caveat("emulated")):
        return None
    blind = any(
        finding.bearing == "unseen" and finding.id.startswith("hotter_symbols")
        for finding in contrast.comparison.findings
    )
    # Memory events need hardware that emulators and most guests lack.
    on_hardware = pair.program == "record" and not contrast.is_virtual()
    missing = {
        collector: sees
        for name, (collector, sees) in EXPLAINING.items()
        if name in contrast.comparison.sections
        and contrast.comparison.sections[name].status == "absent"
        and (collector != "perf_c2c" or on_hardware)
        and (collector != OF_LATENCIES or contrast.has_changed_latency())
        and collector not in pair.base.unusable | pair.new.unusable
    }
    if not missing:
        return None
    kept = [name for name in pair.base.collectors if name not in ("default", "none", *missing)]
    eyes = "the profile's event does not sample most scheduler code, and " if blind else ""
    return NextStep(
        id="explain",
        what=f"record {', '.join(missing.values())}",
        why=f"{eyes}no run was recorded with {' or '.join(missing)}",
        commands=contrast.rerun("--with", ",".join(("default", *kept, *missing))),
    )


def _on_a_pmu(contrast: Contrast) -> NextStep | None:
    profile = data_of(contrast.comparison.sections, Profile)
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
    return NextStep(
        id="pmu",
        what="record again with a PMU (on bare metal, or in a guest with a virtual PMU)",
        why="the profile was sampled by an hrtimer, which cannot sample code that runs with "
        "interrupts off",
        commands=("schedperf doctor", *contrast.rerun()),
    )


def _state_direction(contrast: Contrast) -> NextStep | None:
    rows = contrast.rows()
    if contrast.imported is None or not rows or any(row.family == "primary" for row in rows):
        return None
    if all(row.better != "unknown" for row in rows):
        return None
    return NextStep(
        id="state-direction",
        what="state for the metrics that count whether lower or higher is better, with the name of "
        "each in place of METRIC",
        why=f"the format {contrast.imported} does not state it, so no verdict is given",
        commands=(contrast.compare("--better", "METRIC=lower"),),
    )


def _record_it(contrast: Contrast) -> NextStep | None:
    is_table = not contrast.base.host and not contrast.new.host
    if not is_table or not contrast.has_verdict(*CHANGED):
        return None
    kind = "CSV tables" if contrast.new.imported is None else "imported results"
    return NextStep(
        id="record",
        what="record both sides with schedperf, with your command in place of WORKLOAD",
        why=f"{kind} contain no collector data that could explain the change",
        commands=RECORD_BOTH,
    )


def _revert(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    if pair is None or not contrast.has_verdict("regression") or not contrast.has_other_kernel():
        return None
    if pair.program == "vm":
        commands = contrast.rerun("--kernel", "reverted=REVERTED_BZIMAGE")
    elif pair.program == "boots":
        # The kernels of such a recording are installed ones, which `rerun` does not replace.
        commands = ()
    else:
        path = f"rerun/{pair.new.stem}.tar"
        commands = (
            join("rerun", pair.new.path),
            join("compare", pair.base.path, pair.new.path, path),
        )
    return NextStep(
        id="revert",
        what="revert the suspected commit on top of new, boot that kernel and record it",
        why="if the revert removes the regression, the commit is the cause",
        commands=commands,
    )


def _more_boots(contrast: Contrast) -> NextStep | None:
    if contrast.imported is not None:
        return _more_imported_boots(contrast, contrast.imported)
    if not contrast.has_caveat("one-boot") or not contrast.has_verdict(*CHANGED, "no-change"):
        return None
    pair = contrast.pair()
    if pair is None:
        commands: tuple[str, ...] = ()
    elif pair.boots_itself:
        commands = contrast.rerun("--boots", str(BOOTS))
    else:
        # A bundle with the second boot only would again have one boot.
        commands = contrast.rerun("--append") if pair.grows else ()
    how = (
        "" if pair is not None and pair.boots_itself else "; reboot and append runs to both bundles"
    )
    return NextStep(
        id="more-boots",
        what=f"record {BOOTS} boots per side{how}",
        why=NO_VARIANCE,
        commands=commands,
    )


def _more_imported_boots(contrast: Contrast, kind: str) -> NextStep | None:
    what = MORE_BOOTS.get(kind)
    if contrast.has_caveat("one-boot") and contrast.has_verdict(*CHANGED, "no-change"):
        why = NO_VARIANCE
    elif contrast.has_caveat("blocks") and contrast.has_verdict("inconclusive"):
        why = ONE_AFTER_THE_OTHER
    else:
        return None
    return None if what is None else NextStep(id="more-boots", what=what, why=why, commands=())


def _take_turns(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    if pair is None or pair.program != "record" or not contrast.has_caveat("blocks"):
        return None
    if not contrast.has_other_kernel():
        return None
    return NextStep(
        id="take-turns",
        what="record the kernels again with interleaved boots",
        why=ONE_AFTER_THE_OTHER,
        commands=(
            "schedperf vm --check",
            *contrast.rerun(*pair.images, "--boots", str(BOOTS)),
        ),
    )


def _against_itself(contrast: Contrast) -> NextStep | None:
    pair = contrast.pair()
    decided = contrast.has_verdict(*CHANGED, "no-change")
    if pair is None or not decided or pair.boots_itself:
        return None
    if contrast.has_caveat("history") or contrast.base.digest == contrast.new.digest:
        return None
    if pair.program == "ab":
        # Both sides get the setting of base.
        commands: tuple[str, ...] = (join("rerun", pair.base.path, pair.base.path),)
    else:
        commands = _beside(contrast, BASE)
    return NextStep(
        id="a-a",
        what="compare base with itself (A/A)",
        why="an A/A comparison shows how much results vary between two recordings of base",
        commands=commands,
    )


def _schedstats(contrast: Contrast) -> NextStep | None:
    section = contrast.comparison.sections.get("schedstat")
    reason = None if section is None else section.reason
    if reason is None or SCHEDSTATS not in reason:
        return None
    has_two = contrast.has_other_kernel()
    kernels = "both kernels" if has_two else "the kernel"
    return NextStep(
        id="schedstats",
        what=f"build {kernels} with {SCHEDSTATS}=y",
        why="load-balancing counts are missing, because the kernel has no /proc/schedstat",
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
    _state_direction,
    _record_it,
    _on_a_pmu,
    _revert,
    _more_boots,
    _incomplete,
    _take_turns,
    _against_itself,
    _schedstats,
)
