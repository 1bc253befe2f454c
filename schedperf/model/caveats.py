# SPDX-License-Identifier: GPL-2.0-or-later
"""Define all caveats of results and their texts.

Each limitation of a result is recorded as a :class:`Caveat`, which the terminal, the HTML page, the
mail and the JSON all print.
"""

import re
from collections.abc import Mapping
from string import Formatter
from typing import ClassVar

from msgspec import Struct

from schedperf.model.errors import describe

# Each text is one sentence in lower case without a full stop; {names} are the caveat's numbers.
# {count:run} writes a count with its noun: "1 run", "2 runs".
TEXTS: Mapping[str, str] = {
    "one-boot": "one boot of {side}, so boot-to-boot variance is unknown and the result is valid "
    "for this boot only",
    "boot-sd": "one boot per side, on different boots, so p and the CI include a boot-to-boot "
    "standard deviation of {how}",
    "few-runs": "{side} has {n} of the {needed} {units} needed for a CI",
    "failed-runs": "{failed} of {total:run} of {side} failed; failed runs are excluded",
    "unequal-samples": "runs of {side} have {ratio:.2g} times as many latency samples as those of "
    "base, and a maximum grows with the number of samples; record runs of equal duration",
    "discarded-runs": "{discarded} of {total:run} of {side} discarded: {reason}",
    "mixed-runs": "the runs of {side} were not all made under the same conditions: {what}",
    "partial-scheduler": "{scheduler} of {side} schedules only tasks with the policy SCHED_EXT, so "
    "the workload may have run in the fair class",
    "unpaired": "{count:run} of {side} excluded, because the other run of the pair is missing",
    "incomplete": "the recording of {side} is incomplete: {reason}",
    "emulated": "timings come from an emulator ({how}) and do not predict real hardware",
    "blocks": "the sides were recorded one after the other, so a change may be drift",
    "unbalanced": "the order of the {sides} interleaved sides is not balanced over {rounds:round} "
    "(a multiple of {cycle} is balanced), so drift may affect the sides differently",
    "no-interaction": "the interaction of kernel and setting is not computed, because {base} and "
    "{new} were not recorded in the same boots or rounds of each kernel",
    "looks": "{side} was recorded with --until-decided and at most {max_runs} {units}, so p "
    "and the equivalence test are corrected for group-sequential stopping",
    "retest": "boots of {side} were added until the retested result was decided (looks at {looks} "
    "boots per side, each with its level); p and the equivalence test of the other results are "
    "corrected for group-sequential stopping",
    "history": "the variance estimate uses {count:earlier recording}",
    "two-modes": "two modes, {faster} and {slower}: the {word} one has {base} {units} of base "
    "({base_share:.0%}) and {new} of {side} ({new_share:.0%}), {points:+.0f} percentage points "
    "[{points_low:+.0f}, {points_high:+.0f}], p = {p:.2g}; change within the modes {within}",
    "spread": "{side} is {word} than base by a factor of {factor:.2g} (p = {p:.2g})",
    "serial": "autocorrelated noise (lag-1 correlation {correlation:.2g}); the CI accounts for it",
    "maxima": "base and {side} are medians of the maxima of the runs; the change is the shift of "
    "Hodges and Lehmann with the CI of the rank test",
    "ranks-disagree": "the t test (p = {p:.2g}) and the rank test (p = {p_rank:.2g}) disagree",
    "coarse": "the benchmark prints with a resolution of {step:g} {unit}, {percent:.1f}% of the "
    "value",
    "damaged": "{bundle} is damaged ({problem}); only the readable part was used",
    "rebuilt-manifest": "{bundle} has no usable manifest; the manifest was rebuilt from the "
    "run.json files",
    "newer-format": "{bundle} has format {found}, newer than {known}, so new fields are not read",
    "unlisted-members": "the manifest of {bundle} does not list {count:member} (no checksum to "
    "verify); first: {first}",
    "unfinished-runs": "{count:run} of {bundle} excluded, because run.json is missing; first: "
    "{first}",
    "no-host": "{bundle} has no host.json for boot {boot}, so the machine of this boot is unknown",
    "imported": "{side}: imported from {format}, so these cannot be checked: {missing}",
    "import-note": "{label}: {note}",
    "failed-finding": "the finding rule `{rule}` failed, so its findings are missing ({problem})",
    "bad-lines": "{count:line} of {label} could not be parsed; first: {problem}",
    "work-not-done": "the benchmark did not do its work in {count:run} of {side}; first: {problem}",
    "no-line-end": "line {line} of {path}, the last one, has no end of line, so the file may be "
    "cut: {text}",
    "claim": "the source states a change of {claimed}, but its numbers yield {actual}",
    "claimed-mean": "the source states a mean of {claimed} for {side}, but its runs yield {actual}",
    "other-commands": "background load of {percent:.0f}% of the busy time while {side} was sampled "
    "({names}); the profile counts it as other load",
    "lost-events": "{collector} lost {lost} of {total:event} of {side}, because its maps were full "
    "or the kernel skipped calls, so times or stacks are missing",
    "other-load": "other commands used {base} of CPU time per second on base and {new} on {side}"
    "{names}, which may change the result",
    "left-behind": "the workload of {side} left processes running after {count:run} ({names}); "
    "their CPU time is not measured",
    "output-left-out": "{bytes:byte} in the middle of the output of {count:run} of {side} omitted; "
    "first: {first}",
    "no-number": "{count:run} of {side} printed no number that a benchmark parser or a --metric "
    "rule reads; first: {first}",
}

# Shorter texts for a report of one screen.
SHORT_TEXTS: Mapping[str, str] = {
    "emulated": "timings come from an emulator and do not predict real hardware",
    "spread": "{side} is {word} than base by a factor of {factor:.2g}",
    "unlisted-members": "the manifest of {bundle} does not list {count:member}",
    "unfinished-runs": "{count:run} of {bundle} excluded, because run.json is missing",
    "no-line-end": "line {line} of {path}, the last one, has no end of line, so the file may be "
    "cut",
    "other-commands": "background load of {percent:.0f}% of the busy time while {side} was sampled",
    "left-behind": "the workload of {side} left processes running after {count:run}",
    "output-left-out": "{bytes:byte} of the output of {count:run} of {side} omitted",
    "no-number": "{count:run} of {side} printed no number that a benchmark parser or a --metric "
    "rule reads",
}

# Texts of caveats in comparisons of earlier versions, by the code.
EARLIER_TEXTS: Mapping[str, str] = {
    "modes": "the distribution is bimodal, with {base} runs of base and {new} of {side} in the "
    "slower mode (p = {p:.2g}); within-mode change {within}",
}

# A format spec that is a noun; specs of numbers contain a digit or are one letter.
_NOUN = re.compile("[a-z]{2,}(?: [a-z]+)*")


class _Sentences(Formatter):
    # Formats a count with a noun; all other values as str.format does.

    def format_field(self, value: object, format_spec: str) -> str:
        if isinstance(value, int) and _NOUN.fullmatch(format_spec):
            return f"{value} {format_spec}{'' if value == 1 else 's'}"
        return str(super().format_field(value, format_spec))


_SENTENCES = _Sentences()


def _text_of(code: str) -> str:
    return TEXTS[code] if code in TEXTS else EARLIER_TEXTS[code]


class Caveat(Struct, frozen=True, kw_only=True):
    """One weakness of one result.

    :param code: a key of ``TEXTS`` or ``EARLIER_TEXTS``
    :param numbers: the values in the text, JSON values only
    :raises ValueError: the code is unknown, or a number of the text is missing or invalid
    """

    derived: ClassVar[tuple[str, ...]] = ("text",)

    code: str
    numbers: Mapping[str, object]

    def __post_init__(self) -> None:
        """Reject a caveat without a text when it is made, not when a report prints it."""
        if self.code not in TEXTS and self.code not in EARLIER_TEXTS:
            raise ValueError(f"unknown caveat {self.code!r}")
        try:
            _ = self.text
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"caveat {self.code}: invalid numbers ({describe(error)})") from None

    @property
    def text(self) -> str:
        """Return the caveat as a sentence."""
        return _SENTENCES.vformat(_text_of(self.code), (), self.numbers)

    @property
    def short(self) -> str:
        """Return the caveat as a report of one screen states it."""
        return _SENTENCES.vformat(SHORT_TEXTS.get(self.code, _text_of(self.code)), (), self.numbers)


def caveat(code: str, **numbers: object) -> Caveat:
    """Return a caveat with these values in its text.

    :raises ValueError: as :class:`Caveat`
    """
    return Caveat(code=code, numbers=numbers)
