# SPDX-License-Identifier: GPL-2.0-or-later
"""Logs of MangoHud and PresentMon become runs; percentiles and stutters are recomputed."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedperf.cli import main
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.importers import Imported
from schedperf.inputs.importers.frames import count_stutters
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values

SYSTEM = "os,cpu,gpu,ram,kernel,driver,cpuscheduler"
VALUES = (
    "Arch Linux,AMD Ryzen 9 5950X 16-Core Processor,AMD RX 9070 XT,32771172,{kernel},,performance"
)
COLUMNS = (
    "fps,frametime,cpu_load,cpu_power,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,"
    "gpu_vram_used,gpu_power,ram_used,swap_used,process_rss,cpu_mhz,elapsed"
)
PRESENTMON_2 = (
    "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing,"
    "PresentMode,FrameType,CPUStartQPC,FrameTime,CPUBusy,CPUWait,GPULatency,GPUTime"
)
PRESENTMON_1 = (
    "Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,AllowsTearing,"
    "PresentMode,WasBatched,DwmNotified,Dropped,TimeInSeconds,MsBetweenPresents,"
    "MsBetweenDisplayChange,MsInPresentAPI"
)


def frames_of(seed: int, *, n: int = 3000, slow: float = 1.0) -> list[float]:
    """Return times of frames in ms: about 100 per second, with a stutter each 500 frames."""
    random = np.random.default_rng(seed)
    times = slow * random.normal(10.0, 0.5, n)
    times[100::500] = 40.0 * slow
    return [round(float(time), 4) for time in times]


def mangohud(
    frames: Sequence[float],
    *,
    kernel: str = "6.16.7-2-cachyos",
    unit: float = 1.0,
    head: Sequence[str] = (),
    is_versioned: bool = False,
    interval_ms: float | None = None,
) -> str:
    lines = list(head or (SYSTEM, VALUES.format(kernel=kernel)))
    if is_versioned:
        rule = "-" * 20
        lines = ["v1", "0.8.2", f"{rule}-SYSTEM INFO-{rule}", *lines]
        lines.append(f"{rule}FRAME METRICS{rule}")
    lines.append(COLUMNS)
    elapsed = 0.0
    for time in frames:
        elapsed += time if interval_ms is None else interval_ms
        cells = f"{1000.0 / time:.6g},{unit * time:.8g},21.6,0,84,54,51,3121,1358,4.9,255,10.7,0,0"
        lines.append(f"{cells},3500,{elapsed * 1e6:.0f}")
    return "\n".join(lines) + "\n"


def presentmon(header: str, column: str, chains: Sequence[tuple[str, Sequence[float]]]) -> str:
    names = header.split(",")
    lines = [header]
    for pid, (application, frames) in enumerate(chains):
        for time in frames:
            row = ["0"] * len(names)
            row[0], row[1], row[2] = application, str(pid), f"0x{pid:X}"
            row[names.index(column)] = f"{time}"
            lines.append(",".join(row))
    return "\r\n".join(lines) + "\r\n"


def read(path: Path) -> Imported:
    return read_results("frames", path)[0]


def values_of(path: Path) -> dict[str, tuple[Any, ...]]:
    with Opener() as opener:
        table = read_run_values(name_sides([opener.open(Path(f"frames:{path}"))])).table
        rows = table.rows(["metric", "value", "unit", "better", "family"])
        return {str(row[0]): tuple(row[1:]) for row in rows}


def expected_of(frames_ms: Sequence[float]) -> dict[str, float]:
    """Recompute all metrics with the standard library."""
    times = [time / 1000.0 for time in frames_ms]
    cuts = statistics.quantiles(times, n=1000, method="inclusive")
    slowest = sorted(times)[-math.ceil(len(times) / 100) :]
    stutters = sum(
        times[i] > 2.5 * statistics.median(times[i - 20 : i]) for i in range(20, len(times))
    )
    return {
        "frame time p50": statistics.median(times),
        "frame time p99": cuts[989],
        "frame time p99.9": cuts[998],
        "1% low": 1.0 / statistics.fmean(slowest),
        "stutters per 1000 frames": 1000.0 * stutters / len(times),
        "fps": len(times) / math.fsum(times),
    }


@pytest.mark.parametrize(
    "text",
    [
        mangohud(frames_of(1)),
        mangohud(frames_of(1), is_versioned=True),
        mangohud(frames_of(1), unit=1000.0),
        mangohud(frames_of(1), head=("# MangoHud 0.7.2",)),
        "\ufeff" + mangohud(frames_of(1)).replace("\n", "\r\n"),
        presentmon(
            PRESENTMON_2, "FrameTime", [("game.exe", frames_of(1)), ("dwm.exe", [16.7] * 99)]
        ),
        presentmon(PRESENTMON_1, "MsBetweenPresents", [("game.exe", frames_of(1))]),
    ],
    ids=["0.8", "log_versioning", "us", "comment", "windows", "presentmon-2", "presentmon-1"],
)
def test_all_variants_have_the_recomputed_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "game_2026-12-01_10-11-12.csv").write_text(text, encoding="utf-8", newline="")
    values = values_of(tmp_path / "game_2026-12-01_10-11-12.csv")
    for name, number in expected_of(frames_of(1)).items():
        assert values[name][0] == pytest.approx(number, rel=1e-6), name
    assert [each[1:] for each in values.values()] == [
        ("s", "lower", "primary"),
        ("s", "lower", "primary"),
        ("1/s", "higher", "primary"),
        ("s", "lower", "primary"),
        ("stutters", "lower", "primary"),
        ("1/s", "unknown", "informational"),
    ]


def test_names_of_workloads_and_the_machine(tmp_path: Path) -> None:
    for run in range(2):
        text = mangohud(frames_of(run))
        (tmp_path / f"Overwatch_2026-12-01_10-1{run}-12.csv").write_text(text)
    imported = read(tmp_path)
    [boot] = imported.boots
    assert [run.workload for run in boot.runs] == ["Overwatch"] * 2
    assert boot.host == {
        "kernel": {"release": "6.16.7-2-cachyos"},
        "cpu": {"model": "AMD Ryzen 9 5950X 16-Core Processor"},
        "cpufreq": {"governor": "performance"},
    }
    log = presentmon(
        PRESENTMON_2, "FrameTime", [("dwm.exe", [16.7] * 20), ("game.exe", [9.0] * 30)]
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log.csv").write_text(log)
    imported = read(tmp_path / "other")
    assert [run.workload for run in imported.boots[0].runs] == ["game.exe"]
    assert imported.notes == ("log.csv: left out 20 frames of other processes or swap chains",)


def test_several_logs_per_side_are_compared(tmp_path: Path) -> None:
    for side, slow, kernel in (("old", 1.0, "6.16.0"), ("new", 1.2, "6.17.0")):
        (tmp_path / side).mkdir()
        for run in range(6):
            text = mangohud(frames_of(10 * run + int(10 * slow), slow=slow), kernel=kernel)
            (tmp_path / side / f"game_run{run}.csv").write_text(text)
    with Opener() as opener:
        sides = [opener.open(Path(f"frames:{tmp_path / side}")) for side in ("old", "new")]
        comparison = compare_bundles(sides)
    rows = {row.metric: row for row in comparison.rows}
    assert rows["frame time p99"].verdict == "regression"
    assert rows["frame time p99"].ratio == pytest.approx(1.2, rel=0.02)
    assert rows["1% low"].verdict == "regression"
    assert rows["fps"].family == "informational"
    assert {row.workload for row in comparison.rows} == {"game"}


def test_frames_that_are_sampled_have_no_stutters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(mangohud(frames_of(1), interval_ms=100.0))
    assert "stutters per 1000 frames" not in values_of(tmp_path / "a.csv")
    [note] = read(tmp_path).notes
    assert note.startswith("a.csv: not all frames are logged (log_interval), so stutters")


def test_short_logs_have_no_far_percentiles(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(mangohud(frames_of(1, n=99)))
    assert set(values_of(tmp_path / "a.csv")) == {
        "frame time p50",
        "stutters per 1000 frames",
        "fps",
    }
    (tmp_path / "a.csv").write_text(mangohud(frames_of(1, n=999)))
    assert "frame time p99.9" not in values_of(tmp_path / "a.csv")


def test_stutters() -> None:
    assert count_stutters(np.array([])) == 0
    assert count_stutters(np.full(20, 10.0)) == 0
    assert count_stutters(np.array([10.0] * 20 + [25.0, 25.1])) == 1


class TestHostile:
    def refusal(self, path: Path) -> str:
        with pytest.raises(InputError) as refused:
            read(path)
        return str(refused.value)

    def test_what_is_no_log(self, tmp_path: Path) -> None:
        assert "no files" in self.refusal(tmp_path)
        (tmp_path / "a_summary.csv").write_text("0.1% Min FPS,1% Min FPS,Average FPS\n1,2,3\n")
        assert "a_summary.csv: no column with frame times" in self.refusal(tmp_path)
        for text in ("", "\0" * 5000, '"' * 5000, COLUMNS, COLUMNS + "\n1,2\n", "x" * 50_000):
            (tmp_path / "a_summary.csv").write_text(text)
            assert "\n" not in self.refusal(tmp_path)

    def test_numbers_that_are_none(self, tmp_path: Path) -> None:
        bad = "".join(f"{cell},{cell},0\n" for cell in ("nan", "inf", "-5", "0", "1e999", "NA", ""))
        (tmp_path / "a.csv").write_text(mangohud(frames_of(1)) + bad)
        [note] = read(tmp_path).notes
        assert note == "a.csv: left out 7 lines without a frame time"
        assert values_of(tmp_path / "a.csv")["frame time p50"][0] == pytest.approx(
            expected_of(frames_of(1))["frame time p50"]
        )

    def test_an_unknown_unit(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(mangohud(frames_of(1), unit=17.0))
        assert "unknown unit of frametime" in self.refusal(tmp_path)

    def test_a_cut_file(self, tmp_path: Path) -> None:
        whole = mangohud(frames_of(1))
        (tmp_path / "a.csv").write_text(whole[: len(whole) // 2])
        assert "a.csv: the last line has no end, so the file may be cut" in read(tmp_path).notes

    def test_two_kernels_in_one_directory(self, tmp_path: Path) -> None:
        for kernel in ("6.1", "6.2"):
            (tmp_path / f"{kernel}.csv").write_text(mangohud(frames_of(1), kernel=kernel))
        assert "logs of 2 kernels (6.1, 6.2; expected one)" in self.refusal(tmp_path)

    def test_names_are_one_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        name = "game\x1b[31m<script>"
        log = presentmon(PRESENTMON_2, "FrameTime", [(name, [9.0] * 300)])
        (tmp_path / "a.csv").write_text(log)
        assert main(["import", "frames", str(tmp_path), "-o", str(tmp_path / "a.tar")]) == 0
        assert main(["show", "--runs", str(tmp_path / "a.tar")]) == 0
        assert "\x1b" not in capsys.readouterr().out
