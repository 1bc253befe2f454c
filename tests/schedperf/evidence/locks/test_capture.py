# SPDX-License-Identifier: GPL-2.0-or-later
"""Only a valid locks.json is read, and locks have the names that perf lock contention gives."""

import json
from typing import Any

import pytest

from schedperf.evidence.locks.capture import (
    Lock,
    LocksCapture,
    Owner,
    functions_of,
    parse_locks,
    type_of,
)
from schedperf.model.errors import BundleError
from schedperf.runs.stacks import Frame
from tests.stack_documents import locks_document

DOCUMENT = locks_document(9)
ROW = DOCUMENT["rows"][0]


def parse(document: Any) -> LocksCapture:
    return parse_locks(json.dumps(document).encode(), "locks.json")


def test_locks_are_named_by_symbol_class_or_caller() -> None:
    found = parse({**DOCUMENT, "lost": {"full": 0, "calls": 3}})
    assert [wait.lock for wait in found.waits] == [
        Lock("fdget_pos", "caller", "mutex"),
        Lock("rq->__lock", "class", "spinlock"),
        Lock("mmap_lock", "class", "rwsem write"),
        Lock("tasklist_lock", "symbol", "rwlock read"),
    ]
    assert found.waits[0].functions[:2] == ("fdget_pos", "ksys_read")
    assert found.waits[0].durations.count == 100
    assert [wait.owner for wait in found.waits] == [Owner("reader", "ksys_read"), None, None, None]
    assert found.lost == {"calls": 3}


def test_a_wait_without_a_stack_has_an_unknown_lock() -> None:
    [wait] = parse({**DOCUMENT, "rows": [{**ROW, "stack": None}]}).waits
    assert (wait.lock.name, wait.functions) == ("unknown", ())


def test_an_owner_without_a_stack_has_an_unknown_function() -> None:
    [wait] = parse({**DOCUMENT, "rows": [{**ROW, "owner_stack": None}]}).waits
    assert wait.owner == Owner("reader", "unknown")
    [of_waking] = parse({**DOCUMENT, "frames": [["wake_up_q", None]] * 99, "rows": [ROW]}).waits
    assert of_waking.owner == Owner("reader", "unknown")


def test_a_document_without_owners_has_none() -> None:
    row = {name: value for name, value in ROW.items() if not name.startswith("owner")}
    assert parse({**DOCUMENT, "rows": [row]}).waits[0].owner is None


def test_a_stack_of_lock_functions_only_is_kept() -> None:
    assert functions_of((Frame("__mutex_lock", None), Frame(None, None)))[0] == "unknown"
    assert functions_of((Frame("down_read", None),)) == ("down_read",)


@pytest.mark.parametrize("flags", range(64))
def test_every_combination_of_flags_has_a_type(flags: int) -> None:
    assert type_of(flags)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema": "schedperf/bpf_locks/2"}, "schema"),
        ({"seconds": 0}, "seconds"),
        ({"rows": {}}, "rows"),
        ({"rows": [{**ROW, "stack": 99}]}, "unknown stack"),
        ({"rows": [{**ROW, "stack": -1}]}, "stack"),
        ({"rows": [{**ROW, "owner_stack": 99}]}, "unknown stack"),
        ({"rows": [{**ROW, "owner": 7}]}, "owner"),
        ({"rows": [{**ROW, "flags": 64}]}, "flags"),
        ({"rows": [{**ROW, "node": 1 << 20}]}, "node"),
        ({"rows": [{**ROW, "bins": [[256, 1]]}]}, "bins"),
        ({"rows": [{**ROW, "count": -1}]}, "count"),
        ({"rows": [{**ROW, "ns": 1e99}]}, "ns"),
        ({"stacks": [[0, 99]]}, "unknown frame"),
        ({"frames": [["f" * 5000, None]], "stacks": []}, "frames"),
        ({"lost": {"x": -1}}, "lost"),
    ],
)
def test_what_is_invalid_is_one_error_that_names_the_field(
    changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BundleError, match=problem) as refused:
        parse({**DOCUMENT, **changed})
    assert str(refused.value).startswith("locks.json: ")
    assert "\n" not in str(refused.value)


def test_a_truncated_file_is_an_error() -> None:
    with pytest.raises(BundleError):
        parse_locks(json.dumps(DOCUMENT).encode()[:-30], "locks.json")
    with pytest.raises(BundleError):
        parse_locks(b"", "locks.json")
