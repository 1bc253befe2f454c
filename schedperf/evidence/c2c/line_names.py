"""A changed cache line in words, for the rules that speak of one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schedperf.model.comparison import Section
from schedperf.model.units import format_number

Data = Mapping[str, Any]

# What a contended access is called where another CPU had the line.
_WORDS = {"hitm": "HITM", "ibs": "HITM (IBS)", "peer": "peer snoops"}


def data_of(sections: Mapping[str, Section], name: str) -> Any:
    """Return what a section found, None where it has nothing; its JSON Schema vouches for it."""
    section = sections.get(name)
    return section.data if section is not None and section.status == "ok" else None


def why_unseen(sections: Mapping[str, Section], name: str) -> str:
    """Say why a section has nothing."""
    section = sections.get(name)
    return (section.reason if section is not None else None) or "not analysed"


class Size(NamedTuple):
    """How much something changed, as a finding says it.

    :param n: runs of base and of new
    """

    value: float
    interval: tuple[float, float] | None
    unit: str
    metric: str
    n: tuple[int, int]


class Contention(NamedTuple):
    """A line of a point of the section about cache lines, and which of its rates changed.

    :param measure: "remote" or "local", the surer one
    """

    point: Data
    line: Data
    measure: str

    @property
    def subject(self) -> str:
        """Name and place of the line: ``task_group.load_avg (task_group+0x100)``."""
        keys = (self.line[side]["key"] for side in ("base", "new") if self.line[side])
        place = " -> ".join(dict.fromkeys(keys))
        return place if self.line["name"] is None else f"`{self.line['name']}` ({place})"

    @property
    def rises(self) -> bool:
        """Whether the line moves between caches more often than before."""
        return bool(self.line[self.measure]["difference"] > 0.0)

    def describe(self) -> str:
        """Say how the rate changed: ``remote HITM 3.1 -> 0.4 per 1000 messages …``."""
        change = self.line[self.measure]
        word = _WORDS[self.point["observable"]["new"]]
        base, new = (_rate(change[side]) for side in ("base", "new"))
        at = f" at {self.point['point']}" if self.point["point"] else ""
        return f"{self.measure} {word} {base} -> {new} {self._unit} ({_ratio(change)}){at}"

    @property
    def size(self) -> Size:
        """The change of the rate."""
        change, runs = self.line[self.measure], self.point["runs"]
        return Size(
            value=change["difference"],
            interval=(change["difference_low"], change["difference_high"]),
            unit=self._unit,
            metric=f"{self.measure} contended loads {self._unit}",
            n=(runs["base"], runs["new"]),
        )

    @property
    def _unit(self) -> str:
        unit, per = self.point["unit"], self.point["per"]
        return f"per {unit}" if per == 1 else f"per {per} {unit}s"


def contentions(point: Data) -> Iterator[Contention]:
    """Yield the lines of a point that changed beyond chance, most contended first."""
    for line in point["lines"]:
        changed = [name for name in ("remote", "local") if line[name]["changed"]]
        if changed:
            surest = min(changed, key=lambda name: line[name]["q"])
            yield Contention(point=point, line=line, measure=surest)


def _rate(value: float) -> str:
    return format_number(float(f"{value:.3g}"))


def _ratio(change: Data) -> str:
    if change["ratio"] is None:
        low, high = change["difference_low"], change["difference_high"]
        return f"none before; 95 % interval of the change {low:+.3g}..{high:+.3g}"
    high = "open" if change["ratio_high"] is None else f"{change['ratio_high']:.3g}"
    return f"times {change['ratio']:.3g}, 95 % interval {change['ratio_low']:.3g}..{high}"


def list_some(names: Sequence[str], most: int) -> str:
    """List the first names and count the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
