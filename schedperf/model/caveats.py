# SPDX-License-Identifier: GPL-2.0-or-later
"""Every caveat that a result can carry, and its text, in one place.

A result is never silently weak: what limits it travels with it as a
:class:`Caveat`, into the terminal, the HTML page, the mail and the JSON alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

# One sentence each, lower case, no full stop; {names} are the caveat's numbers.
TEXTS: Mapping[str, str] = {
    "one-boot": "one boot of {side}, so boot-to-boot variance is unknown: valid for this boot only",
    "few-runs": "{side} has {n} of the {needed} {units} needed for a CI",
    "failed-runs": "{failed} of {total} runs of {side} failed and are left out",
    "unpaired": "{count} runs of {side} are left out: the other run of their pair is missing",
    "incomplete": "the recording of {side} is incomplete: {reason}",
    "emulated": "timings come from an emulator ({how}) and do not predict real hardware",
    "blocks": "the sides were recorded one after the other, so drift confounds the comparison; "
    "`schedperf ab` interleaves them",
    "looks": "{side} was recorded until a decision, with at most {max_runs} runs: p and the "
    "equivalence test are corrected for group-sequential stopping",
    "history": "the variance estimate uses {count} earlier recordings",
    "modes": "bimodal: {base} runs of base and {new} of {side} were in the slower mode "
    "(p = {p:.2g}); within-mode change {within}",
    "spread": "{side} is {word} than base by a factor of {factor:.2g} (p = {p:.2g})",
    "serial": "autocorrelated noise (lag-1 correlation {correlation:.2g}); the CI accounts for it",
    "ranks-disagree": "the t test (p = {p:.2g}) and the rank test (p = {p_rank:.2g}) disagree",
    "coarse": "the benchmark prints steps of {step:g} {unit}, {percent:.1f}% of the value",
    "damaged": "{bundle} is damaged; the readable part was used: {problem}",
    "rebuilt-manifest": "{bundle} has no usable manifest; it was rebuilt from the run.json files",
    "newer-format": "{bundle} has format {found}, newer than {known}: new fields are not read",
    "unlisted-members": "{bundle} holds {count} files that its manifest does not list, "
    "so they have no checksum; first: {first}",
    "unfinished-runs": "{count} runs of {bundle} have no run.json and are left out; first: {first}",
    "no-host": "{bundle} has no host.json for boot {boot}: its machine is unknown",
    "failed-finding": "the finding rule {rule} failed, so its findings are missing: {problem}",
    "bad-lines": "{count} lines of {label} could not be parsed; first: {problem}",
    "claim": "the source states {claimed}, its own numbers give {actual}",
    "claimed-mean": "the source states a mean of {claimed} for {side}, its own runs give {actual}",
    "other-commands": "background load of {percent:.0f}% of the busy time while {side} was sampled "
    "({names}); the profile includes it",
    "no-number": "{count} runs of {side} printed no number that a benchmark parser or a --metric "
    "rule reads; first: {first}",
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
