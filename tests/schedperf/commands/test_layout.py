# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf layout``: what it prints, where, and with which exit status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main

SEED = Path(__file__).resolve().parents[2] / "data" / "layouts"
START = f"{0:016x} D __per_cpu_start"
END = f"{0x34000:016x} D __per_cpu_end\nffffffff84000000 B _end"
Capture = pytest.CaptureFixture[str]
WriteMap = Callable[..., str]


@pytest.fixture
def write_map(tmp_path: Path) -> WriteMap:
    """Write a System.map with one of the published layouts in its per-CPU section."""

    def write(name: str) -> str:
        rows = (SEED / f"{name}.map").read_text()
        path = tmp_path / f"{name}.map"
        path.write_text(f"{START}\n{rows}{END}\n")
        return str(path)

    return write


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["layout", *arguments])
    done = capsys.readouterr()
    return status, done.out, done.err


def test_five_kernels_are_drawn_column_by_column(write_map: WriteMap, capsys: Capture) -> None:
    names = ("tip", "patch-1", "moved-declaration", "align-first", "custom-layout")
    status, out, _ = run(capsys, *map(write_map, names), "--percpu", "--json", "-")
    assert status == 1
    data = json.loads(out)["data"]
    assert [one["label"] for one in data["kernels"]] == [f"{name}.map" for name in names]
    assert len(data["windows"][0]["columns"]) == 5
    _, text, _ = run(capsys, *map(write_map, names), "--percpu")
    assert "\ncustom-layout.map: no alarm" in text
    assert all(len(line) <= 78 for line in text.splitlines())


def test_json_alone_is_on_stdout(write_map: WriteMap, capsys: Capture) -> None:
    status, out, _ = run(capsys, write_map("tip"), write_map("patch-1"), "--json", "-")
    section = json.loads(out)
    data = section["data"]
    assert status == 1
    assert (section["schema"], section["status"]) == ("schedperf/section/layout/2", "ok")
    assert data["comparisons"][0]["alarms"][0]["rule"] == "separated"
    assert data["comparisons"][0]["alarms"][0]["boundary"] == 0x20540


def test_json_holds_every_entry_however_many(tmp_path: Path, capsys: Capture) -> None:
    names = [f"v{number}" for number in range(480)]
    paths = []
    for order in (names, sorted(names, key=lambda name: name[::-1])):
        rows = "".join(f"{8 * place:016x} D {name}\n" for place, name in enumerate(order))
        path = tmp_path / f"{order[1]}.map"
        path.write_text(f"{START}\n{rows}{END}\n")
        paths.append(str(path))

    status, out, _ = run(capsys, *paths, "--json", "-")

    (unit,) = json.loads(out)["data"]["comparisons"][0]["units"]
    counts = unit["counts"]
    assert status == 0
    assert len(unit["separated"]) == counts["separated"] > 1000
    assert len(unit["joined"]) == counts["joined"] > 1000
    assert len(unit["entries"]) >= counts["mates_changed"] > 400
    assert len(unit["unknown_heat"]) == counts["unknown_heat"] > 100
    explained = [
        pair for cause in unit["causes"] for pair in (*cause["separated"], *cause["joined"])
    ]
    assert len(explained) == counts["separated"] + counts["joined"]
    parted = sum(len(entry["lost"]) for entry in unit["entries"])
    assert parted == 2 * counts["separated"]


def test_files_are_written_beside_the_text(
    write_map: WriteMap, tmp_path: Path, capsys: Capture
) -> None:
    page, record = tmp_path / "layout.html", tmp_path / "layout.json"
    _, out, _ = run(
        capsys,
        *(write_map("tip"), write_map("patch-1")),
        *("--html", str(page), "--json", str(record)),
    )
    assert out.startswith("Cache lines\n")
    assert json.loads(record.read_text())["data"]["windows"]
    html = page.read_text()
    assert "<title>cache lines: patch-1.map vs tip.map - schedperf</title>" in html
    assert 'href="#layout"' in html
    assert "sd_llc_id" in html


def test_a_hot_set_of_two_kernels_is_counted_on_both(write_map: WriteMap, capsys: Capture) -> None:
    hot = "root_cpuacct_cpuusage,sd_llc_id"
    _, out, _ = run(capsys, write_map("tip"), write_map("patch-1"), "--hot", hot)
    said = " ".join(out.split())
    assert "hot variables root_cpuacct_cpuusage, sd_llc_id: 1 line in base, 2 in new" in said


def test_the_length_of_a_line_can_be_given(write_map: WriteMap, capsys: Capture) -> None:
    arguments = (write_map("tip"), write_map("patch-1"), "--cacheline", "128", "--json", "-")
    _, out, _ = run(capsys, *arguments)
    data = json.loads(out)["data"]
    assert data["line_bytes"]["used"] == 128
    assert data["line_bytes"]["from"] == "given"
    assert not [one for one in data["comparisons"][0]["alarms"] if one["rule"] == "separated"]


def test_the_limit_is_of_alarms_that_the_text_shows(write_map: WriteMap, capsys: Capture) -> None:
    arguments = (write_map("tip"), write_map("patch-1"), "--percpu")
    _, all_of_it, _ = run(capsys, *arguments)
    _, out, _ = run(capsys, *arguments, "--limit", "1")
    assert "\n  2. " in all_of_it
    assert "\n  2. " not in out
    assert "… 1 more, see --html or --json" in out


def test_files_of_one_name_are_told_apart_by_their_folders(
    write_map: WriteMap, tmp_path: Path, capsys: Capture
) -> None:
    paths = []
    for folder, name in (("a", "tip"), ("b", "patch-1")):
        (tmp_path / folder).mkdir()
        paths.append(str(Path(write_map(name)).rename(tmp_path / folder / "System.map")))
    _, out, _ = run(capsys, *paths, "--json", "-")
    assert [one["label"] for one in json.loads(out)["data"]["kernels"]] == paths


BAD = {
    "empty": "",
    "stub": "The real System.map is in the linux-image-6.1.0-dbg package\n",
    "hidden addresses": "".join(f"{0:016x} D v{number}\n" for number in range(9)),
    "no data symbols": f"{0xFFFFFFFF81000000:016x} T _text\n{0xFFFFFFFF81000040:016x} T start\n",
    "binary": "\x00\x01\x02" * 500,
    "cut ELF": "\x7fELF\x02\x01\x01" + "\x00" * 9,
    "reversed": f"{0x34000:016x} D __per_cpu_start\n{0:016x} D __per_cpu_end\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_file_is_one_line_and_status_2(
    text: str, write_map: WriteMap, tmp_path: Path, capsys: Capture
) -> None:
    bad = tmp_path / "bad.map"
    bad.write_text(text)
    for arguments in ((str(bad),), (str(bad), write_map("tip")), (write_map("tip"), str(bad))):
        status, out, err = run(capsys, *arguments)
        assert (status, out) == (2, "")
        assert err.startswith("schedperf: error: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cacheline", "63"], "invalid cache line size 63 (expected a power of two"),
        (["--hot", "nobody"], "'nobody'"),
        (
            ["--hot", ","],
            (
                "--hot: empty list (expected variables and fields, e.g. sd_llc_id,rq.nr_running); "
                "name at least one"
            ),
        ),
        (["--struct", "rq"], "struct layouts need BTF or DWARF, not a symbol table"),
        (["--json", "-", "--html", "-"], "formats requested (expected one of"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(
    options: list[str], message: str, write_map: WriteMap, capsys: Capture
) -> None:
    for kernels in ([write_map("tip")], [write_map("tip"), write_map("patch-1")]):
        status, out, err = run(capsys, *kernels, *options)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_no_kernel_at_all_is_one_line(capsys: Capture) -> None:
    status, _, err = run(capsys)
    assert status == 2
    assert "no kernel given (expected a bundle, a directory or a file, e.g. System.map" in err


def test_an_input_is_never_overwritten(write_map: WriteMap, capsys: Capture) -> None:
    tip = write_map("tip")
    before = Path(tip).read_text()
    status, _, err = run(capsys, tip, write_map("patch-1"), "--json", tip)
    assert status == 2
    assert "also an input; write to another file" in err
    assert Path(tip).read_text() == before


def test_control_characters_of_a_map_reach_no_terminal(
    write_map: WriteMap, tmp_path: Path, capsys: Capture
) -> None:
    evil = tmp_path / "evil.map"
    evil.write_text(Path(write_map("patch-1")).read_text().replace("sd_share_id", "sd\x1b[31m_x"))
    _, out, err = run(capsys, write_map("tip"), str(evil))
    assert "\x1b" not in out + err
