"""schedperf.runs.host: facts of a foreign host.json, and None for what it does not hold."""

from typing import Any

import pytest

from schedperf.runs.host import build_of_host, line_bytes_of_host, machine_facts, nodes_of_host


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (
            {"kernel": {"machine": "x86_64"}, "virtualisation": {"emulated": False}},
            ("x86_64", False),
        ),
        ({"kernel": [], "virtualisation": {"emulated": "no"}}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_facts_of_the_machine_are_read_or_unknown(host: dict[str, Any], expected: Any) -> None:
    assert machine_facts(host) == expected


@pytest.mark.parametrize("host", [{}, {"kernel": None}, {"kernel": {"build_id": 7}, "cpu": "x"}])
def test_what_host_json_does_not_hold_is_none(host: dict[str, object]) -> None:
    assert build_of_host(host) is None
    assert line_bytes_of_host(host) is None
    assert nodes_of_host(host) == {}


def test_facts_of_one_host() -> None:
    host: dict[str, object] = {
        "kernel": {"build_id": "3f1c5a"},
        "cpu": {"l1_line_bytes": 128},
        "topology": {"cpus": [{"cpu": 3, "node": 1}, {"cpu": "4", "node": 1}, "x"]},
    }
    assert build_of_host(host) == "3f1c5a"
    assert line_bytes_of_host(host) == 128
    assert nodes_of_host(host) == {3: 1}
