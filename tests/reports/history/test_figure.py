# SPDX-License-Identifier: GPL-2.0-or-later
"""The Plotly figure of a series: nights, baseline periods, steps and decisions."""

from pathlib import Path

import pytest

import schedperf
from schedperf.history.questions.history import open_history
from schedperf.history.store.decisions import StepChanged
from schedperf.history.store.directory import Directory
from schedperf.history.store.writer import writing
from schedperf.model.errors import InputError
from tests.histories import add_to, make_night, night_name

NIGHTS, STEP_AT, RENEWED = 12, 4, 8


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Return a store with a step, and later another reference kernel."""
    folder = tmp_path_factory.mktemp("history")
    for number in range(NIGHTS):
        releases = {"base": "6.19" if number >= RENEWED else "6.18", "new": "6.20"}
        new = 0.66 if number >= STEP_AT else 0.6
        make_night(folder / "nights", number, new=new, releases=releases)
    directory, _ = add_to(folder / "store", folder / "nights")
    with open_history(directory.folder) as history:
        [series] = history.series()
        position = history.nights(series)[STEP_AT].position
    step = StepChanged(
        step="s1",
        series=series.key,
        position=position,
        night=night_name(STEP_AT),
        direction="worse",
        state="suspected",
        change=0.1,
        ci_low=0.08,
        ci_high=0.12,
        reason="<b>lasting</b> change",
    )
    with writing(directory, pytest.fail) as writer:
        writer.commit([(step, None)])
    return directory


def test_nights_periods_and_steps_are_drawn(store: Directory) -> None:
    with schedperf.open_history(store.folder) as history:
        figure = schedperf.figure(history, "hackbench")
    nights, marks = figure.data
    assert len(nights.y) == NIGHTS
    assert nights.y[0] == pytest.approx(0.0, abs=0.2)
    assert nights.y[-1] == pytest.approx(10.0, abs=0.2)
    assert night_name(0) in nights.hovertext[0]
    assert [*marks.x] == [RENEWED - 0.5, STEP_AT - 0.5]
    assert "another reference kernel (6.18 to 6.19)" in marks.hovertext[0]
    assert "worse, +10.0% [+8.0%, +12.0%], suspected. " in marks.hovertext[1]
    assert "suspected: &lt;b&gt;lasting&lt;/b&gt; change" in marks.hovertext[1]
    periods = [(each.x0, each.x1) for each in figure.layout.shapes if each.yref == "paper"]
    assert periods == [(RENEWED - 0.5, NIGHTS - 0.5)]
    [words] = [each.text for each in figure.layout.annotations]
    assert words == "+10.0%"


def test_an_unknown_series_is_refused(store: Directory) -> None:
    with (
        schedperf.open_history(store.folder) as history,
        pytest.raises(InputError, match="no such series"),
    ):
        schedperf.figure(history, "sysbench")


def test_values_without_reference_have_their_unit(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("series,order,value,unit\nboot,1,1.5,s\nboot,2,,s\nboot,3,1.6,s\nlost,1,,s\n")
    store, _ = add_to(tmp_path / "store", table)
    with schedperf.open_history(store.folder) as history:
        figure = schedperf.figure(history, "boot")
        assert [*figure.data[0].y] == [pytest.approx(1.5), None, pytest.approx(1.6)]
        assert figure.layout.yaxis.title.text == "s"
        with pytest.raises(InputError, match="no night with a value"):
            schedperf.figure(history, "lost")
