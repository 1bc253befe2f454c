# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.commands._bisect_text: what trials of a named commit have shown."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.commands._bisect_text import describe_document, format_state
from schedperf.inputs.git import Commit
from schedperf.lab.bisect.changes import Change
from schedperf.lab.bisect.document import BisectDocument, Trial
from schedperf.lab.bisect.store import Proving, read_progress
from tests.bisections import named

KERNEL = Commit(hash="ab" * 20, subject="sched: newest")
CHANGE = Change(ratio=1.148, ci_low=1.12, ci_high=1.17, older_boots=4, newer_boots=4)
MEASURED = "+14.8% [+12.0%, +17.0%] (n = 4 + 4 boots), p = 0.001"


def with_trial(**fields: Any) -> BisectDocument:
    """Return a finished search, one trial of whose named commit has these fields."""
    trial = Trial(**{
        "kernel": KERNEL, "feature": None, "change": CHANGE, "p": 0.001, "reason": None, **fields,
    })  # fmt: skip
    document = named()
    return replace(document, named=(replace(document.named[0], trials=(trial,)),))


@pytest.mark.parametrize(
    ("trial", "label", "text"),
    [
        (
            {"kind": "revert", "result": "present"},
            "revert",
            f"on abababababab: removes the change; with the commit: {MEASURED}",
        ),
        (
            {"kind": "revert", "result": "absent"},
            "revert",
            f"on abababababab: does not remove the change; with the commit: {MEASURED}",
        ),
        (
            {
                "kind": "revert", "result": "impossible", "change": None, "p": None,
                "reason": "does not revert: CONFLICT in fair.c",
            },
            "revert",
            "on abababababab: not measured: does not revert: CONFLICT in fair.c",
        ),
        (
            {"kind": "feature", "result": "present", "feature": "PLACE_LAG"},
            "feature switch",
            f"NO_PLACE_LAG: removes the change; with PLACE_LAG: {MEASURED}",
        ),
        (
            {"kind": "alignment", "result": "present"},
            "forced alignment",
            f"does not remove the change; aligned: {MEASURED}",
        ),
        (
            {"kind": "alignment", "result": "absent"},
            "forced alignment",
            f"removes the change; aligned: {MEASURED}",
        ),
        (
            {"kind": "alignment", "result": "undecided"},
            "forced alignment",
            f"undecided; aligned: {MEASURED}",
        ),
    ],
)  # fmt: skip
def test_a_trial_is_one_line(trial: Mapping[str, Any], label: str, text: str) -> None:
    assert (label, text) in list(describe_document(with_trial(**trial)))


def test_the_first_line_says_that_a_change_is_an_artefact_of_the_layout() -> None:
    document = with_trial(kind="alignment", result="absent")
    label, text = next(iter(describe_document(document)))
    assert label == "layout artefact"
    commit = document.named[0].commits[-1]
    assert text.startswith(f"{commit.short}: no change if functions")
    present = with_trial(kind="alignment", result="present")
    assert next(iter(describe_document(present)))[0] == "first bad commit"


def test_the_state_says_what_is_proven() -> None:
    event = Proving(at=1.0, commit=KERNEL.hash, doing="building abababababab")
    state = format_state(named(), read_progress([event]), is_running=True)
    assert "proving abababababab: building abababababab" in state
