# SPDX-License-Identifier: GPL-2.0-or-later
"""The status screen is at most 80 columns wide, whatever the state holds."""

import shutil
import subprocess
from pathlib import Path

import pytest

from schedperf.lab.night.lab import read_lab
from schedperf.lab.night.state import AFTER, Night, NightKernel, Store
from schedperf.lab.night.status import MachineStatus, draw_night
from schedperf.lab.night.systemd import make_units

JOB = """\
[[machine]]
name = "lab"
reach = "ssh:root@lab1"
[[job]]
name = "hackbench"
run = ["hackbench"]
"""
LAB = f"""\
{JOB}
[[machine]]
name = "1x16+ht"
reach = "ssh:root@lab2"
""".replace('lab1"', 'lab1"\nhours = "21:30-06:00"')


def _draw(tmp_path: Path, night: Night) -> list[str]:
    (tmp_path / "night.toml").write_text(JOB)
    lab = read_lab(tmp_path / "night.toml")
    status = MachineStatus(machine=lab.machines[0], store=Store(tmp_path), night=night, runs=False)
    lines = list(draw_night(lab, status))
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
    lines = _draw(tmp_path, night)
    assert "result: no-change: hackbench" in lines
    assert any("next: history: add the night to the history" in line for line in lines)
    for name in AFTER:
        night.step(name).ended = "2026-11-27T22:00:00+00:00"
    assert _draw(tmp_path, night)[-1] == "result: no-change: hackbench"


def test_units_quote_paths(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" 100% $HOME'
    folder.mkdir()
    (folder / "night.toml").write_text(LAB)
    units = make_units(read_lab(folder / "night.toml"), None, user=False)
    assert [str(path.relative_to("/etc/systemd/system")) for path in units.texts] == [
        "schedperf-night@.service",
        "schedperf-night@.timer",
        "schedperf-night-resume@.service",
        "schedperf-night@1x16\\x2bht.timer.d/at.conf",
    ]
    nightly, timer, at_boot, of_machine = units.texts.values()
    assert r"\"b\" 100%% $$HOME/night.toml" in nightly
    assert '"--machine" "%I"\n' in nightly
    assert "OnCalendar=*-*-* 21:30:00\n" in timer
    assert "Also=schedperf-night-resume@%i.service\n" in timer
    assert '"--unfinished"\n' in at_boot
    assert "WantedBy=multi-user.target\n" in at_boot
    assert "[Install]" not in nightly
    assert of_machine == "[Timer]\nOnCalendar=\nOnCalendar=*-*-* 22:00:00\n"
    assert units.enable == (
        "systemctl enable --now 'schedperf-night@lab.timer' 'schedperf-night@1x16\\x2bht.timer'"
    )
    at_one_time = make_units(read_lab(folder / "night.toml"), "23:00", user=False)
    assert len(at_one_time.texts) == 3


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    (tmp_path / "night 1.toml").write_text(JOB)
    units = make_units(read_lab(tmp_path / "night 1.toml"), "22:00", user=False)
    paths = [tmp_path / path.name.replace("@", "@lab") for path in units.texts]
    for path, text in zip(paths, units.texts.values(), strict=True):
        path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
