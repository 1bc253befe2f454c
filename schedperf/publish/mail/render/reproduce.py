# SPDX-License-Identifier: GPL-2.0-or-later
"""Render how to measure a regression again, and find the commands that a mail prints."""

import shlex
from collections.abc import Iterator, Sequence

from schedperf.model.rows import Row
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import COMMIT_DIGITS
from schedperf.publish.culprit.workloads import Command, command_of
from schedperf.publish.mail.plain import INDENT, PROSE_COLUMNS, cut, spell, wrap
from schedperf.publish.mail.render.replicates import Replicates, replicates_of
from schedperf_collectors.contract import format_template
from schedperf_reports.words.rows import count_of

_LONGEST_COMMAND = 240
_LONGEST_NAME = 60
_TIMES = {1: "once", 2: "twice"}
_PROGRAM = "schedperf"


def reproduce(evidence: Evidence) -> list[str]:
    """Return the lines that say how to measure the regression that decided again.

    A result that was imported has no command: the lines name the tool that ran it. Nor has one
    whose command is too long for a mail, or not recorded.

    :raises InputError: a text is not ASCII
    """
    row = evidence.headline()
    command, known = command_of(row), replicates_of(row)
    side = evidence.side(evidence.culprit.main)
    if side.imported is not None:
        return _imported(side.imported, command, evidence)
    line = spell(command.line, where="workload")
    longest = max(map(len, command.words), default=0)
    if not line or len(line) > _LONGEST_COMMAND or longest > _LONGEST_NAME:
        why = "is not recorded" if not line else "is too long for a mail; the report has it"
        rest = _rest(command)
        return wrap(
            f"Reproduce{_effort(evidence, row)}: {_boots(evidence, known)} run the same "
            f"benchmark{rest}. Its command {why}."
        )
    lines = wrap(
        f"Reproduce{_effort(evidence, row)}: {_boots(evidence, known)} "
        f"run{_often(known)}{_rest(command)}:"
    )
    lines += _break(_pairs(shlex.split(line)))
    # Of others' results, only the name of the benchmark may be known.
    if any(each.host for each in evidence.main_sides):
        lines += ["With schedperf, both kernels installed on HOST:", *_ab(command, known)]
        lines += ["Results of another machine: docs/for-reporters.md of schedperf."]
    return lines


def printed_commands(body: str) -> Iterator[str]:
    """Yield the commands of schedperf that a mail prints, each as one line."""
    begun = ""
    for line in body.splitlines():
        text = line.strip()
        if not begun and not line.startswith(f"{INDENT}{_PROGRAM} "):
            continue
        begun += text.removesuffix("\\")
        if not text.endswith("\\"):
            yield begun
            begun = ""


def _imported(tool: str, command: Command, evidence: Evidence) -> list[str]:
    name = cut(spell(tool, where="format"), _LONGEST_NAME)
    what = cut(spell(" ".join(command.shown), where="workload"), _LONGEST_NAME) or "unknown"
    good, bad = evidence.culprit.good.commit[:COMMIT_DIGITS], evidence.culprit.id
    return wrap(
        f"{name} ran this benchmark, and schedperf imported the results: {what}. Reproduce: run "
        f"that configuration of {name} on {good} and on {bad}, on several boots each."
    )


def _effort(evidence: Evidence, row: Row) -> str:
    """Return how long the recording took: `` (about 12 minutes)``; "" unless all parts are known.

    Of a recording of several benchmarks, only the parts of this one count.
    """
    recordings = [each for side in evidence.main.sides for each in side.recordings]
    own = [each for each in recordings if _workload_of(each.command) == row.workload]
    minutes = [each.minutes for each in own or recordings]
    known = [each for each in minutes if each is not None]
    if not known or len(known) < len(minutes):
        return ""
    return f" (about {count_of(max(round(sum(known)), 1), 'minute')})"


def _workload_of(command: Sequence[str]) -> str:
    """Return the workload of a command that recorded, as rows name it."""
    return format_template(command[[*command, "--"].index("--") + 1 :])


def _boots(evidence: Evidence, known: Replicates) -> str:
    good, bad = evidence.culprit.good.commit[:COMMIT_DIGITS], evidence.culprit.id
    times = f", {known.boots} times each," if known.boots else ""
    return f"boot {good} and {bad} in turn{times} and on each boot"


def _often(known: Replicates) -> str:
    if known.runs is None:
        return ""
    return f" {_TIMES.get(known.runs, f'{known.runs} times')}"


def _rest(command: Command) -> str:
    rest = cut(spell(", ".join(command.rest), where="point"), _LONGEST_NAME)
    return f" ({rest})" if rest else ""


def _ab(command: Command, known: Replicates) -> list[str]:
    """Return the lines of the command of schedperf, which break between options only."""
    counts = [["--boots", f"{known.boots}"]] if known.boots else []
    counts += [["-n", f"{known.runs}"]] if known.runs else []
    template = spell(command.template, where="workload")
    first, *rest = _pairs(shlex.split(template))
    return _break(
        [
            [_PROGRAM, "ab"],
            ["-o", "check"],
            ["--on", "ssh:HOST"],
            ["--kernel", "base=RELEASE"],
            ["--kernel", "new=RELEASE"],
            *counts,
            ["--", *first],
            *rest,
        ]
    )


def _pairs(words: Sequence[str]) -> list[list[str]]:
    """Return the words of a command, those of an option and its value together."""
    pairs: list[list[str]] = []
    for word in words:
        is_value = bool(pairs) and pairs[-1][0].startswith("-") and len(pairs[-1]) == 1
        if is_value and not word.startswith("-"):
            pairs[-1].append(word)
        else:
            pairs.append([word])
    return pairs


def _break(parts: Sequence[Sequence[str]]) -> list[str]:
    """Break a command into lines, of which all but the last one end with a backslash.

    :param parts: words that stay on one line
    """
    texts = [shlex.join(part) for part in parts]
    lines = [f"{INDENT}{texts[0]}"]
    for text in texts[1:]:
        if len(lines[-1]) + len(text) + len("  \\") > PROSE_COLUMNS:
            lines.append(f"{INDENT * 3}{text}")
        else:
            lines[-1] += f" {text}"
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]
