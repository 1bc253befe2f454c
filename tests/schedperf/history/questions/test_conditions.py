# SPDX-License-Identifier: GPL-2.0-or-later
"""What changes the conditions of a series is read from bundles, and reaches the watch and show."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._history_text import draw_timeline
from schedperf.history.decide import service_machine
from schedperf.history.periods import Reason
from schedperf.history.questions.history import open_history
from schedperf.history.questions.timeline import Timeline, timeline_of
from schedperf.history.store import apply
from schedperf.history.store.directory import Directory
from tests.histories import MACHINE, add_to, make_recording, night_name

CHANGED, NIGHTS = 12, 16
BROKEN = 1.1
PROGRAM = "hackbench"


def programs(digit: str) -> dict[str, Any]:
    """Return what a manifest says of a program with a hash of this digit."""
    entry = {"name": PROGRAM, "sha256": digit * 64}
    return {"manifest": {"recordings": [{"command": ["ab"], "programs": [entry]}]}}


def write_nights(folder: Path, nights: range, new: float, **chosen: Any) -> Path:
    """Write nights with two boots of both kernels; the reference takes 1 s."""
    for number in nights:
        for side, level in (("base", 1.0), ("new", new)):
            night = night_name(number)
            boots = [[level * (1.0 + 0.001 * ((number * 7 + boot * 3) % 5))] for boot in range(2)]
            name = f"{number}-{side}.tar"
            folder.mkdir(exist_ok=True)
            make_recording(folder / name, night, side, boots, **{"release": side, **chosen})
    return folder


def other_settings(_store: Directory, _monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"host": {"system": {"libc": "glibc 2.40"}}}


def other_program(_store: Directory, _monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return programs("b")


def other_parser(_store: Directory, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(apply, "PARSER", "0.2")
    return {}


def service(store: Directory, _monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    service_machine(store, MACHINE, night_name(CHANGED), reason="new memory", say=pytest.fail)
    return {}


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (other_settings, "environment", "other settings of the machine"),
        (other_program, "workload", "other programs of the workload"),
        (other_parser, "parser", "another version of the parser"),
        (service, "serviced", "the machine was serviced"),
    ],
)
@pytest.mark.parametrize("later", [BROKEN, 1.0], ids=["break", "together"])
def test_other_conditions_break_a_series_unless_both_kernels_moved_together(  # noqa: PLR0917 # fixtures
    change: Callable[[Directory, pytest.MonkeyPatch], dict[str, Any]],
    reason: Reason,
    words: str,
    later: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = write_nights(tmp_path / "before", range(CHANGED), 1.0, **programs("a"))
    store, _ = add_to(tmp_path / "store", before)
    chosen = {**programs("a"), **change(store, monkeypatch)}
    after = write_nights(tmp_path / "after", range(CHANGED, NIGHTS), later, **chosen)
    add_to(store.folder, after)
    timeline = read(store)
    [found] = timeline.changes
    assert [each.reason for each in found.differences] == [reason]
    assert found.is_break is (later == BROKEN)
    assert [night.night for night in timeline.nights if night.position == found.order] == [
        night_name(CHANGED)
    ]
    assert f"baseline period {'begins' if found.is_break else 'goes on'}: {words}" in draw_timeline(
        timeline, NIGHTS
    )


def jobs(own: str, other: str) -> dict[str, Any]:
    """Return what a manifest says of two jobs in each boot, with hashes of their programs."""
    recordings = [
        {"command": ["ab", "--", *words], "programs": [{"name": PROGRAM, "sha256": digit * 64}]}
        for words, digit in (([PROGRAM, "-l", "9"], own), (["schbench"], other))
    ]
    return {"manifest": {"recordings": recordings}, "workload": f"{PROGRAM} -l 9"}


def test_only_the_program_of_its_own_job_changes_a_series(tmp_path: Path) -> None:
    first = write_nights(tmp_path / "1", range(CHANGED), 1.0, **jobs("a", "a"))
    store, _ = add_to(tmp_path / "store", first)
    add_to(store.folder, write_nights(tmp_path / "2", range(CHANGED, 14), 1.0, **jobs("a", "b")))
    assert read(store).changes == ()
    third = write_nights(tmp_path / "3", range(14, 18), BROKEN, **jobs("b", "b"))
    add_to(store.folder, third)
    [found] = read(store).changes
    assert [each.reason for each in found.differences] == ["workload"]


def read(store: Directory) -> Timeline:
    with open_history(store.folder) as history:
        [series] = history.series()
        return timeline_of(history, series)
