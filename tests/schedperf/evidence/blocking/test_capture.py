# SPDX-License-Identifier: GPL-2.0-or-later
"""Only a valid blocking.json is read; all others are one error that names the field."""

import json
from typing import Any

import pytest

from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.model.errors import BundleError
from schedperf.runs.off_cpu import OffCpu
from tests.stack_documents import blocking_document

DOCUMENT = blocking_document(90)
ROW = DOCUMENT["rows"][0]


def parse(document: Any) -> OffCpu:
    return parse_blocking(json.dumps(document).encode(), "blocking.json")


def test_what_the_collector_wrote_is_read() -> None:
    found = parse(DOCUMENT)
    assert [pause.who for pause in found.pauses] == ["writer", "postgres", None]
    assert (found.shorter, found.shorter_ns, found.least_ns) == (7, 4000, 1000)


def test_no_time_after_the_wakeup_exceeds_the_whole() -> None:
    [pause] = parse({**DOCUMENT, "rows": [{**ROW, "runnable_ns": 1 << 60}]}).pauses
    assert pause.runnable_ns == pause.durations.ns


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema": "schedperf/bpf_preemption/1"}, "schema"),
        ({"rows": [{**ROW, "user": 99}]}, "unknown stack"),
        ({"rows": [{**ROW, "runnable_ns": -1}]}, "runnable_ns"),
        ({"rows": [{**ROW, "bins": [[0, -1]]}]}, "bins"),
        ({"shorter": {"count": 1}}, "shorter"),
        ({"frames": [[1, None]]}, "frames"),
        ({"notes": {}}, "notes"),
        ({"costs": {"sched_switch": {"calls": -1, "ns": 0}}}, "calls"),
        ({"costs": {"x" * 5000: {"calls": 1, "ns": 0}}}, "costs"),
    ],
)
def test_what_is_invalid_is_one_error_that_names_the_field(
    changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BundleError, match=problem) as refused:
        parse({**DOCUMENT, **changed})
    assert "\n" not in str(refused.value)
