# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions of a lab, answered from nights with planted changes."""

import math
from pathlib import Path

import pytest

from schedperf.history.questions.change import compare_times
from schedperf.history.questions.export import export_parquet
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.listing import list_series
from schedperf.history.questions.noise import noise_of, rank_noise, sd_between_nights
from schedperf.history.questions.records import Analysed
from schedperf.history.questions.timeline import timeline_of
from schedperf.history.store.decisions import StepChanged
from schedperf.history.store.directory import open_directory
from schedperf.history.store.writer import rebuild, writing
from schedperf.model.errors import InputError
from tests.histories import add_to, dump, make_night, night_name

NIGHTS = 20
STEP_AT = 10


def silent(_line: str) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which the new kernel is 10% slower from the 11th night on.

    The machine is 30% slower from the 6th night on, for both kernels.
    """
    root = tmp_path_factory.mktemp("history")
    for number in range(NIGHTS):
        machine = 1.3 if number >= 5 else 1.0
        kernel = 1.1 if number >= STEP_AT else 1.0
        make_night(root / "nights", number, base=0.5 * machine, new=0.5 * machine * kernel)
    return add_to(root / "store", root / "nights")[0].folder


@pytest.fixture
def history(folder: Path) -> History:
    return open_history(folder)


def test_the_change_of_new_to_reference_does_not_see_the_machine(history: History) -> None:
    [change] = compare_times(history, night_name(STEP_AT - 1), night_name(NIGHTS)).changes
    assert change.change is not None
    assert change.ci_low is not None
    assert change.ci_high is not None
    assert 0.095 < change.ci_low < change.change < change.ci_high < 0.105
    assert (change.nights_before, change.nights_after) == (7, 7)
    assert change.word == "worse"


def test_a_change_is_not_stated_without_nights_at_both_dates(history: History) -> None:
    [change] = compare_times(history, "2026-01-01", night_name(NIGHTS)).changes
    assert change.change is None
    assert change.why == "no night in the 31 days before the first date"
    [change] = compare_times(history, night_name(10), night_name(11), 7).changes
    assert change.why == "the same nights are before both dates"


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (("soon", "2026-06-01"), "soon: invalid date"),
        (("2026-06-01", "2026-06-01"), "not after 2026-06-01"),
        (("0d", None), "not before the last night"),
        (("d", None), "d: invalid date"),
        (("9" * 5000 + "d", None), "invalid date"),
        (("\u0663d", None), "invalid date"),
        (("yesterday", "30d"), "not after yesterday"),
    ],
)
def test_invalid_dates_are_refused(
    dates: tuple[str, str | None], message: str, history: History
) -> None:
    with pytest.raises(InputError, match=message):
        compare_times(history, *dates)


def test_dates_may_count_from_the_last_night(history: History) -> None:
    found = compare_times(history, "yesterday")
    assert (found.before, found.after) == (night_name(NIGHTS - 2), night_name(NIGHTS - 1))
    [change] = found.changes
    assert (change.nights_before, change.nights_after) == (1, 1)
    assert change.word == "no significant change"
    assert (change.p or 0.0) > 0.05
    found = compare_times(history, "12d")
    assert found.before == night_name(NIGHTS - 13)
    assert found.changes[0].word == "worse"


def test_one_night_is_compared_with_the_error_of_the_nights_before(tmp_path: Path) -> None:
    lines = [
        f"boot,{night_name(number)},{(1.1 if number == 19 else 1.0) + number % 3 / 1000},1.0,lower"
        for number in range(NIGHTS)
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["series,time,value,ref,better", *lines]))
    store, _ = add_to(tmp_path / "store", table)
    with open_history(store.folder) as history:
        [change] = compare_times(history, "yesterday").changes
        assert change.word == "worse"
        assert change.ci_low is not None
        assert change.ci_high is not None
        assert 0.09 < change.ci_low < 0.1 < change.ci_high < 0.11
        [change] = compare_times(history, night_name(2), night_name(3)).changes
    assert change.why == "too few nights (expected 2 of each time, or 8 before)"


def test_the_reference_is_compared_with_itself(history: History) -> None:
    dates = night_name(4), night_name(NIGHTS - 1)
    [change] = compare_times(history, *dates, of_reference=True).changes
    assert change.change == pytest.approx(0.3, abs=0.005)
    assert change.word == "worse"


def test_dates_without_nights_of_a_date_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("series,order,value\nboot,1,1.5\n")
    store, _ = add_to(tmp_path / "store", table)
    with open_history(store.folder) as history:
        for day in ("30d", "2026-06-01"):
            with pytest.raises(InputError, match="no night of the history has a date"):
                compare_times(history, day)


def test_a_renewed_reference_is_not_compared(tmp_path: Path) -> None:
    for number in range(6):
        release = "6.18.0" if number < 3 else "6.19.0"
        releases = {"base": release, "new": "6.20.0"}
        make_night(tmp_path / "nights", number, releases=releases)
    store, _ = add_to(tmp_path / "store", tmp_path / "nights")
    with open_history(store.folder) as history:
        [change] = compare_times(history, night_name(2), night_name(5), nights=3).changes
    assert change.why == "the reference kernel was renewed without a chain night"


def test_the_list_shows_the_change_now_and_what_a_night_shows(history: History) -> None:
    [listed] = list_series(history)
    assert (listed.first, listed.last) == (night_name(0), night_name(NIGHTS - 1))
    assert listed.now == pytest.approx(0.1, abs=0.005)
    assert listed.noise.nights == NIGHTS
    assert len(listed.recent) == 14
    one, seven = listed.noise.seen_in_one_night, listed.noise.seen_in_seven_nights
    assert one is not None
    assert seven is not None
    assert 0.0 < seven < one
    assert listed.step is None


def test_the_noise_between_nights_is_not_that_of_a_step() -> None:
    quiet = [0.0, 0.01] * 20
    stepped = [value + 1.0 * (index >= 20) for index, value in enumerate(quiet)]
    sd, stepped_sd = sd_between_nights(quiet), sd_between_nights(stepped)
    assert sd == pytest.approx(0.01 / math.sqrt(2.0))
    assert stepped_sd is not None
    # The sd of all values would be 0.5.
    assert stepped_sd < 0.009
    assert sd_between_nights([0.0] * 7) is None
    assert sd_between_nights([0.0] * 8) == 0.0


def test_nights_of_one_kernel_on_both_sides_are_a_a(tmp_path: Path) -> None:
    releases = {"base": "6.18.0", "new": "6.18.0"}
    make_night(tmp_path / "nights", 0, releases=releases)
    make_night(tmp_path / "nights", 1, releases=releases, new=0.9)
    make_night(tmp_path / "nights", 2)
    store, _ = add_to(tmp_path / "store", tmp_path / "nights")
    with open_history(store.folder) as history:
        [noise] = rank_noise(history)
    assert (noise.aa_nights, noise.aa_differ) == (2, 1)


def test_a_series_is_found_by_key_name_and_part(history: History) -> None:
    [series] = history.series()
    for name in (series.key, series.key[:4], series.name, "hackb"):
        assert history.find(name) == series
    with pytest.raises(InputError, match="no such series"):
        history.find("sysbench")


def test_a_timeline_begins_at_a_date(history: History) -> None:
    [series] = history.series()
    timeline = timeline_of(history, series, night_name(15))
    assert [night.night for night in timeline.nights] == [night_name(n) for n in range(15, 20)]
    assert len(timeline.analysed.values) == 5
    assert timeline.noise == noise_of(series, history.nights(series))
    assert timeline.steps == ()


def test_the_frame_has_a_row_per_night(history: History) -> None:
    frame = history.frame()
    assert len(frame) == NIGHTS
    assert frame["new"].dtype == float
    assert list(frame["night"]) == [night_name(number) for number in range(NIGHTS)]
    assert frame.equals(history.frame(history.series()[0]))


def test_an_export_of_equal_histories_has_equal_bytes(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with open_history(folder) as history:
        count = export_parquet(history, tmp_path / "one")
    rebuild(open_directory(folder), silent)
    with open_history(folder) as history:
        assert export_parquet(history, tmp_path / "two") == count
        with pytest.raises(InputError, match="not empty"):
            export_parquet(history, tmp_path / "two")
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len([path for path in files if path.suffix == ".parquet"]) == count
    for path in files:
        if path.suffix == ".parquet":
            assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
    runs = parquet.read_table(tmp_path / "one" / "runs")
    assert runs.num_rows == NIGHTS * 2 * 4


def test_an_export_to_a_url_has_the_bytes_of_one_to_a_directory(
    history: History, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    files = pytest.importorskip("fsspec").filesystem("memory")
    try:
        count = export_parquet(history, "memory://exported/here")
        assert export_parquet(history, f"file://{tmp_path}/there") == count
        names = files.find("/exported/here")
        assert len(names) == count
        for name in names:
            path = tmp_path / "there" / name.removeprefix("/exported/here/")
            assert files.cat(name) == path.read_bytes()
        with pytest.raises(InputError, match=r"memory://exported/here: not empty"):
            export_parquet(history, "memory://exported/here")
    finally:
        files.rm("/exported", recursive=True)
    with pytest.raises(InputError, match="http://127.0.0.1:1/x: cannot be used: "):
        export_parquet(history, "http://me:swordfish@127.0.0.1:1/x")


def test_steps_are_decisions_and_are_made_again(tmp_path: Path) -> None:
    for number in range(3):
        make_night(tmp_path / "nights", number)
    store, _ = add_to(tmp_path / "store", tmp_path / "nights")
    with open_history(store.folder) as history:
        [series] = history.series()
        position = history.nights(series)[1].position
    found = StepChanged(
        step="s1",
        series=series.key,
        position=position,
        night=night_name(1),
        direction="worse",
        state="suspected",
        change=0.1,
        ci_low=0.05,
        ci_high=0.15,
        reason="alarm",
        numbers={"evidence": 7400.0},
    )
    reproduced = StepChanged(
        step="s1",
        series=series.key,
        position=position,
        night=night_name(1),
        direction="worse",
        state="reproduced",
        reason="retest on 8 boots",
    )
    with writing(store, silent) as writer:
        writer.commit([(found, None), (reproduced, None)])
    before = dump(store)
    rebuild(store, silent)
    assert dump(store) == before
    with open_history(store.folder) as history:
        [step] = history.steps(series)
        assert (step.id, step.state) == ("s1", "reproduced")
        changes = history.step_changes("s1")
        assert [each.state for each in changes] == ["suspected", "reproduced"]
        assert changes[0].numbers == '{"evidence":7400.0}'
        assert list_series(history)[0].step == step
        assert timeline_of(history, series).decisions == changes
        with pytest.raises(InputError, match="no such step"):
            history.step("s2")


def test_lost_nights_have_no_value(history: History) -> None:
    assert Analysed.of(()).values == ()
    values = Analysed.of(history.nights(history.series()[0]))
    assert values.is_paired
    assert values.is_log
