"""Which settings of the scheduler differ between two bundles, and what is not known of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle.open import open_bundle
from schedperf.evidence.system.record import SettingRow, SystemMissing
from schedperf.evidence.system.settings import LONGEST_VALUE, MOST_SETTINGS, compare_settings
from schedperf.runs.side import name_sides

NAME = "boots/0/sched_debug/sched_debug.json"
Compared = tuple[list[SettingRow], list[SystemMissing]]
Compare = Callable[..., Compared]


def debug(settings: Mapping[str, str], domains: Mapping[str, str] | None = None) -> Any:
    """Write sched_debug.json; domains: the imbalance_pct of lists of CPUs."""
    record = {
        "source": "/sys/kernel/debug/sched",
        "settings": settings,
        "per_cpu": {
            "domains": [
                {"cpus": cpus, "settings": {"domain0/imbalance_pct": value}}
                for cpus, value in (domains or {}).items()
            ]
        },
        "missing": {},
    }
    return {"files": {NAME: json.dumps(record)}}


@pytest.fixture
def compare(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Compare bundles, each given by what it holds beside its runs."""

    def run(*bundles: Mapping[str, Any]) -> Compared:
        paths = [
            make_bundle(tmp_path / f"{number}.tar", **chosen)
            for number, chosen in enumerate(bundles)
        ]
        return compare_settings(name_sides([open_bundle(path) for path in paths]))

    return run


def test_what_differs_has_both_values_and_what_is_equal_is_not_told(compare: Compare) -> None:
    base = debug({"nr_migrate": "32", "verbose": "N", "old": "1"}, {"0-3": "117"})
    new = debug({"nr_migrate": "8", "verbose": "N"}, {"0-1": "117", "2-3": "110"})
    rows, missing = compare(base, new, base)
    assert rows == [
        SettingRow(
            side="new",
            name="domains/domain0/imbalance_pct",
            base="117",
            new="117 (0-1), 110 (2-3)",
        ),
        SettingRow(side="new", name="nr_migrate", base="32", new="8"),
        SettingRow(side="new", name="old", base="1", new=None),
    ]
    assert missing == []


def test_why_settings_are_not_known_is_said_where_they_were_asked_for(compare: Compare) -> None:
    skipped = {
        "collector": "sched_debug",
        "path": "boots/0/sched_debug",
        "status": "skipped",
        "reason": "/sys/kernel/debug/sched is not there",
    }
    damaged = {"files": {NAME: "{"}}
    rows, missing = compare(damaged, {"captures": [skipped]}, {}, debug({"nr_migrate": "32"}))
    assert rows == []
    assert [(one.side, one.what) for one in missing] == [
        ("base", "sched_debug"),
        ("new", "sched_debug"),
    ]
    assert NAME in missing[0].reason
    assert missing[1].reason == "/sys/kernel/debug/sched is not there"


def test_hostile_settings_are_few_and_short(compare: Compare) -> None:
    many = {f"setting{number:04}": "x" * 4096 for number in range(MOST_SETTINGS + 5)}
    rows, _ = compare(debug({}), debug(many))
    assert len(rows) == MOST_SETTINGS
    assert {len(row.new or "") for row in rows} == {LONGEST_VALUE}
