"""Every weakness that a result can carry, and its text, in one place.

A result is never silently weak: what limits it travels with it as a
:class:`Caveat`, into the terminal, the HTML page, the mail and the JSON alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

# One sentence each, lower case, no full stop; {names} are the caveat's numbers.
TEXTS: Mapping[str, str] = {
    "one-boot": "this boot only: one boot in {side}, so boot-to-boot variance cannot be seen",
    "few-runs": "{side} has {n} of the {needed} {units} that an interval needs",
    "failed-runs": "{failed} of {total} runs of {side} failed and are left out",
    "unpaired": "{count} of the runs of {side} are left out: the other side has no run of their "
    "rounds",
    "incomplete": "recording of {side} did not finish: {reason}",
    "emulated": "measured under emulation ({how}): times say nothing about real hardware",
    "blocks": "the sides were recorded one after the other, so drift looks like a change; "
    "`schedperf ab` interleaves them",
    "looks": "{side} was recorded until it was decided, at most {max_runs} runs: p and the test "
    "against the margin are corrected for the looks",
    "history": "{count} earlier recordings tell how much few runs vary",
    "modes": "two modes: {base} runs were in the slower one in base, {new} in {side} "
    "(p = {p:.2g}); within the modes the change is {within}",
    "spread": "{side} is {word} than base by a factor of {factor:.2g} (p = {p:.2g})",
    "serial": "successive runs resemble each other (correlation {correlation:.2g}), "
    "which the interval allows for",
    "ranks-disagree": "the t test (p = {p:.2g}) and the test of ranks (p = {p_rank:.2g}) disagree",
    "coarse": "printed in steps of {step:g} {unit}, {percent:.1f} % of the value",
    "damaged": "{bundle} is damaged and was read as far as possible: {problem}",
    "rebuilt-manifest": "{bundle} has no usable manifest; it was rebuilt from the run.json files",
    "newer-format": "{bundle} has format {found}, newer than {known}: what that added is not read",
    "unlisted-members": "{bundle} holds {count} files that its manifest does not list, "
    "so no checksum guards them; the first is {first}",
    "unfinished-runs": "{count} runs of {bundle} have no run.json and are left out; "
    "the first is {first}",
    "no-host": "{bundle} has no host.json for boot {boot}: nothing is known of its machine",
    "failed-finding": "the finding rule {rule} failed, so what it would say is missing: {problem}",
    "bad-lines": "{count} lines of {label} could not be read; the first: {problem}",
    "claim": "the source claims {claimed}, its own numbers give {actual}",
    "claimed-mean": "the source prints {claimed} as the mean of {side}, its own runs give {actual}",
    "other-commands": "while {side} was sampled, other commands than the workload had "
    "{percent:.0f} % of the busy time ({names}): what its profile says may be theirs",
    "no-number": "{count} runs of {side} printed no number that a benchmark parser or a --metric "
    "rule reads; the first: {first}",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Caveat:
    """One weakness of one result.

    :param code: a key of ``TEXTS``
    :param numbers: what the text names, JSON values only
    """

    derived: ClassVar[tuple[str, ...]] = ("text",)

    code: str
    numbers: Mapping[str, object]

    @property
    def text(self) -> str:
        """Say it in one sentence."""
        return TEXTS[self.code].format(**self.numbers)


def caveat(code: str, **numbers: object) -> Caveat:
    """Make a caveat; an unknown code or a missing number fails here, not in a report."""
    made = Caveat(code=code, numbers=numbers)
    assert made.text
    return made
