# SPDX-License-Identifier: GPL-2.0-or-later
"""What the comparison of one night found in a short series is a suspected step, once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.compare.json import read_comparison
from schedperf.history.decide import decide_step
from schedperf.history.nightly import watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.questions.records import Step
from schedperf.history.retests import Outcome, store_outcome
from schedperf.history.store.directory import Directory
from schedperf.history.store.requests import open_requests
from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison
from tests.histories import add_to, make_night

SLOWER = 0.75


class Nights:
    """A store to which nights are added and watched with their comparisons."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = folder / "store"
        self.directory: Directory

    def add(self, number: int, new: float = 0.6, *, release: str = "6.19.0") -> Comparison:
        """Add a night, whose new kernel has a level; return its comparison."""
        releases = {"base": "6.18.0", "new": release}
        night = make_night(self._folder / "nights", number, new=new, releases=releases)
        self.directory, _ = add_to(self.store, night)
        path = night / "compare.json"
        bundles = [str(night / f"night-{side}.tar") for side in ("base", "new")]
        main(["compare", *bundles, "--json", str(path)])
        return read_comparison(path.read_bytes(), str(path))

    def watch(self, *comparisons: Comparison, acts_on_emulated: bool = False) -> int:
        """Return the number of new steps."""
        found = watch_store(
            self.directory, pytest.fail, comparisons, acts_on_emulated=acts_on_emulated
        )
        return len(found.new)

    def steps(self) -> Sequence[Step]:
        with open_history(self.store) as history:
            return history.steps()

    def requests(self) -> list[tuple[str, str | None, str | None]]:
        with open_history(self.store) as history:
            found = [each.request for each in open_requests(history.database)]
        return [(each.kind, each.reference, each.new) for each in found]


def _emulated(comparison: Comparison, **changed: Any) -> Comparison:
    """Return the comparison as of an emulator, which gives its rows no verdict."""
    rows = tuple(
        replace(
            row,
            family="informational",
            verdict="inconclusive",
            caveats=(*row.caveats, caveat("emulated", how="test")),
            **changed,
        )
        for row in comparison.rows
    )
    return replace(comparison, rows=rows)


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def test_a_regression_of_the_first_night_is_suspected_once(nights: Nights) -> None:
    first = nights.add(0, SLOWER)
    assert nights.watch() == 0
    assert nights.watch(first) == 1
    [step] = nights.steps()
    assert (step.state, step.direction, step.night) == ("suspected", "worse", "2026-06-01")
    assert step.change == pytest.approx(0.25, abs=0.01)
    assert nights.requests() == [("retest", "6.18.0", "6.19.0")]
    assert nights.watch(first, nights.add(1, SLOWER)) == 0
    assert len(nights.requests()) == 1


def test_an_emulated_regression_is_suspected_only_if_asked(nights: Nights) -> None:
    first = _emulated(nights.add(0, SLOWER))
    assert nights.watch(first) == 0
    assert nights.watch(first, acts_on_emulated=True) == 1
    [step] = nights.steps()
    assert (step.state, step.direction) == ("suspected", "worse")
    assert nights.requests() == [("retest", "6.18.0", "6.19.0")]


@pytest.mark.parametrize(
    "changed",
    [
        # Smaller than what a retest reproduces, though significant.
        {"ratio": 1.009, "ci_low": 1.008, "ci_high": 1.010},
        {"ci_low": 0.99},
        {"ci_low": None},
        {"ratio": None},
        {"same_as": "rate"},
    ],
)
def test_emulated_results_are_judged_by_size_and_interval(
    nights: Nights, changed: Mapping[str, object]
) -> None:
    assert nights.watch(_emulated(nights.add(0, SLOWER), **changed), acts_on_emulated=True) == 0


def test_no_change_and_an_improvement_are_not(nights: Nights) -> None:
    same = nights.add(0)
    assert nights.watch(same, nights.add(1, 0.5)) == 0


def test_what_is_not_in_the_store_is_left_out(nights: Nights, tmp_path: Path) -> None:
    foreign = Nights(tmp_path / "elsewhere")
    nights.add(0)
    assert nights.watch(foreign.add(0, SLOWER)) == 0


def test_what_was_not_reproduced_is_suspected_on_another_kernel_a_week_later(
    nights: Nights,
) -> None:
    nights.watch(nights.add(0, SLOWER))
    [step] = nights.steps()
    refuted = Outcome(state="not reproduced", boots=4, reason="retest: futile", numbers={})
    store_outcome(nights.directory, step.id, refuted, pytest.fail)
    assert nights.watch(nights.add(1, SLOWER)) == 0
    assert nights.watch(nights.add(2, SLOWER, release="6.19.1")) == 0
    assert nights.watch(nights.add(7, SLOWER, release="6.19.2")) == 1


def test_what_a_person_has_closed_is_not_suspected_again(nights: Nights) -> None:
    nights.watch(nights.add(0, SLOWER))
    [step] = nights.steps()
    decide_step(
        nights.directory, step.id, "accepted", reason="known", by="a person", say=pytest.fail
    )
    assert nights.watch(nights.add(1, SLOWER)) == 0


@pytest.mark.slow
def test_long_series_are_left_to_the_watch(nights: Nights) -> None:
    for number in range(31):
        nights.add(number)
    nights.watch()
    assert nights.watch(nights.add(31, SLOWER)) == 0


def test_the_command(nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights.add(0, SLOWER)
    path = tmp_path / "nights" / "2026-06-01" / "compare.json"
    words = ["history", "watch", "--store", str(nights.store), "--suspect"]
    capsys.readouterr()
    assert main([*words, str(path), "--act-on-emulated"]) == 1
    assert capsys.readouterr().out.startswith("suspected: hackbench time")
    assert main([*words, str(path)]) == 0
    for content in ("", "{}", "[" * 100_000):
        path.write_text(content)
        assert main([*words, str(path)]) == 2
        assert str(path) in capsys.readouterr().err
