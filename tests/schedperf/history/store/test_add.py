# SPDX-License-Identifier: GPL-2.0-or-later
"""Bundles, nights, trees and tables are added once, with their nights, kernels and facts."""

import math
import shutil
import tarfile
from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.store.add import Options
from schedperf.history.store.check import check
from schedperf.history.store.directory import FACTS
from schedperf.history.store.inputs import find_sources
from schedperf.history.store.writer import rebuild
from schedperf.model.errors import InputError
from tests.histories import (
    MACHINE,
    add_said,
    add_to,
    dump,
    make_night,
    make_recording,
    night_name,
)
from tests.retests import make_plan, record_boots

EXAMPLES = Path(__file__).parents[4] / "examples"


def silent(_line: str) -> None:
    pass


def test_a_folder_of_nights_becomes_a_series_of_new_and_reference(tmp_path: Path) -> None:
    for number in range(3):
        make_night(tmp_path / "nights", number, base=0.5, new=0.6)
    directory, counts = add_to(tmp_path / "store", tmp_path / "nights")
    assert (counts.added, counts.nights) == (6, 3)
    with open_history(directory.folder) as history:
        [series] = history.series()
        nights = history.nights(series)
    assert series.name == "hackbench time"
    assert series.unit == "s"
    assert series.better == "lower"
    assert [night.night for night in nights] == [night_name(number) for number in range(3)]
    assert {night.revision for night in nights} == {"6.19.0"}
    assert {night.reference_revision for night in nights} == {"6.18.0"}
    for night in nights:
        assert night.new == pytest.approx(0.6, rel=0.01)
        assert night.reference == pytest.approx(0.5, rel=0.01)
        assert (night.new_boots, night.new_runs) == (2, 4)
        assert night.new_sd is not None


def test_the_level_of_a_kernel_is_the_mean_of_the_logarithms_of_its_boots(tmp_path: Path) -> None:
    path = make_recording(tmp_path / "new.tar", "2026-06-01", "new", [[1.0, 3.0], [8.0]])
    directory, _ = add_to(tmp_path / "store", path)
    with open_history(directory.folder) as history:
        [night] = history.nights(history.series()[0])
    assert night.new == pytest.approx(math.sqrt(2.0 * 8.0))
    # The sample standard deviation of log 2 and log 8.
    assert night.new_sd == pytest.approx(math.log(4.0) / math.sqrt(2.0))


def test_what_was_added_is_skipped_whatever_its_name_and_compression(tmp_path: Path) -> None:
    night = make_night(tmp_path / "nights", 0)
    directory, _ = add_to(tmp_path / "store", night)
    before = dump(directory)
    log = directory.log.path.read_bytes()
    copied = shutil.copy(night / "night-new.tar", tmp_path / "copy.tar")
    with tarfile.open(copied) as source, tarfile.open(tmp_path / "copy.tar.xz", "w:xz") as target:
        for member in source:
            target.addfile(member, source.extractfile(member))
    paths = (night, Path(copied), tmp_path / "copy.tar.xz")
    _, counts = add_to(directory.folder, *paths)
    assert (counts.added, counts.known, counts.nights) == (0, 4, 0)
    assert dump(directory) == before
    assert directory.log.path.read_bytes() == log
    assert list(check(directory, pytest.fail)) == []


def test_a_bundle_that_was_appended_to_replaces_what_it_contains(tmp_path: Path) -> None:
    first = make_recording(tmp_path / "1.tar", "2026-06-01", "new", [[0.6, 0.6]])
    both = make_recording(tmp_path / "2.tar", "2026-06-01", "new", [[0.6, 0.6], [0.7, 0.7]])
    directory, _ = add_to(tmp_path / "one", first, both)
    with open_history(directory.folder) as history:
        [night] = history.nights(history.series()[0])
    assert (night.new_boots, night.new_runs) == (2, 4)
    directory, _ = add_to(tmp_path / "other", both)
    add_to(tmp_path / "other", first)
    with open_history(directory.folder) as history:
        assert history.nights(history.series()[0]) == (night,)
    assert list(check(directory, pytest.fail)) == []


def test_a_night_without_the_new_kernel_is_lost(tmp_path: Path) -> None:
    for number in range(2):
        make_night(tmp_path / "nights", number)
    (tmp_path / "nights" / night_name(1) / "night-new.tar").unlink()
    failed = make_recording(
        tmp_path / "failed.tar", night_name(2), "new", [], runs=[{"exit_status": 1}]
    )
    directory, _ = add_to(tmp_path / "store", tmp_path / "nights", failed)
    with open_history(directory.folder) as history:
        nights = history.nights(history.series()[0])
    assert [night.new is None for night in nights] == [False, True, True]
    assert nights[1].reference is not None


def test_an_unfinished_night_is_left_for_later(tmp_path: Path) -> None:
    make_night(tmp_path / "nights", 0)
    make_night(tmp_path / "nights", 1, state={"outcome": None})
    found = find_sources([tmp_path / "nights"])
    assert len(found.sources) == 2
    assert "the night is unfinished" in found.notes[0]


def test_retests_are_stored_but_are_no_nights(tmp_path: Path) -> None:
    night = make_night(tmp_path / "nights", 0)
    make_recording(night / "retest-new.tar", night_name(0), "new", [[0.9]], release="6.19.0-x")
    directory, counts = add_to(tmp_path / "store", night)
    assert counts.added == 3
    with open_history(directory.folder) as history:
        [row] = history.nights(history.series()[0])
    assert row.new == pytest.approx(0.6, rel=0.01)
    assert [row[11] for row in dump(directory)["input"]] == ["night", "night", "retest"]


def test_bundles_of_a_retest_are_no_nights_wherever_they_are(tmp_path: Path) -> None:
    retest = record_boots(tmp_path / "retest-new.tar", "new", [0.5, 0.6], make_plan())
    directory, counts = add_to(tmp_path / "store", retest)
    assert counts.added == 1
    rows = dump(directory)
    assert rows["night"] == []
    assert "retest" in rows["input"][0]
    assert len(rows["value"]) == 2


def test_values_of_0_or_less_are_not_logarithms(tmp_path: Path) -> None:
    rules = [{"name": "drift", "unit": "ns", "better": "lower", "regex": r"drift (\S+)"}]
    path = make_recording(
        tmp_path / "new.tar",
        "2026-06-01",
        "new",
        [],
        metric=rules,
        runs=[{"run": run, "stdout": f"drift {run - 1}\n"} for run in range(3)],
    )
    directory, _ = add_to(tmp_path / "store", path)
    with open_history(directory.folder) as history:
        [night] = history.nights(history.series()[0])
    assert (night.scale, night.new) == ("linear", 0.0)


@pytest.mark.parametrize(
    ("created", "message"),
    [
        ("1970-01-01T00:00:10Z", "recorded on 1970-01-01 by its clock (expected a date from 2001"),
        ("2199-01-01T00:00:00Z", "recorded on 2199-01-01 by its clock"),
        ("soon", "invalid start time; pass --night DATE"),
        (None, "no start time; pass --night DATE"),
    ],
)
def test_a_clock_that_was_not_set_gives_no_night(
    created: str | None, message: str, tmp_path: Path
) -> None:
    path = make_recording(
        tmp_path / "new.tar", "2026-06-01", "new", [[0.6]], manifest={"created": created}
    )
    said: list[str] = []
    directory, counts = add_said(tmp_path / "store", said.append, path)
    assert (counts.added, counts.failed) == (0, 1)
    assert message in said[0]
    assert not list(directory.objects.folder.glob("??/*"))
    _, counts = add_to(tmp_path / "store", path, options=Options(night="2026-06-02"))
    assert counts.added == 1
    with open_history(directory.folder) as history:
        assert history.nights(history.series()[0])[0].night == "2026-06-02"


def test_bundles_that_cannot_be_read_do_not_stop_the_others(tmp_path: Path) -> None:
    good = make_recording(tmp_path / "good.tar", "2026-06-01", "new", [[0.6]])
    cut = tmp_path / "cut.tar"
    cut.write_bytes(good.read_bytes()[:3000])
    empty = tmp_path / "empty.tar"
    empty.touch()
    said: list[str] = []
    directory, counts = add_said(
        tmp_path / "store", said.append, cut, empty, tmp_path / "missing.tar", good
    )
    assert (counts.added, counts.failed) == (1, 3)
    assert len(said) == 3
    assert all("\n" not in line for line in said)
    assert list(check(directory, pytest.fail)) == []


def test_facts_of_command_recording_and_machine_are_columns(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / FACTS).write_text(f'[machine."{MACHINE}"]\nrack = "a"\nowner = "a"\nrow = "7"\n')
    facts = {"rack": "b", "owner": "lab", "shelf": "3"}
    path = make_recording(
        tmp_path / "new.tar", "2026-06-01", "new", [[0.6]], manifest={"facts": facts}
    )
    directory, _ = add_to(store, path, options=Options(facts={"rack": "c1"}))
    database = directory.database(is_read_only=True)
    with database.transaction() as connection:
        rows = connection.exec_driver_sql(
            "SELECT fact_rack, fact_owner, fact_shelf, fact_row FROM runs"
        ).all()
    assert [tuple(row) for row in rows] == [("c1", "lab", "3", "7")]


@pytest.mark.parametrize(
    "facts", [{"Rack": "b"}, {"rack": ""}, {"rack": "\x1b[2J"}, {"rack": "\u202e"}, {"r": 1}, [],
              {"rack": "x" * 201}, {f"k{i}": "v" for i in range(101)}],
    ids=str,
)  # fmt: skip
def test_hostile_facts_of_a_recording_are_one_line(tmp_path: Path, facts: object) -> None:
    path = make_recording(
        tmp_path / "a.tar", night_name(0), "new", [[0.5]], manifest={"facts": facts}
    )
    said: list[str] = []
    _, counts = add_said(tmp_path / "history", said.append, path)
    assert (counts.added, counts.failed) == (0, 1)
    [line] = said
    assert "manifest.json" in line
    assert line.isprintable()


def test_a_wrong_file_of_facts_is_one_line(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / FACTS).write_text('[machine.x]\n"Not a key" = "1"\n')
    path = make_recording(tmp_path / "new.tar", "2026-06-01", "new", [[0.6]])
    said: list[str] = []
    _, counts = add_said(store, said.append, path)
    assert counts.failed == 1
    assert FACTS in said[0]


def test_results_of_other_tools_are_added(tmp_path: Path) -> None:
    tree = Path(f"mmtests:{EXAMPLES / 'mmtests' / '6.12'}")
    directory, counts = add_to(tmp_path / "store", tree)
    assert counts.added == 1
    _, counts = add_to(tmp_path / "store", tree)
    assert (counts.added, counts.known) == (0, 1)
    assert list(check(directory, pytest.fail)) == []


def test_without_copies_the_files_stay_where_they_are(tmp_path: Path) -> None:
    path = make_recording(tmp_path / "new.tar", "2026-06-01", "new", [[0.6]])
    tree = Path(f"mmtests:{EXAMPLES / 'mmtests' / '6.12'}")
    directory, _ = add_to(tmp_path / "store", path, tree, options=Options(keep=False))
    assert not directory.objects.folder.exists()
    before = dump(directory)
    rebuild(directory, silent)
    assert dump(directory) == before
    make_recording(path, "2026-06-01", "new", [[0.7]])
    assert "changed on disk" in next(check(directory, silent))
    with pytest.raises(InputError, match="changed on disk"):
        rebuild(directory, silent)
    path.unlink()
    assert "cannot be read" in next(check(directory, silent))
    assert dump(directory) == before


@pytest.mark.parametrize("kind", ["empty", "store", "missing"])
def test_a_directory_without_bundles_is_refused(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    if kind != "missing":
        folder.mkdir()
    if kind == "store":
        (folder / "store.toml").touch()
    if kind == "missing":
        assert find_sources([folder]).sources[0].name == str(folder)
        return
    with pytest.raises(InputError, match="expected"):
        find_sources([folder])


def test_many_bundles_are_read_by_several_processes(tmp_path: Path) -> None:
    for number in range(10):
        make_night(tmp_path / "nights", number)
    directory, counts = add_to(tmp_path / "store", tmp_path / "nights")
    assert counts.added == 20
    before = dump(directory)
    rebuild(directory, silent)
    assert dump(directory) == before
    assert list(check(directory, pytest.fail)) == []


def test_what_is_added_together_has_the_rows_of_what_is_added_one_by_one(tmp_path: Path) -> None:
    """A lost night has a row only in series that are older; a bundle replaces one in the batch."""
    lost = make_recording(tmp_path / "a.tar", "2026-06-01", "base", [[1.0]])
    short = make_recording(tmp_path / "b.tar", "2026-06-02", "new", [[1.0]])
    both = make_recording(tmp_path / "c.tar", "2026-06-02", "new", [[1.0], [2.0]])
    later = make_recording(tmp_path / "d.tar", "2026-06-03", "base", [[1.0]])
    paths = [lost, short, both, later]
    together, counts = add_to(tmp_path / "together", *paths)
    assert counts.added == 4
    for path in paths:
        alone, _ = add_to(tmp_path / "alone", path)
    assert dump(alone) == dump(together)
    assert [row[3] for row in dump(alone)["night"]] == ["2026-06-02", "2026-06-03"]
