# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of foreign histories: real ones as they are, growing ones, and invalid lines."""

from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.questions.records import Analysed
from schedperf.history.store.check import check
from schedperf.history.store.foreign import parse_foreign
from schedperf.model.errors import InputError
from tests.histories import add_said, add_to, dump
from tests.shared_data import shared

HEADER = "series,order,time,revision,value,ref,unit,better\n"
LINE = "boot,1,1764489600,abc,1.5,1.0,s,lower\n"


def write(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def test_real_histories_are_read_as_they_are(tmp_path: Path) -> None:
    paths = sorted(shared("data/histories").glob("*.csv"))
    directory, counts = add_to(tmp_path / "store", *paths)
    assert counts.added == len(paths)
    with open_history(directory.folder) as history:
        frame = history.frame()
        zig = next(each for each in history.series() if each.workload == "zig")
        assert Analysed.of(history.nights(zig)).is_paired
    lines = sum(len(path.read_text().splitlines()) - 1 for path in paths)
    assert len(frame) == lines
    before = dump(directory)
    _, counts = add_to(directory.folder, *paths)
    assert counts.known == len(paths)
    assert dump(directory) == before


def test_unit_direction_date_and_lost_nights_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "lab.csv",
        "boot,1,1764489600,abc,1.5,1.0,s,lower",
        "boot,2,2025-12-01,abd,1.5,,s,lower",
        "boot,3,,abe,,1.0,s,lower",
        "zero,1,1491,,0,,,",
    )
    directory, _ = add_to(tmp_path / "store", path)
    with open_history(directory.folder) as history:
        boot, zero = history.series()
        nights = history.nights(boot)
        assert [night.night for night in nights] == ["2025-11-30", "2025-12-01", "3"]
        assert (boot.unit, boot.better, boot.workload) == ("s", "lower", "lab")
        values = Analysed.of(nights).values
        assert values[0] == pytest.approx(0.405465)
        assert values[1:] == (None, None)
        [night] = history.nights(zero)
        # Small numbers of the time count builds.
        assert (night.night, night.scale) == ("1", "linear")


def test_a_table_that_grew_replaces_its_earlier_lines(tmp_path: Path) -> None:
    first = write(tmp_path / "lab.csv", "boot,1,,a,1.5,,,", "boot,2,,b,1.6,,,")
    directory, _ = add_to(tmp_path / "store", first)
    grown = write(tmp_path / "lab.csv", "boot,2,,b,1.7,,,", "boot,3,,c,1.8,,,")
    add_to(directory.folder, grown)
    with open_history(directory.folder) as history:
        nights = history.nights(history.series()[0])
    assert [(night.position, night.new) for night in nights] == [(1, 1.5), (2, 1.7), (3, 1.8)]
    assert list(check(directory, pytest.fail)) == []


def test_runs_of_the_same_time_are_ordered_by_their_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "lab.csv", "boot,2026-01-01,1", "boot,2026-01-01,2", header="series,time,value\n"
    )
    directory, _ = add_to(tmp_path / "store", path)
    with open_history(directory.folder) as history:
        nights = history.nights(history.series()[0])
    assert [night.new for night in nights] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "missing columns"),
        ("series,value\nboot,1\n", "missing columns"),
        (HEADER, "no values"),
        (f"{HEADER}boot,x,,,1,,,\n", "x.csv:2: order: invalid 'x'"),
        (f"{HEADER}boot,--5,,,1,,,\n", "x.csv:2: order: invalid '--5'"),
        (f"{HEADER}boot,{'9' * 400},,,1,,,\n", "x.csv:2: order: invalid"),
        (f"{HEADER}boot,,,,1,,,\n", "no order and no time"),
        (f"{HEADER}boot,,yesterday,,1,,,\n", "time: invalid 'yesterday'"),
        (f"{HEADER}boot,,1e300,,1,,,\n", "time: invalid '1e300'"),
        (f"{HEADER}boot,,nan,,1,,,\n", "time: invalid 'nan'"),
        (f"{HEADER}boot,1,,,inf,,,\n", "value: invalid 'inf'"),
        (f"{HEADER}boot,1,,,fast,,,\n", "value: invalid 'fast'"),
        (f"{HEADER}boot,1,,,1,one,,\n", "ref: invalid 'one'"),
        (f"{HEADER},1,,,1,,,\n", "series: empty"),
        (f"{HEADER}boot,1,,,1,,s,up\n", "better: invalid 'up'"),
        (f"{HEADER}{LINE}{LINE}", "x.csv:3: second line of boot with the order 1"),
        (f"{HEADER}{LINE}boot,2,,,1,,ms,lower\n", "other unit or direction"),
        (f"{HEADER}b\x1b[31m,1,,,1,,,\n", r"series: invalid 'b\x1b[31m'"),
        (f"{HEADER}{'b' * 201},1,,,1,,,\n", "series: invalid"),
        (f'{HEADER}"boot,1,,,1,,,\n', "order and no time"),
        (f"{HEADER}boot\0,1,,,1,,,\n", "x.csv"),
    ],
)
def test_an_invalid_line_is_named(content: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_foreign(content.encode(), Path("x.csv"))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).isprintable()


def test_text_that_is_not_utf_8_is_one_line() -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        parse_foreign(HEADER.encode() + b"\xff,1,,,1,,,\n", Path("x.csv"))


def test_10_000_hostile_names_are_names(tmp_path: Path) -> None:
    hostile = ["'; DROP TABLE night; --", "<script>", "%s%n", "[bold]", "../../etc", "NULL"]
    names = [f"{hostile[number % len(hostile)]}{number}" for number in range(10_000)]
    path = write(
        tmp_path / "lab.csv",
        *(f'"{name}",{order},,,1.{order},,,' for name in names for order in range(2)),
    )
    directory, _ = add_to(tmp_path / "store", path)
    with open_history(directory.folder) as history:
        assert {each.metric for each in history.series()} == set(names)
        assert len(history.nights(history.find(names[0]))) == 2
    assert list(check(directory, pytest.fail)) == []


def test_too_many_series_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedperf.history.store.foreign.MOST_SERIES", 2)
    lines = "".join(f"boot{number},1,,,1,,,\n" for number in range(3))
    with pytest.raises(InputError, match="more than 2 series"):
        parse_foreign((HEADER + lines).encode(), Path("x.csv"))


def test_one_invalid_table_does_not_stop_the_others(tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv", "boot,1,,,1,,,")
    bad = write(tmp_path / "bad.csv", "boot,1,,,one,,,")
    said: list[str] = []
    _, counts = add_said(tmp_path / "store", said.append, bad, good)
    assert (counts.added, counts.failed) == (1, 1)
    assert "bad.csv:2: value: invalid 'one'" in said[0]
