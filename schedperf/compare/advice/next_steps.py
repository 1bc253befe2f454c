# SPDX-License-Identifier: GPL-2.0-or-later
"""Suggest next steps as shell commands, the most useful first.

Each rule returns at most one step per side. The order of ``RULES``: what prevents a verdict, what
keeps it inconclusive, what would explain it, and what would generalise it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from msgspec.structs import replace

from schedperf.compare.advice._benchmark import record_benchmark
from schedperf.compare.advice._contrast import BOOTING, Contrast, Pair
from schedperf.compare.advice._equal_steps import (
    RECORD_BOTH,
    blocking,
    nothing_shared,
    record_beside,
)
from schedperf.compare.advice.intent import RERUN, Intent, Step, as_argument, intend
from schedperf.compare.advice.recorded import Recorded
from schedperf.evidence.profile.record import Profile
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison, NextStep
from schedperf.model.host import read_host
from schedperf.model.rows import Row
from schedperf.model.sections import data_of
from schedperf.model.sides import SideSummary
from schedperf.model.text import join_names, list_some
from schedperf.model.verdict import (
    CHANGED,
    FALSE_DISCOVERY_RATE,
    FEWEST_IN_BLOCKS,
    FEWEST_RUNS,
    name_units,
)
from schedperf.runs.output import correct_rule, why_unread
from schedperf.stats.verdicts import ONE_BOOT
from schedperf_collectors.contract import MOST_BUDGETED

# Boots of each kernel: enough for a verdict with boots as the unit of replication.
BOOTS = 4
# How users of other tools get several boots per side; other formats do not record boots.
MORE_BOOTS: Mapping[str, str] = {
    "mmtests": f"boot the sides alternately, each {BOOTS} times, run mmtests in each boot, and "
    f"copy the directories iter-0 of a side into one directory, as iter-0 to iter-{BOOTS - 1}",
    "lkp": f"run the job {BOOTS} times per side, alternating the sides",
}
# If a verdict needs more runs or pairs than `--until-decided` accepts, or more boots than fit into
# a night, reducing noise is better than recording more.
MOST_MORE_RUNS = MOST_BUDGETED
MOST_MORE_BOOTS = 20
# Number of results that a step lists.
MOST_RESULTS = 3
# The reader replaces the words in capitals: advice has no text of a bundle.
INTERLEAVE = intend(
    *("ab", "-o", "interleaved", "--base-setup", "BASE_SETUP", "--new-setup", "NEW_SETUP"),
    *("--", "WORKLOAD"),
)
CHECK_GUESTS = intend("vm", "--check")
CHECK_COLLECTORS = intend("doctor")
# Number of files that a condition lists.
MOST_FILES = 3

ONE_AFTER_THE_OTHER = "the sides were recorded one after the other, so a change may be drift"
NO_VARIANCE = "boot-to-boot variance is unknown"
# This analysis explains changes of latencies only.
OF_LATENCIES = "wakeup_latency"
# Analyses that explain a change, with the collector of each and what it records.
EXPLAINING: Mapping[str, tuple[str, str]] = {
    "wakeup_latency": (OF_LATENCIES, "wakeup latencies"),
    "pelt": ("bpf_pelt", "PELT updates"),
    "placement": ("bpf_placement", "task placement and migrations"),
    "c2c": ("perf_c2c", "bouncing cache lines"),
}
# The reader replaces BEFORE by the text before the number.
METRIC_TO_NAME = "NAME[UNIT,lower]=BEFORE ([0-9.]+)"
# The maximum length of the output of ``uname -m`` that a sentence quotes.
ARCHITECTURE = re.compile(r"\w{1,16}", re.ASCII)
# A kernel without this option has no /proc/schedstat; the section's reason then names the option.
SCHEDSTATS = "CONFIG_SCHEDSTATS"


def next_steps(comparison: Comparison, recordings: Mapping[str, Recorded]) -> tuple[NextStep, ...]:
    """Return what to do next, the most useful step first; () if nothing would help.

    :param recordings: how each side was recorded, by its name; for a side without one, steps have
        no commands that record it again
    """
    base, *others = comparison.sides
    contrasts = [
        Contrast(comparison=comparison, recordings=recordings, base=base, new=side)
        for side in others
    ]
    steps: dict[str, Step] = {}
    for rule in RULES:
        for contrast in contrasts:
            proposal = rule(contrast)
            step = proposal and _with_conditions(proposal, contrast)
            # A step that applies to two sides is listed once.
            if step is not None and step not in steps.values():
                step_id = step.id if step.id not in steps else f"{step.id}-{contrast.name}"
                steps[step_id] = replace(step, id=step_id)
    merged = tuple(_merge(steps.values()))
    # Features that a kernel lacks explain a result, but recording them gives no result.
    advised = (*merged, *_schedstats(contrasts)) if merged else ()
    return tuple(step.render() for step in advised)


def _merge(steps: Iterable[Step]) -> Iterator[Step]:
    # The same step for several sides becomes one step with the commands of each side.
    same: dict[tuple[object, ...], list[Step]] = {}
    for step in steps:
        same.setdefault((step.what, step.why, step.conditions), []).append(step)
    for first, *others in same.values():
        if others:
            commands = [command for step in (first, *others) for command in step.commands]
            yield replace(first, commands=tuple(_rerun_at_once(commands)))
        else:
            yield first


def _rerun_at_once(commands: Iterable[Intent]) -> Iterator[Intent]:
    # Reruns of several sides beside the same base and with the same options are one command.
    groups: dict[object, list[Intent]] = {}
    for command in commands:
        is_pair = command.action == RERUN and len(command.paths) > 1
        key = (command.paths[0], command.options) if is_pair else command
        groups.setdefault(key, []).append(command)
    for first, *others in groups.values():
        if first.action != RERUN or len(first.paths) == 1:
            yield first
            continue
        sides = [side for other in others for side in other.paths[1:]]
        images = [image for command in (first, *others) for image in command.images]
        yield replace(first, paths=(*first.paths, *sides), images=tuple(dict.fromkeys(images)))


def _with_conditions(step: Step, contrast: Contrast) -> Step:
    """Return the step with the conditions under which its commands can run."""
    conditions = []
    says_so = step.id == "revert"
    if not says_so and contrast.has_other_kernel() and _is_of_one_side(step):
        name = BASE if step.id == "a-a" else contrast.name
        conditions.append(f"boot the kernel of {name} first")
    pair = contrast.pair()
    files = pair.local_files if pair is not None and _records(step) else ()
    if files:
        # A setup such as ./enter-cgroup is relative to the directory in which it is run.
        needed = list_some(files, MOST_FILES)
        conditions.append(f"copy {needed} from the original machine to the current directory first")
    return replace(step, conditions=tuple(conditions))


def _records(step: Step) -> bool:
    return any(command.action == RERUN for command in step.commands)


def _is_of_one_side(step: Step) -> bool:
    # With a single bundle, the command cannot determine which kernel it belongs to.
    plain = (each for each in step.commands if each.action == RERUN and not each.images)
    return any(len(each.paths) == 1 and not each.options for each in plain)


def _same_data(contrast: Contrast) -> Step | None:
    if contrast.base.digest != contrast.new.digest:
        return None
    # Only the new side must be recorded: a second time, or with another setting.
    commands = _beside(contrast, contrast.name)
    is_imported = contrast.imported is not None
    return Step(
        id="same-data",
        what=f"pass other results as {contrast.name}" if is_imported else f"record {contrast.name}",
        why=f"base and {contrast.name} are the same {'results' if is_imported else 'recording'}",
        commands=commands,
    )


def _no_results(contrast: Contrast) -> Step | None:
    if contrast.base.digest == contrast.new.digest:
        return None
    for bundle in (contrast.base, contrast.new):
        if bundle.runs_clean == 0 and bundle.runs_instrumented + bundle.runs_failed:
            return Step(
                id="failed-runs",
                what=f"find out why all runs of {bundle.name} failed",
                why="a verdict needs successful runs",
                commands=(_show_runs(bundle),),
            )
    pair = contrast.pair()
    if pair is None or contrast.rows():
        return None
    return record_benchmark(contrast, pair) if pair.prints_nothing else _name_metric(contrast, pair)


def _name_metric(contrast: Contrast, pair: Pair) -> Step:
    has_rules = pair.base.has_rules or pair.new.has_rules
    omitted = pair.base.omitted_bytes + pair.new.omitted_bytes if has_rules else 0
    remedy = correct_rule(is_whole=not omitted) if has_rules else "define the metric with --metric"
    size = f", of which {omitted} bytes are omitted" if omitted else ""
    return Step(
        id="name-metric",
        what=f"record again and {remedy}",
        why=f"{why_unread(has_rules=has_rules)}{size}",
        commands=contrast.rerun("--metric", METRIC_TO_NAME),
    )


def _incomplete(contrast: Contrast) -> Step | None:
    cut = [
        bundle
        for bundle in (contrast.base, contrast.new)
        if not bundle.complete or bundle.runs_failed
    ]
    if not cut or not contrast.rows():
        return None
    names = join_names(bundle.name for bundle in cut)
    return Step(
        id="look-at-runs",
        what=f"find out why runs of {names} failed or are missing",
        why="failed and missing runs are excluded from the comparison",
        commands=tuple(map(_show_runs, cut)),
    )


def _show_runs(side: SideSummary) -> Intent:
    return intend("show", "--runs", as_argument(side.path))


def _real_hardware(contrast: Contrast) -> Step | None:
    pair = contrast.pair()
    # Without results there is no verdict on any machine.
    if not contrast.has_caveat("emulated") or (pair is not None and pair.prints_nothing):
        return None
    is_guest = pair is not None and pair.program == "vm"
    commands = contrast.rerun(*(("--boots", str(BOOTS)) if is_guest else ()))
    machine = read_host(contrast.base.host).kernel.machine or ""
    machine = machine if ARCHITECTURE.fullmatch(machine) else "real"
    where = "on a machine with KVM" if is_guest else f"on {machine} hardware or under KVM"
    return Step(
        id="real-hardware",
        what=f"record again {where}",
        why="timings from an emulator are not used for a verdict",
        commands=(CHECK_GUESTS, *commands) if is_guest else commands,
    )


def _end_other_load(contrast: Contrast) -> Step | None:
    if not contrast.has_caveat("other-load"):
        return None
    return Step(
        id="other-load",
        what="end the other load, and record again",
        why="other commands used more of the CPUs on one side",
        commands=contrast.rerun(),
    )


def _more_runs(contrast: Contrast) -> Step | None:
    if not any(_is_feasible(*each) for each in _undecided(contrast)):
        return None
    # One command for all sides records the number that the noisiest result needs.
    missing = [each for each in _of_all_sides(contrast) if _is_feasible(*each)]
    row, number = max(missing, key=itemgetter(1))
    verb = "record" if contrast.imported is None else "import results of"
    return Step(
        id="more-runs",
        what=f"{verb} {_more_units(row, number)} for {_name_results(missing)}",
        why="inconclusive with the runs recorded so far",
        commands=_grow(contrast, number, row.replication),
    )


def _too_noisy(contrast: Contrast) -> Step | None:
    if all(_is_feasible(*each) for each in _undecided(contrast)):
        return None
    missing = [each for each in _of_all_sides(contrast) if not _is_feasible(*each)]
    return Step(
        id="too-noisy",
        what="too noisy to decide: use longer runs or a quieter machine",
        why=f"{_name_results(missing)}: a verdict needs "
        f"{_more_units(*max(missing, key=itemgetter(1)))}",
        commands=(),
    )


def _undecided(contrast: Contrast) -> list[tuple[Row, int]]:
    """Return the inconclusive rows that more units would decide, with the number of missing units.

    Under emulation no number of runs gives a verdict, so the result is empty.
    """
    if contrast.has_caveat("emulated"):
        return []
    return [
        (row, number)
        for row in contrast.rows()
        if row.verdict == "inconclusive" and (number := _missing_runs(row, contrast))
    ]


def _of_all_sides(contrast: Contrast) -> list[tuple[Row, int]]:
    others = contrast.comparison.sides[1:]
    return [each for side in others for each in _undecided(replace(contrast, new=side))]


def _is_feasible(row: Row, number: int) -> bool:
    return number <= (MOST_MORE_BOOTS if row.replication == "boots" else MOST_MORE_RUNS)


def _more_units(row: Row, number: int) -> str:
    each = "" if row.replication == "rounds" else " per side"
    return f"about {number} more {name_units(number, row.replication)}{each}"


def _name_results(missing: Sequence[tuple[Row, int]]) -> str:
    names = list(dict.fromkeys(row.metric for row, _ in missing))
    return join_names(names) if len(names) <= MOST_RESULTS else list_some(names, MOST_RESULTS)


def _missing_runs(row: Row, contrast: Contrast) -> int | None:
    # None if more runs would not help, or if the number is unknown.
    if row.more_runs is not None:
        return row.more_runs
    if row.n_base is None or row.n_new is None:
        return None
    fewest = min(row.n_base, row.n_new)
    if row.ci_low is None:
        return max(FEWEST_RUNS - fewest, 0) or None
    if row.boot_sd is not None and (row.q is None or row.q >= FALSE_DISCOVERY_RATE):
        # The comparison lacks boots, not runs.
        return None
    # With sides recorded one after the other, fewer runs cannot separate a change from drift.
    in_blocks = contrast.has_caveat("blocks") and row.replication == "runs"
    return max(FEWEST_IN_BLOCKS - fewest, 0) or None if in_blocks else None


def _grow(contrast: Contrast, number: int, unit: str) -> tuple[Intent, ...]:
    pair = contrast.pair()
    if pair is None:
        return ()
    if unit == "boots" and pair.boots_itself:
        return contrast.rerun("--boots", str(pair.base.boots + number))
    # Runs that are added to an interleaved recording are not part of its pairs.
    is_added = pair.grows and not (pair.base.in_rounds or pair.new.in_rounds)
    if unit == "boots":
        return contrast.rerun("--append") if is_added else contrast.rerun()
    if is_added:
        return contrast.rerun("--append", "-n", str(number))
    return contrast.rerun("-n", str(pair.base.runs + number))


def _beside(contrast: Contrast, name: str) -> tuple[Intent, ...]:
    """Return the commands that record one side into a new bundle and compare base with it.

    :return: () if its recording is unknown, or if its program also boots the kernels
    """
    side = contrast.recordings.get(name)
    if side is None or side.program in BOOTING:
        return ()
    return record_beside(side, contrast.base.path)


def _explain(contrast: Contrast) -> Step | None:
    is_open = not contrast.has_verdict(*CHANGED)
    pair = contrast.pair()
    # Without results of the workload, there is nothing to explain.
    if pair is None or pair.prints_nothing or (is_open and not contrast.has_caveat("emulated")):
        return None
    blind = any(
        finding.bearing == "unseen" and finding.rule == "hotter_symbols"
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
    # Recordings in guests use some of these collectors by default.
    found = (name for name, _ in EXPLAINING.values() if name in pair.base.captured)
    given = dict.fromkeys((*pair.base.collectors, *found))
    kept = [name for name in given if name not in ("default", "none", *missing)]
    eyes = "the profile's event does not sample most scheduler code, and " if blind else ""
    return Step(
        id="explain",
        what=f"record {', '.join(missing.values())}",
        why=f"{eyes}no run was recorded with {' or '.join(missing)}",
        commands=contrast.rerun("--with", ",".join(("default", *kept, *missing))),
    )


def _on_a_pmu(contrast: Contrast) -> Step | None:
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
    return Step(
        id="pmu",
        what="record again with a PMU (on bare metal, or in a guest with a virtual PMU)",
        why="the profile was sampled by an hrtimer, which cannot sample code that runs with "
        "interrupts off",
        commands=(CHECK_COLLECTORS, *contrast.rerun()),
    )


def _state_direction(contrast: Contrast) -> Step | None:
    rows = contrast.rows()
    if contrast.imported is None or not rows or any(row.family == "primary" for row in rows):
        return None
    if all(row.better != "unknown" for row in rows):
        return None
    return Step(
        id="state-direction",
        what="state for the metrics that count whether lower or higher is better, with the name of "
        "each in place of METRIC",
        why=f"the format {contrast.imported} does not state it, so no verdict is given",
        commands=(contrast.compare("--better", "METRIC=lower"),),
    )


def _record_it(contrast: Contrast) -> Step | None:
    is_table = not contrast.base.host and not contrast.new.host
    if not is_table or not contrast.has_verdict(*CHANGED):
        return None
    kind = "CSV tables" if contrast.new.imported is None else "imported results"
    return Step(
        id="record",
        what="record both sides with schedperf, with your command in place of WORKLOAD",
        why=f"{kind} contain no collector data that could explain the change",
        commands=RECORD_BOTH,
    )


def _revert(contrast: Contrast) -> Step | None:
    pair = contrast.pair()
    if pair is None or not contrast.has_verdict("regression") or not contrast.has_other_kernel():
        return None
    if pair.program == "vm":
        commands = contrast.rerun(images=("reverted=REVERTED_BZIMAGE",))
    elif pair.program == "boots":
        # The kernels of such a recording are installed ones, which `rerun` does not replace.
        commands = ()
    else:
        commands = record_beside(pair.new, pair.base.path, pair.new.path)
    return Step(
        id="revert",
        what="revert the suspected commit on top of new, boot that kernel and record it",
        why="if the revert removes the regression, the commit is the cause",
        commands=commands,
    )


def _more_boots(contrast: Contrast) -> Step | None:
    if contrast.imported is not None:
        return _more_imported_boots(contrast, contrast.imported)
    why = _why_boots(contrast)
    if why is None:
        return None
    pair = contrast.pair()
    if pair is None:
        commands: tuple[Intent, ...] = ()
    elif pair.boots_itself:
        commands = contrast.rerun("--boots", str(BOOTS))
    else:
        # A bundle that contains only the second boot would again have one boot.
        commands = contrast.rerun("--append") if pair.grows else ()
    how = (
        "" if pair is not None and pair.boots_itself else "; reboot and append runs to both bundles"
    )
    return Step(
        id="more-boots",
        what=f"record {BOOTS} boots per side{how}",
        why=why,
        commands=commands,
    )


def _why_boots(contrast: Contrast) -> str | None:
    of_one_boot = [row for row in contrast.rows() if row.boot_sd is not None]
    if not of_one_boot:
        decided = contrast.has_caveat("one-boot") and contrast.has_verdict(*CHANGED, "no-change")
        return NO_VARIANCE if decided else None
    if any(row.boot_sd and row.boot_sd.source == "assumed" for row in of_one_boot):
        return NO_VARIANCE
    is_open = any(row.verdict == "inconclusive" and row.more_runs is None for row in of_one_boot)
    return ONE_BOOT if is_open else None


def _more_imported_boots(contrast: Contrast, kind: str) -> Step | None:
    what = MORE_BOOTS.get(kind)
    if contrast.has_caveat("one-boot") and contrast.has_verdict(*CHANGED, "no-change"):
        why = NO_VARIANCE
    elif contrast.has_caveat("blocks") and contrast.has_verdict("inconclusive"):
        why = ONE_AFTER_THE_OTHER
    else:
        return None
    return None if what is None else Step(id="more-boots", what=what, why=why, commands=())


def _interleave(contrast: Contrast) -> Step | None:
    if not _is_in_blocks(contrast) or contrast.has_other_kernel():
        return None
    # A change that is larger than any drift needs no other recording.
    if all(row.verdict != "inconclusive" for row in contrast.rows()):
        return None
    return Step(
        id="interleave",
        what="record the sides again, interleaved, with your settings and the same workload in "
        "place of the words in capitals",
        why=ONE_AFTER_THE_OTHER,
        commands=(INTERLEAVE,),
    )


def _is_in_blocks(contrast: Contrast) -> bool:
    """Return whether `record` recorded one side completely before the other."""
    pair = contrast.pair()
    return pair is not None and pair.program == "record" and contrast.has_caveat("blocks")


def _take_turns(contrast: Contrast) -> Step | None:
    pair = contrast.pair()
    if pair is None or not _is_in_blocks(contrast) or not contrast.has_other_kernel():
        return None
    return Step(
        id="take-turns",
        what="record the kernels again with interleaved boots",
        why=ONE_AFTER_THE_OTHER,
        commands=(
            CHECK_GUESTS,
            *contrast.rerun("--boots", str(BOOTS), images=pair.images),
        ),
    )


def _against_itself(contrast: Contrast) -> Step | None:
    pair = contrast.pair()
    decided = contrast.has_verdict(*CHANGED, "no-change")
    if pair is None or not decided or pair.boots_itself:
        return None
    if contrast.has_caveat("history") or contrast.base.digest == contrast.new.digest:
        return None
    if pair.program == "ab":
        # Both sides get the setting of base.
        commands: tuple[Intent, ...] = (intend(RERUN, paths=(pair.base.path, pair.base.path)),)
    else:
        commands = _beside(contrast, BASE)
    return Step(
        id="a-a",
        what="compare base with itself (A/A)",
        why="an A/A comparison shows how much results vary between two recordings of base",
        commands=commands,
    )


def _schedstats(contrasts: Sequence[Contrast]) -> Iterator[Step]:
    section = contrasts[0].comparison.sections.get("schedstat")
    reason = None if section is None else section.reason
    if reason is None or SCHEDSTATS not in reason:
        return
    is_same = not any(contrast.has_other_kernel() for contrast in contrasts)
    kernels = "the kernel" if is_same else "both kernels" if len(contrasts) == 1 else "the kernels"
    yield Step(
        id="schedstats",
        what=f"build {kernels} with {SCHEDSTATS}=y",
        why="load-balancing counts are missing, because the kernel has no /proc/schedstat",
        commands=(CHECK_COLLECTORS,),
    )


RULES: tuple[Callable[[Contrast], Step | None], ...] = (
    _same_data,
    blocking,
    nothing_shared,
    _no_results,
    _real_hardware,
    _end_other_load,
    _interleave,
    _more_runs,
    _too_noisy,
    _explain,
    _state_direction,
    _record_it,
    _on_a_pmu,
    _revert,
    _more_boots,
    _incomplete,
    _take_turns,
    _against_itself,
)
