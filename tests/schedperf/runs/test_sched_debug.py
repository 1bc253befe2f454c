# SPDX-License-Identifier: GPL-2.0-or-later
"""sched_debug.json is read as it is, made comparable, and refused where it is of another form."""

import json
from typing import Any

import pytest

from schedperf.model.errors import InputError
from schedperf.runs.sched_debug import flat_settings, parse_sched_debug

RECORD: dict[str, Any] = {
    "source": "/sys/kernel/debug/sched",
    "settings": {"nr_migrate": "32"},
    "per_cpu": {"domains": [{"cpus": "0-3", "settings": {"domain0/name": "MC"}}]},
    "missing": {"verbose": "empty"},
}


def encode(**changes: Any) -> bytes:
    return json.dumps({**RECORD, **changes}).encode()


def test_all_settings_have_one_name_each() -> None:
    found = parse_sched_debug(encode(), "sched_debug.json")
    assert flat_settings(found) == {"nr_migrate": "32", "domains/domain0/name": "MC"}
    assert found.missing == {"verbose": "empty"}


def test_where_cpus_differ_the_value_says_which_have_which() -> None:
    kinds = [
        {"cpus": cpus, "settings": {"domain0/name": name, "domain0/min_interval": "2"}}
        for cpus, name in (("0-3", "SMT"), ("4", "MC"), ("6-7", "SMT"))
    ]
    found = parse_sched_debug(encode(settings={}, per_cpu={"domains": kinds}), "sched_debug.json")
    assert flat_settings(found) == {
        "domains/domain0/name": "SMT (0-3,6-7), MC (4)",
        "domains/domain0/min_interval": "2",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"nr_migrate": 32}},
        {"settings": {str(number): "1" for number in range(2000)}},
        {"per_cpu": {"domains": [{"cpus": 0, "settings": {}}]}},
        {"per_cpu": {"domains": [{"cpus": "0", "settings": {}}] * 300}},
        {"per_cpu": []},
        {"missing": None},
    ],
)
def test_another_form_is_refused_in_one_line(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="^sched_debug.json") as caught:
        parse_sched_debug(encode(**changes), "sched_debug.json")
    assert "\n" not in str(caught.value)
