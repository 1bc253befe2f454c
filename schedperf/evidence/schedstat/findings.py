"""What the scheduler did more or less often, as the rules of schedstat read it."""

from collections.abc import Iterator, Mapping
from typing import Any

from schedperf.evidence import dict_finding
from schedperf.model.comparison import Finding, Section
from schedperf.stats.counted.pace import Paces
from schedperf.stats.verdicts import count_units

# Of one side; the section has every reading.
MOST_FINDINGS = 4
# What a row counts, and where.
_PLACE = ("side", "workload", "point", "level", "idle", "field")

Entry = Mapping[str, Any]


@dict_finding("scheduler_counts", needs=("schedstat",))
def scheduler_counts(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield the largest change that points to each function of the kernel.

    Counts of one function rise and fall together, and points of a sweep likewise, so
    the largest of them stands for the others. Readings are in falling order of change. What
    comes more often only as the run takes longer is left out.
    """
    # The section's own JSON Schema vouches for the shape.
    data: Any = sections["schedstat"].data
    rows = {row["row"]: row for row in data["rows"]}
    paces = Paces((row for row in data["rows"] if row["basis"] == "time"), _PLACE)
    told: dict[str, set[str]] = {}
    for reading in data["readings"]:
        row, places = rows[reading["row"]], told.setdefault(reading["side"], set())
        is_new = len(places) < MOST_FINDINGS and reading["look_at"] not in places
        if is_new and paces.is_reason(row):
            places.add(reading["look_at"])
            yield _describe(reading, row, pace=paces.describe(row))


def _describe(reading: Entry, row: Entry, *, pace: str) -> Finding:
    where = f"{row['point']}: " if row["point"] else ""
    per = "" if row["basis"] == "share" else f" per {row['unit'].partition('/')[2]}"
    change, low, high = (
        None if row[name] is None else 100.0 * (row[name] - 1.0)
        for name in ("ratio", "ci_low", "ci_high")
    )
    interval = None if low is None or high is None else (low, high)
    known = "" if interval is None else f"95 % interval {low:+.0f}..{high:+.0f} %"
    told = ", ".join(filter(None, (known, pace)))
    sizes = f" ({told})" if told else ""
    return Finding(
        id=f"scheduler_counts#{row['row']}",
        side=row["side"],
        claim=f"{where}{reading['text']}{sizes}; {reading['meaning']}",
        metric=f"{row['level']} {row['idle']} {row['field']}{per}".strip(),
        value=change,
        ci=interval,
        unit="%",
        better=None,
        n=(row["n_base"], row["n_new"]),
        evidence=(f"schedstat#{row['row']}",),
        replication=count_units(row["n_base"], row["n_new"], row["replication"]),
        attribution="co-occurs; not shown to cause the change",
    )
