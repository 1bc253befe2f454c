# SPDX-License-Identifier: GPL-2.0-or-later
"""The status screen is at most 80 columns wide, whatever the state holds."""

import shutil
import subprocess
from pathlib import Path

import pytest

from schedperf.lab.night.job import read_job
from schedperf.lab.night.state import Night, NightKernel, Store
from schedperf.lab.night.status import draw
from schedperf.lab.night.systemd import make_units

JOB = """\
[[machine]]
name = "lab"
reach = "ssh:root@lab1"
[[job]]
name = "hackbench"
run = ["hackbench"]
"""


def _draw(tmp_path: Path, night: Night) -> list[str]:
    (tmp_path / "night.toml").write_text(JOB)
    lines = list(draw(read_job(tmp_path / "night.toml"), Store(tmp_path), night))
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    return lines


def test_long_and_hostile_texts(tmp_path: Path) -> None:
    night = Night(id="2026-11-27", machine="lab" * 50, job="x\x1b[31m" * 30, notes=("n" * 300,))
    night.kernels = (NightKernel(name="base", release="6" * 64),)
    step = night.step("prepare")
    step.began, step.problem, step.failures = "yesterday", "a\u202e\n\x00" * 200, 2
    lines = _draw(tmp_path, night)
    assert any("failed (2)" in line for line in lines)
    assert any("unknown" in line for line in lines)


def test_next_step(tmp_path: Path) -> None:
    night = Night(id="2026-11-27", machine="lab", job="hackbench")
    lines = _draw(tmp_path, night)
    assert "not running; next: prepare: check the machine and choose the kernels" in lines
    step = night.step("prepare")
    step.began = step.ended = "2026-11-27T22:00:00+00:00"
    step.result = "base 6.18.0"
    assert "not running; next: record: boot the kernels alternately and record" in _draw(
        tmp_path, night
    )
    night.outcome = "no-change: hackbench"
    assert _draw(tmp_path, night)[-1] == "ended: no-change: hackbench"


def test_units_quote_paths(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" 100% $HOME'
    folder.mkdir()
    (folder / "night.toml").write_text(JOB)
    units = make_units(read_job(folder / "night.toml"), "22:00", user=False)
    nightly, timer, at_boot = units.texts.values()
    name = "schedperf-night-lab-hackbench"
    assert [path.name for path in units.texts] == [
        f"{name}.service",
        f"{name}.timer",
        f"{name}-resume.service",
    ]
    assert r"\"b\" 100%% $$HOME/night.toml" in nightly
    assert "OnCalendar=*-*-* 22:00:00\n" in timer
    assert f"Also={name}-resume.service\n" in timer
    assert '"--unfinished"\n' in at_boot
    assert "WantedBy=multi-user.target\n" in at_boot
    assert "[Install]" not in nightly
    assert units.enable == "systemctl enable --now schedperf-night-lab-hackbench.timer"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    (tmp_path / "night 1.toml").write_text(JOB)
    units = make_units(read_job(tmp_path / "night 1.toml"), "22:00", user=False)
    paths = [tmp_path / path.name for path in units.texts]
    for path, text in zip(paths, units.texts.values(), strict=True):
        path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
