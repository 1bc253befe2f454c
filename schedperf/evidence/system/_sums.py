"""Adds up what many CPUs counted during a run, by NUMA node and over all of them."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from schedperf.evidence.system._counters import growth
from schedperf.evidence.system.record import Group

Counts = npt.NDArray[np.uint64]

# A note names so many; the others are counted.
MOST_NAMED = 3
# Groups and fields whose counts are kept CPU by CPU; they are a few dozen numbers of a CPU.
FIELDS_OF_CPUS = (
    ("cpu", "time"), ("idle", "time"), ("interrupts", "count"), ("softirqs", "count"),
)  # fmt: skip
# Subjects of one run: interrupts, cgroups and idle states of a large machine are some thousand.
MOST_KEYS = 50_000


class SystemKey(NamedTuple):
    """What was counted: ``SystemKey("idle", "C6", "time", None)``.

    :ivar node: None: of the whole machine
    """

    group: Group
    subject: str
    field: str
    node: int | None


class SystemValue(NamedTuple):
    """A number of one run.

    :ivar unit: "1", "s", "J", "Hz", "W"
    :ivar kind: "count": by how much it grew; "level": a mean, taken as it is
    """

    value: float
    unit: str
    kind: Literal["count", "level"]


class CpuKey(NamedTuple):
    """What was counted of each CPU: ``CpuKey("idle", "C6", "s")``.

    :ivar subject: of interrupts "all", as a machine has hundreds of them
    :ivar unit: "1" or "s"
    """

    group: Group
    subject: str
    unit: str


class SystemSums:
    """The sums of one run, and what is odd in it.

    :param nodes: NUMA node by CPU; with one node there are no sums by node
    """

    def __init__(self, nodes: Mapping[int, int]) -> None:
        self.counts: dict[SystemKey, SystemValue] = {}
        self.cpus: dict[CpuKey, dict[int, float]] = {}
        self._nodes = nodes if len(set(nodes.values())) > 1 else {}
        self._notes: dict[str, None] = {}
        self._wrapped: dict[str, dict[str, None]] = {}
        self._restarted: dict[str, dict[str, None]] = {}

    def note(self, text: str) -> None:
        """Keep a sentence for the reader."""
        self._notes[text] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is odd, a sentence each."""
        wrapped = (
            f"{group}: wrapped, and counted as once, though it may have been more often: "
            f"{_names(subjects)}"
            for group, subjects in self._wrapped.items()
        )
        restarted = (
            f"{group}: fell, so it started again and what it counted is unknown and left out: "
            f"{_names(subjects)}"
            for group, subjects in self._restarted.items()
        )
        return (*self._notes, *wrapped, *restarted)

    def add_growth(
        self,
        key: SystemKey,
        before: int | None,
        after: int | None,
        *,
        unit: str = "1",
        scale: float = 1.0,
        modulus: int | None = None,
        cpu: int | None = None,
    ) -> None:
        """Add what one counter has grown; nothing where a value is not known.

        :param key: with the node None
        :param scale: makes ``unit`` of the counter's own unit
        :param modulus: the counter's number of values; None: it does not wrap
        :param cpu: whose counter it is; None: the machine's
        """
        if before is None or after is None:
            return
        grown, has_wrapped = growth(before, after, modulus)
        who = key.subject if cpu is None else f"{key.subject} of cpu{cpu}"
        if has_wrapped:
            self._wrapped.setdefault(key.group, {})[who] = None
        if grown is None:
            self._restarted.setdefault(key.group, {})[who] = None
        else:
            self.add_count(key, grown * scale, unit, cpu)

    def add_growths(
        self, key: SystemKey, cpus: Sequence[int], before: Counts, after: Counts, modulus: int
    ) -> None:
        """Add what the counters of many CPUs have grown.

        :param before: shape (cpus,); ``after`` as well
        """
        if (after < before).any():
            for cpu, *values in zip(cpus, before.tolist(), after.tolist(), strict=True):
                self.add_growth(key, *values, modulus=modulus, cpu=cpu)
            return
        grown = (after - before).astype(np.float64)
        self.add_count(key, float(grown.sum()), "1")
        for cpu, value in zip(cpus, grown.tolist(), strict=True):
            self._add_to_cpu(key, value, "1", cpu)
        nodes = np.array([self._nodes.get(cpu, -1) for cpu in cpus])
        for node in set(nodes.tolist()) - {-1}:
            self.add_count(key._replace(node=node), float(grown[nodes == node].sum()), "1")

    def add_count(self, key: SystemKey, value: float, unit: str, cpu: int | None = None) -> None:
        """Add to the count of a key, and to those of the CPU and of its node."""
        places = [key]
        if cpu is not None:
            self._add_to_cpu(key, value, unit, cpu)
        if cpu is not None and cpu in self._nodes:
            places.append(key._replace(node=self._nodes[cpu]))
        for place in places:
            if place not in self.counts and len(self.counts) >= MOST_KEYS:
                self.note(f"more than {MOST_KEYS} different counts; the others are left out")
                return
            sum_before = self.counts[place].value if place in self.counts else 0.0
            self.counts[place] = SystemValue(sum_before + value, unit, "count")

    def _add_to_cpu(self, key: SystemKey, value: float, unit: str, cpu: int) -> None:
        if (key.group, key.field) in FIELDS_OF_CPUS:
            subject = "all" if key.group == "interrupts" else key.subject
            counts = self.cpus.setdefault(CpuKey(key.group, subject, unit), {})
            counts[cpu] = counts.get(cpu, 0.0) + value

    def set_level(self, key: SystemKey, value: float, unit: str) -> None:
        """Keep a mean."""
        self.counts[key] = SystemValue(value, unit, "level")


def _names(subjects: Mapping[str, None]) -> str:
    more = len(subjects) - MOST_NAMED
    return ", ".join(list(subjects)[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
