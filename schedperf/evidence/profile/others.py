"""What other commands did while the workload was sampled, of one point and of the comparison."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.profile.bystanders import Bystanders
from schedperf.evidence.profile.record import OtherCommand, OtherCommands, Profile
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import BaseNew, Section, data_of
from schedperf.runs.side import BASE

# Per cent of the busy time. perf and the recorder take one or two on a machine of two CPUs; what
# takes more than these moves the share of every function by as much.
SAID_PERCENT = 5.0
WEAKENS_PERCENT = 10.0
# Commands that have a name of their own, and the least of them.
MOST_COMMANDS = 5
NAMED_PERCENT = 0.5
NAMED_COMMANDS = 4


def describe_others(runs: Sequence[Bystanders | None]) -> OtherCommands | None:
    """Return what part of the busy time other commands took, mean of the runs.

    :param runs: of one side; None where the workload cannot be told
    """
    known = [one.shares for one in runs if one is not None]
    if len(known) < len(runs) or not runs:
        return None
    # In an order that is the same each time: their sum rests on it in its last digit.
    names = dict.fromkeys(name for shares in known for name in shares)
    means = {name: sum(one.get(name, 0.0) for one in known) / len(known) for name in names}
    largest = sorted(means, key=lambda name: (-means[name], name))[:MOST_COMMANDS]
    return OtherCommands(
        share=sum(means.values()),
        commands=tuple(OtherCommand(command=name, share=means[name]) for name in largest),
    )


# What the first share is of, which is said once.
_WHOLE = " of the event's count without idle"


def caution_of(others: BaseNew[OtherCommands | None]) -> str | None:
    """Say it in one sentence; None where it is little, or not known.

    ::

        other commands than the workload have 13 % of the event's count without idle in base
        (schedperf 12 %, perf 1 %) and 21 % in new (schedperf 20 %)
    """
    said = {side: found for side, found in others.items() if found is not None}
    if not any(found.share >= SAID_PERCENT for found in said.values()):
        return None
    parts = [
        f"{found.share:.0f} %{'' if number else _WHOLE} in {side}"
        + (f" ({names})" if (names := _names(found)) else "")
        for number, (side, found) in enumerate(said.items())
    ]
    return f"other commands than the workload have {' and '.join(parts)}"


def others_caveats(sections: Mapping[str, Section]) -> Iterator[Caveat]:
    """Yield a caveat for each side whose profile is of other commands for a good part."""
    data = data_of(sections, Profile)
    worst: dict[str, OtherCommands] = {}
    for compared in () if data is None else data.comparisons:
        for point in (point for event in compared.events for point in event.points):
            for role, found in point.others.items():
                side = BASE if role == "base" else compared.side
                if found is not None and (side not in worst or found.share > worst[side].share):
                    worst[side] = found
    for side, found in worst.items():
        if found.share >= WEAKENS_PERCENT:
            yield caveat("other-commands", side=side, percent=found.share, names=_names(found))


def _names(found: OtherCommands) -> str:
    named = [one for one in found.commands if one.share >= NAMED_PERCENT][:NAMED_COMMANDS]
    return ", ".join(f"{one.command} {one.share:.0f} %" for one in named)
