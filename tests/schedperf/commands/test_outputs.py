# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.commands._outputs: the files that commands write are whole or not there."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.commands._outputs import open_outputs, write_output
from schedperf.model.errors import InputError

TABLE = "workload,metric,unit,better,value\n" + "".join(f"h,time,s,lower,0.6{n}\n" for n in "123")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Write base.csv and new.csv."""
    paths = [tmp_path / "base.csv", tmp_path / "new.csv"]
    for path in paths:
        path.write_text(TABLE)
    return [str(path) for path in paths]


def compare_without_room(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``schedperf compare`` as on a disk on which no file can be longer than 1 kB."""
    script = 'ulimit -f 1; exec "$@"'
    # Without -B, Python would leave a part of a compiled module.
    command = [sys.executable, "-B", "-m", "schedperf", "compare", *arguments]
    return subprocess.run(
        ["bash", "-c", script, "bash", *command], capture_output=True, text=True, timeout=240
    )


@pytest.mark.system
@pytest.mark.parametrize("before", [None, "an old report"])
def test_a_file_that_has_no_room_is_named_and_leaves_no_part(
    tables: list[str], tmp_path: Path, before: str | None
) -> None:
    target = tmp_path / "out.json"
    if before is not None:
        target.write_text(before)
    done = compare_without_room(*tables, "--json", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"schedperf: error: {target}: cannot be written (file too large); choose another path\n"
    )
    assert not target.exists()


def test_a_full_device_is_named(tables: list[str], capsys: Capture) -> None:
    assert main(["compare", *tables, "--json", "/dev/full"]) == 2
    assert (
        "/dev/full: cannot be written (no space left on device); choose another path"
        in capsys.readouterr().err
    )
    assert Path("/dev/full").exists()


def test_one_file_is_not_written_twice(tables: list[str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "sub").mkdir()
    target, again = tmp_path / "report", tmp_path / "sub" / ".." / "report"
    assert main(["compare", *tables, "--json", str(target), "--html", str(again)]) == 2
    assert "given for two outputs; write to two files" in capsys.readouterr().err
    assert not target.exists()


def test_one_device_may_be_written_twice() -> None:
    with open_outputs({"json": os.devnull, "html": os.devnull}, []) as files:
        for file in files.values():
            write_output(file, ["{}"])
    assert list(files) == ["json", "html"]


def test_a_text_that_ends_with_an_error_leaves_no_part(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "half"
        raise InputError("x: broken; copy it again")

    target = tmp_path / "stacks.folded"
    target.write_text("whole")
    with (
        pytest.raises(InputError, match=r"^x: broken"),
        open_outputs({"export": str(target)}, []) as files,
    ):
        write_output(files["export"], pieces())
    assert not target.exists()


def test_a_reader_that_goes_away_is_no_trouble_of_the_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with (
        pytest.raises(BrokenPipeError),
        open_outputs({"json": f"/dev/fd/{writing}"}, [tmp_path / "base.tar"]) as files,
    ):
        write_output(files["json"], ["{}"])
    os.close(writing)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
@pytest.mark.parametrize("planted", ["report", "report.txt"])
def test_a_report_is_not_written_through_a_link_of_another_user(
    planted: str, tables: list[str], tmp_path: Path, capsys: Capture
) -> None:
    victim, link = tmp_path / "victim", tmp_path / planted
    victim.write_text("precious")
    link.symlink_to(victim)
    os.lchown(link, 65534, 65534)
    assert main(["compare", *tables, "--html", str(tmp_path / "report")]) == 2
    assert capsys.readouterr().err == (
        f"schedperf: error: {link}: cannot be written ({link} is a link of another user); choose "
        "another path\n"
    )
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_pack_writes_through_no_link_beside_its_output(
    plant: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "collect.pyz"
    victim.write_text("precious")
    plant(victim, tmp_path / "collect.pyz.new")
    assert main(["pack", str(path)]) == 0
    assert victim.read_text() == "precious"
    assert (victim.stat().st_mode & 0o111, path.stat().st_mode & 0o111) == (0, 0o111)
