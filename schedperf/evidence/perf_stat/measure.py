# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the counts of one run: of the workload, the whole machine and its NUMA nodes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence.perf_stat.capture import (
    FACTS,
    FOLDER,
    WORKLOAD_CSV,
    Counter,
    counted_everywhere,
    counting_seconds,
    read_perf_stat,
)
from schedperf.evidence.perf_stat.record import Scope
from schedperf.evidence.perf_stat.shares_by_core_type import pmus_of_types, why_not_counted
from schedperf.inputs.bundle.json import Sentence, decode
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.model.errors import BadLine
from schedperf.model.run import Operations

LARGEST_JSON_BYTES = 1 << 20
# For imported results of perf stat, only the counts are known.
ONE_RUN = Operations(count=1.0, unit="run", exact=True)
# Why a run has no events of the workload.
IMPORTED = "output of perf stat does not record whose events it counted"
NOT_RECORDED = "recorded by an earlier version"


class Key(NamedTuple):
    """What is counted; node None is all nodes together."""

    scope: Scope
    event: str
    node: int | None


class Count(Struct, frozen=True, kw_only=True):
    """The count of one event in one run.

    :param scaled: whether perf extrapolated it because of multiplexing
    """

    value: float
    unit: str
    scaled: bool


class Counted(Struct, frozen=True, kw_only=True):
    """All counts of one run.

    :param seconds: how long perf counted the machine; None if unknown
    :param not_counted: reason by scope and event
    :param no_workload: why the workload's events were not counted; None if they were
    :param ops: operations to use if the benchmark reports none; None if unknown
    :param pmus: PMUs of the types of CPU cores, if there are several
    """

    counts: Mapping[Key, Count]
    seconds: float | None
    not_counted: Mapping[tuple[Scope, str], str]
    no_workload: str | None
    notes: tuple[str, ...]
    ops: Operations | None = None
    pmus: frozenset[str] = frozenset()


def read_run(side: Side, run: Run) -> Counted:
    """Return the counts of a run.

    :raises InputError: a file is too large or damaged
    """
    read: dict[Scope, Sequence[Counter | BadLine]] = {
        "machine": read_perf_stat(side, run),
        "workload": read_perf_stat(side, run, WORKLOAD_CSV),
    }
    facts = _read_facts(side.bundle, run)
    missing = {
        (scope, line.event): why_not_counted(line.event, line.missing)
        for scope, lines in read.items()
        for line in lines
        if isinstance(line, Counter) and line.missing
    }
    types = next(
        (boot.host.topology.types for boot in side.bundle.boots if boot.number == run.boot), {}
    )
    counts = {key: count for scope in read for key, count in _add_up(scope, read[scope]).items()}
    bad = [line.problem for lines in read.values() for line in lines if isinstance(line, BadLine)]
    return Counted(
        counts=counts,
        seconds=counting_seconds(read["machine"]),
        not_counted={**missing, **facts.reasons()},
        no_workload=_why_no_workload(side.bundle, facts, counts),
        notes=tuple(_describe_bad(bad)),
        ops=None if side.bundle.imported is None else ONE_RUN,
        pmus=pmus_of_types(types, [key.event for key in counts]),
    )


def _why_no_workload(bundle: Bundle, facts: "_Facts", counts: Iterable[Key]) -> str | None:
    if any(key.scope == "workload" for key in counts):
        return None
    return facts.no_workload or (NOT_RECORDED if bundle.imported is None else IMPORTED)


def _describe_bad(problems: Sequence[str]) -> Iterator[str]:
    # Only the first problem is reported; a damaged file can have one per line.
    if problems:
        more = f" (and {len(problems) - 1} more invalid lines)" if len(problems) > 1 else ""
        yield f"{problems[0]}{more}"


class _OfWorkload(Struct, frozen=True, kw_only=True):
    not_counted: Mapping[str, str]


class _Facts(Struct, frozen=True, kw_only=True):
    """Contents of perf_stat.json.

    :param not_counted: reason by event of the whole machine
    :param workload: the same for the workload; None if its events were not counted
    :param no_workload: why they were not; None if unknown
    """

    not_counted: Mapping[str, str]
    workload: _OfWorkload | None = None
    no_workload: Sentence | None = None

    def reasons(self) -> dict[tuple[Scope, str], str]:
        """Return the reason by scope and event."""
        of_workload = {} if self.workload is None else self.workload.not_counted
        scopes: dict[Scope, Mapping[str, str]] = {
            "workload": of_workload,
            "machine": self.not_counted,
        }
        return {
            (scope, event): reason
            for scope, reasons in scopes.items()
            for event, reason in reasons.items()
        }


def _read_facts(bundle: Bundle, run: Run) -> _Facts:
    name = f"{run.folder}/{FOLDER}/{FACTS}"
    if bundle.size(name) is None:
        return _Facts(not_counted={})
    return decode(bundle.read(name, LARGEST_JSON_BYTES), _Facts, name)


def _add_up(scope: Scope, read: Sequence[Counter | BadLine]) -> dict[Key, Count]:
    # The value of the whole machine is the sum over its nodes, if all were counted.
    whole = counted_everywhere(read)
    places: defaultdict[Key, list[Counter]] = defaultdict(list)
    for counter in read:
        if not isinstance(counter, Counter):
            continue
        if counter.event in whole:
            places[Key(scope, counter.event, None)].append(counter)
        if counter.node is not None:
            places[Key(scope, counter.event, counter.node)].append(counter)
    return {
        key: Count(
            value=sum(count.value for count in counted if count.value is not None),
            unit=counted[0].unit,
            scaled=any(count.scaled for count in counted),
        )
        for key, counted in places.items()
        if all(count.value is not None for count in counted)
        and len({count.unit for count in counted}) == 1
    }
