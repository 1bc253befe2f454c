# SPDX-License-Identifier: GPL-2.0-or-later
"""Sentences use the words of the field: no phrase of the private dialect that they replaced."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
# Where people read: the product, its documents, what sets it up.
TEXTS = (
    "schedperf/**/*.py",
    "reports/**/*.py",
    "collectors/**/*.py",
    "generators/**/*.py",
    "templates/**/*.j2",
    "templates/**/*.js",
    "templates/**/*.py",
    "docs/*.md",
    "examples/**/*.md",
    "bench/*/*.md",
    "scripts/*",
    "*.md",
    "Makefile",
    "pyproject.toml",
)

# What is refused, as a regular expression, and what to write instead.
REFUSED = {
    r"is undecided against": "inconclusive: REASON",
    r"deciding nothing|decides nothing": "not used for the verdict",
    r"whatever it costs": "other significant changes",
    r"goes? with the change": "correlated with the change; causation not shown",
    r"none is shown to be its cause": "causation not shown",
    r"nothing is coloured": "frames are not coloured",
    r"say what fails": "print failures, reasons and fixes",
    r"; its first\b(?! [a-z])": "[default: the first side]",
    r"are of commands that are not the workload": "samples of other processes",
    r"shown beside each other": "other rows list both values",
    r"which edit did it": "which edit moved them",
    r"ends it when it hangs": "kills it on hang",
    r"nobody (says|knows|gave|can)": "not recorded, unknown",
    r"so few say little": "too few to estimate boot-to-boot variance",
    r"nothing is known that weakens": "no caveats",
    r"not taken off": "not subtracted",
    r"told apart": "distinguished",
    r"less telling": "not significant",
    r"beyond noise|within noise": "significant, not significant",
    r"cache line mates?|line mates?": "variables on the same cache line",
    r"\(unless said\)|unless told": "[default: text]",
    r"what mends it": "fixes",
    r"(?<![Tt]here )\bis no (?!longer|more\b|less\b|\w+er than)": "invalid, unknown",
    r"know of each other": "multiple-testing correction",
    r"made firmer": "variance shrinkage",
    r"wanders|neighbours in time": "autocorrelated noise",
    r"while they are made": "group-sequential stopping",
    r"time stands between": "recorded one after the other",
    r"findings are told|told as one story": "ranked, merged into one finding",
    r"what compares is compared": "comparable rows get a change",
    r"was seen\b(?=.{0,20}\bfunction)|each function was seen": "which probe observed",
    r"in vain": "the mechanisms that failed",
    r"of strangers|strangers' ": "untrusted",
    r"slip of the pen": "mistyped",
    r"hears what": "monitors",
    r"keeps its promises": "plugin discovery and layering",
    r"\bA base\b|\bB new\b": "base, new",
    r"\?\+\?": "n unknown",
    r"\b[v^] (s|ms|us|ns)\b": "s (lower is better)",
    r"\b(a|per) side would settle": "per side would decide",
    r"\d (runs|boots) a side": "runs per side",
    r"(?<=[\d}]) %(?=[\s.,;:)\]\"'`]|$)": "no blank before the percent sign",
    r"95% interval": "95% CI",
    r"load-average updates|updates of load averages": "PELT updates",
    r"blind to\b": "cannot see",
    r"could not be seen": "not measured",
    r"took turns|take turns|in turns\b": "interleaved",
    r"\bkits?\b": "helpers",
    r"\b(the|a|each|one|this) (room|floor)s?\b(?! of)": "package, layer",
    r"\b(the|each|one|this) walks?\b": "import path",
}


def texts() -> Iterator[Path]:
    """Yield the files that people read."""
    for pattern in TEXTS:
        for path in sorted(REPOSITORY.glob(pattern)):
            if path.is_file() and not {".venv", "node_modules"} & set(path.parts):
                yield path


@pytest.mark.parametrize("phrase", REFUSED)
def test_no_text_says(phrase: str) -> None:
    refused = re.compile(phrase)
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if refused.search(line)
    ]
    assert not found, f"write {REFUSED[phrase]!r} instead:\n" + "\n".join(found)
