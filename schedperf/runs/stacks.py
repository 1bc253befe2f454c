# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse what BPF collectors recorded by stack: frames, stacks and histograms of durations.

>>> table = Table(frames=(Frame("wait", None), Frame("work", "/usr/bin/app")), stacks=((0, 1),))
>>> table.stack(0)
(Frame(function='wait', file=None), Frame(function='work', file='/usr/bin/app'))
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import Count, Sentence
from schedperf.inputs.symbols.functions import function_name
from schedperf.model.probes import ProbeCost
from schedperf.model.units import NANOSECOND_S

# Limits: the BPF maps have 8192 stacks of each kind, and at most 40 frames each.
MOST_FRAMES, MOST_STACKS, MOST_DEPTH = 1 << 18, 1 << 15, 256
MOST_ROWS = 1 << 16
MOST_NOTES = 256
LONGEST_NAME = 4096
MOST_SECONDS = 1e8

# Of workload.h: bins of 64 ns up to 512 ns, then 8 in each power of two.
UNIT_NS, STEPS, BINS = 64, 8, 256
# Fewest durations above a percentile, with a tolerance for the float error of their number.
FEWEST_BEYOND = 1.0
ROUNDING = 1e-9

Bin = tuple[Annotated[int, Meta(ge=0, lt=BINS)], Count]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Index = Annotated[int, Meta(ge=0)]


class Frame(Struct, frozen=True):
    """A function of a stack.

    :param function: None if unknown
    :param file: file of a user function; None for kernel functions, or if unknown
    """

    function: str | None
    file: str | None

    @property
    def program(self) -> str:
        """The name of the file without its directory; "" for none."""
        return (self.file or "").rpartition("/")[2]


# Innermost function first.
Stack = tuple[Frame, ...]


class Table(Struct, frozen=True, kw_only=True):
    """The stacks of one run."""

    frames: Sequence[Frame]
    stacks: Sequence[tuple[int, ...]]

    def stack(self, index: int | None) -> Stack | None:
        """Return a stack; None if it was not recorded."""
        return None if index is None else tuple(self.frames[each] for each in self.stacks[index])


class Program(Struct, frozen=True, kw_only=True):
    """How one program was attached."""

    mechanism: str | None
    function: str | None = None
    reason: str | None = None


class ProgramCost(Struct, frozen=True, kw_only=True):
    """The calls of one program during the run, on all CPUs and for all tasks."""

    calls: Count
    ns: Count


# By program.
Costs = Mapping[str, ProgramCost]


def sum_costs(runs: Iterable[Costs]) -> tuple[ProbeCost, ...]:
    """Return the cost of each program over all runs, most time first."""
    sums: dict[str, tuple[int, int]] = {}
    for costs in runs:
        for program, cost in costs.items():
            calls, ns = sums.get(program, (0, 0))
            sums[program] = calls + cost.calls, ns + cost.ns
    return tuple(
        ProbeCost(program=name, calls=calls, mean_s=ns * NANOSECOND_S / calls if calls else None)
        for name, (calls, ns) in sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    )


class DurationsRow(Struct, frozen=True, kw_only=True):
    """Number, sum and histogram of some durations, as in the documents."""

    count: Count
    ns: Count
    max_ns: Count
    bins: Annotated[tuple[Bin, ...], Meta(max_length=BINS)]


class StacksDocument(Struct, frozen=True, kw_only=True):
    """The part that all documents have."""

    seconds: Annotated[float, Meta(gt=0.0, le=MOST_SECONDS)]
    programs: Annotated[Mapping[str, Program], Meta(max_length=MOST_NOTES)]
    frames: Annotated[tuple[tuple[Name | None, Name | None], ...], Meta(max_length=MOST_FRAMES)]
    stacks: Annotated[
        tuple[Annotated[tuple[Index, ...], Meta(max_length=MOST_DEPTH)], ...],
        Meta(max_length=MOST_STACKS),
    ]
    costs: Annotated[Mapping[Name, ProgramCost], Meta(max_length=MOST_NOTES)] = {}
    lost: Annotated[Mapping[str, Count], Meta(max_length=MOST_NOTES)]
    notes: Annotated[tuple[Sentence, ...], Meta(max_length=MOST_NOTES)]

    def __post_init__(self) -> None:
        """Refuse stacks of unknown frames.

        :raises ValueError: an index is too large
        """
        if any(index >= len(self.frames) for stack in self.stacks for index in stack):
            raise ValueError("a stack has an unknown frame")

    def table(self) -> Table:
        """Return its stacks, with names that do not depend on the compiler."""
        frames = [
            Frame(None if function is None else function_name(function), file)
            for function, file in self.frames
        ]
        return Table(frames=frames, stacks=self.stacks)

    def check_stacks(self, indexes: Sequence[int | None]) -> None:
        """Refuse rows with unknown stacks.

        :raises ValueError: an index is too large
        """
        if any(index is not None and index >= len(self.stacks) for index in indexes):
            raise ValueError("a row has an unknown stack")


class Durations(Struct, frozen=True, kw_only=True):
    """Number, sum and histogram of some durations.

    :param bins: number of durations by bin
    """

    count: int = 0
    ns: int = 0
    max_ns: int = 0
    bins: Mapping[int, int] = {}

    @classmethod
    def of(cls, row: DurationsRow) -> "Durations":
        """Return those of a row."""
        bins: dict[int, int] = {}
        for number, count in row.bins:
            bins[number] = bins.get(number, 0) + count
        return cls(count=row.count, ns=row.ns, max_ns=row.max_ns, bins=bins)

    def __add__(self, other: "Durations") -> "Durations":
        bins = dict(self.bins)
        for number, count in other.bins.items():
            bins[number] = bins.get(number, 0) + count
        return Durations(
            count=self.count + other.count,
            ns=self.ns + other.ns,
            max_ns=max(self.max_ns, other.max_ns),
            bins=bins,
        )

    def quantile_ns(self, part: float) -> float | None:
        """Return a percentile in ns, interpolated within its bin; None if too few are longer.

        >>> Durations(count=100, ns=0, max_ns=900, bins={8: 90, 12: 10}).quantile_ns(0.9)
        576.0

        :param part: between 0 and 1
        """
        total = sum(self.bins.values())
        if total * (1.0 - part) < FEWEST_BEYOND - ROUNDING:
            return None
        rank, below = total * part, 0
        for number in sorted(self.bins):
            count = self.bins[number]
            if below + count >= rank - ROUNDING:
                low, high = edges_ns(number)
                high = min(high, self.max_ns)
                return min(low + (rank - below) / count * (high - low), float(self.max_ns))
            below += count
        return None


def edges_ns(number: int) -> tuple[int, int]:
    """Return the lower and the upper edge of a bin in ns.

    >>> edges_ns(0), edges_ns(7), edges_ns(8), edges_ns(16)
    ((0, 64), (448, 512), (512, 576), (1024, 1152))
    """
    power = max(0, number // STEPS - 1)
    low = (number - power * STEPS) << power
    return low * UNIT_NS, (low + (1 << power)) * UNIT_NS
