# SPDX-License-Identifier: GPL-2.0-or-later
"""Only a valid preemption.json is read; all others are one error that names the field."""

import json
from typing import Any

import pytest

from schedperf.evidence.preemption.capture import PreemptionCapture, parse_preemption
from schedperf.model.errors import BundleError
from tests.stack_documents import preemption_document

DOCUMENT = preemption_document(9)
ROW = DOCUMENT["rows"][0]


def parse(document: Any) -> PreemptionCapture:
    return parse_preemption(json.dumps(document).encode(), "preemption.json")


def test_what_the_collector_wrote_is_read() -> None:
    found = parse(DOCUMENT)
    assert found.model == "full"
    assert [pause.who for pause in found.off_cpu.pauses] == [
        "postgres", "postgres", "kworker/0:1", "postgres",
    ]  # fmt: skip
    assert found.off_cpu.pauses[3].user is None
    assert found.off_cpu.pauses[0].slice_left_ns == 40 * 500_000


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema": "schedperf/bpf_blocking/1"}, "schema"),
        ({"model": "x" * 40}, "model"),
        ({"rows": [{**ROW, "user": 99}]}, "unknown stack"),
        ({"rows": [{**ROW, "kernel": -1}]}, "kernel"),
        ({"rows": [{**ROW, "call": -2}]}, "call"),
        ({"rows": [{**ROW, "who": "x" * 65}]}, "who"),
        ({"rows": [{**ROW, "slice_left_ns": "1"}]}, "slice_left_ns"),
        ({"stacks": [[1 << 40]]}, "unknown frame"),
        ({"shorter": None}, "shorter"),
        ({"least_ns": -1}, "least_ns"),
    ],
)
def test_what_is_invalid_is_one_error_that_names_the_field(
    changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BundleError, match=problem) as refused:
        parse({**DOCUMENT, **changed})
    assert "\n" not in str(refused.value)
