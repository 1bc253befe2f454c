# SPDX-License-Identifier: GPL-2.0-or-later
"""The last nights of all series at once: the numbers are those of one series and one night."""

import math
from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.questions.noise import noise_of
from schedperf.history.questions.open_steps import describe_open
from schedperf.history.questions.recent import read_nights, read_recent
from schedperf.stats.welch import welch_of_variances
from tests.histories import add_to
from tests.labs import Shape, make_lab, night_of


def test_noise_and_intervals_are_those_of_one_series(tmp_path: Path) -> None:
    make_lab(tmp_path / "history", Shape(machines=2, results=2, nights=45, step=36, dead=44))
    with open_history(tmp_path / "history") as history:
        found = read_recent(history)
        for recent in found:
            nights = history.nights(recent.series)
            noise = noise_of(recent.series, nights)
            names = ("sd_nights", "sd_boots", "seen_in_one_night", "seen_in_seven_nights")
            for name in names:
                assert getattr(recent, name) == pytest.approx(getattr(noise, name), rel=1e-12)
            night, result = nights[20], recent.nights[20]
            assert night.new is not None
            assert night.reference is not None
            exact = welch_of_variances(
                math.log(night.new / night.reference), [0.004**2, 0.004**2], [4, 4]
            )
            assert exact.ci_low is not None
            assert result.change == pytest.approx(night.new / night.reference - 1.0)
            assert result.low == pytest.approx(math.expm1(exact.ci_low))
        # The dead machine has a night without a result, with the reason.
        lost = [each.last for each in found if each.last.verdict == "lost"]
        assert [each.reason for each in lost] == ["no result: did not boot"] * 2
        assert {each.nights[40].verdict for each in found} == {"worse", "no change"}
        rows = read_nights(history, [night_of(20)])[night_of(20)]
        assert [each.result for each in rows] == [each.nights[20] for each in found]


def test_series_without_references_dates_or_logarithms(tmp_path: Path) -> None:
    table = tmp_path / "boot.csv"
    lines = ["series,order,value,ref,unit,better"]
    lines += [f"plain,{each},{1.5 + each % 3 / 100},,s,lower" for each in range(12)]
    lines += [f"linear,{each},{each % 3 - 1},0.0,s,lower" for each in range(12)]
    lines += ["lost,1,,,s,lower"]
    table.write_text("\n".join(lines) + "\n")
    add_to(tmp_path / "history", table)
    with open_history(tmp_path / "history") as history:
        found = {each.series.metric: each for each in read_recent(history)}
        plain, linear = found["plain"], found["linear"]
        assert (plain.is_paired, plain.is_log, plain.last.change) == (False, True, 1.52)
        assert (linear.is_paired, linear.is_log, linear.last.change) == (True, False, 1.0)
        assert plain.last.verdict == linear.last.verdict == "unclear"
        assert found["lost"].sd_nights is None
        assert linear.sd_nights == pytest.approx(
            noise_of(linear.series, history.nights(linear.series)).sd_nights
        )
        assert describe_open(history) == ()


def test_an_open_step_is_described_on_all_machines(tmp_path: Path) -> None:
    make_lab(tmp_path / "history", Shape(machines=2, results=2, nights=50, step=40))
    with open_history(tmp_path / "history") as history:
        opened = describe_open(history)
    assert len(opened) == 2
    for each in opened:
        assert each.nights == 10
        assert each.now.change == pytest.approx(0.06, abs=0.01)
        assert [one.answer for one in each.machines] == ["yes", "yes"]
        assert each.machines[0].series == each.found.series
