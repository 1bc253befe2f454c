# SPDX-License-Identifier: GPL-2.0-or-later
"""Job files: what is read, and one line for each thing that is wrong."""

from datetime import time
from pathlib import Path

import pytest

from schedperf.lab.night.job import JobFile, read_job
from schedperf.model.errors import InputError

MACHINE = '[[machine]]\nname = "lab"\nreach = "ssh:root@lab1"\n'
JOB = (
    '[[job]]\nname = "hackbench"\nrun = ["hackbench", "-g", "{groups}"]\npoints = {groups = [1]}\n'
)


def _read(tmp_path: Path, text: str) -> JobFile:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return read_job(path)


def test_defaults(tmp_path: Path) -> None:
    job = _read(tmp_path, MACHINE + JOB)
    assert job.out == tmp_path / "nights"
    assert (job.plan.boots, job.plan.retest, job.plan.act_on_emulated) == (4, 8, False)
    assert job.machine.boot == "auto"
    assert job.kernel.reference is None
    assert not job.kernel.yesterday


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    machine = f'{MACHINE}boot = "command:hooks/boot"\npower = "hooks/power"\n'
    kernel = '[kernel]\nbuild = ["./build", "x"]\nsources = "commits"\n'
    job = _read(tmp_path, machine + JOB + kernel + '[site]\nout = "/srv/nights"\n')
    assert job.machine.boot == f"command:{tmp_path}/hooks/boot"
    assert job.machine.power == f"{tmp_path}/hooks/power"
    assert job.kernel.build == (f"{tmp_path}/build", "x")
    assert job.kernel.sources == f"{tmp_path}/commits"
    assert job.out == Path("/srv/nights")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MACHINE + JOB + "[plan]\nbots = 3\n", "plan.bots: unknown key (did you mean boots?)"),
        (MACHINE + 'hour = "1"\n' + JOB, "machine.hour: unknown key (did you mean hours?)"),
        (MACHINE + JOB + "[tree]\n", "tree: unknown key (expected one of site, machine, job"),
        (MACHINE + JOB + MACHINE, "2 tables [[machine]] (expected exactly one)"),
        (MACHINE + JOB + JOB, "2 tables [[job]] (expected exactly one)"),
        (MACHINE, "0 tables [[job]] (expected exactly one)"),
        ("machine = 3\n" + JOB, "machine: expected a table [[machine]]"),
        ("[machine]\n" + JOB, "machine: expected a table [[machine]]"),
        ("machine = [3]\n" + JOB, "machine is 3 (expected object"),
        (MACHINE + JOB + "[plan]\nboots = 0\n", "plan.boots is 0"),
        (MACHINE + JOB + '[plan]\nboots = "4"\n', 'plan.boots is "4" (expected int'),
        (MACHINE + JOB + "[plan]\nboots = 2026-01-01\n", "plan.boots"),
        (MACHINE + 'hours = "22-6"\n' + JOB, '"22-6" (expected e.g. 22:00-06:00); edit'),
        (MACHINE.replace("ssh:root@lab1", "local") + JOB, "lab1, not the controller itself); edit"),
        (MACHINE.replace("ssh:root@lab1", "-oProxyCommand=x") + JOB, "machine.reach is"),
        (MACHINE.replace('"lab"', '"../lab"') + JOB, 'machine.name is "../lab"'),
        (MACHINE + '[[job]]\nname = "x"\nrun = []\n', "job.run is [] (expected array of length"),
        (MACHINE + '[[job]]\nname = "x"\nrun = ["a\\u0000b"]\n', "job.run"),
        (MACHINE + '[[job]]\nrun = ["a"]\n', "job.name is missing"),
        (MACHINE + JOB + "[plan\n", "invalid TOML"),
        ("a = " + "[" * 5000, "invalid TOML"),
        (MACHINE + JOB + '"\\u202egpj" = 1\n', "gpj: unknown key"),
        (MACHINE + JOB + '[kernel]\nnew = "-rc"\n', 'kernel.new is "-rc"'),
    ],
)
def test_one_line_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, text)
    line = str(error.value)
    assert said in line
    assert line.isprintable()
    assert line.startswith(str(tmp_path / "night.toml"))
    assert "edit the file" in line or "write one job file" in line


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            'run = ["x", "{group}"]\npoints = {groups = [1]}',
            "job: command: {group} has no values; add",
        ),
        (
            'run = ["x"]\npoints = {groups = [1]}',
            "job: --point groups: the command has no {groups}",
        ),
        ('run = ["x", "{a}"]\npoints = {a = []}', "empty or unprintable value"),
        ('run = ["x", "{a}"]\npoints = {a = [1, 1]}', "value given twice"),
        (
            'run = ["x", "{a}"]\npoints = {a = ["0,1"]}',
            "job.points.a: invalid value '0,1' (expected",
        ),
        ('run = ["x"]\nmetric = ["time"]', "job: argument --metric: invalid metric rule 'time'"),
        ('run = ["x"]\nwith = ["pref"]', "job: --with: unknown collector 'pref' (expected one or"),
        ('run = ["x"]\nwithout = ["pref"]', "job: --without: unknown collector 'pref' (expected"),
        (
            'run = ["x"]\nwith = ["account"]\nwithout = ["account"]',
            "job: --without account: --with selects this collector; omit one of the two",
        ),
    ],
)
def test_what_the_recorder_would_refuse_is_refused_before_the_night(
    tmp_path: Path, keys: str, said: str
) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, f'{MACHINE}[[job]]\nname = "x"\n{keys}\n')
    assert str(error.value).startswith(f"{tmp_path}/night.toml: job")
    assert said in str(error.value)
    assert str(error.value).isprintable()


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "night.toml"
    with pytest.raises(InputError, match="cannot be read"):
        read_job(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_job(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(InputError, match="larger than"):
        read_job(path)


def test_hours_over_midnight(tmp_path: Path) -> None:
    machine = _read(tmp_path, f'{MACHINE}hours = "22:00-06:00"\n' + JOB).machine
    expected = {22: True, 23: True, 0: True, 5: True, 6: False, 12: False, 21: False}
    assert {hour: machine.may_be_used(time(hour)) for hour in expected} == expected
    day = _read(tmp_path, f'{MACHINE}hours = "08:00-09:30"\n' + JOB).machine
    assert [day.may_be_used(time(8, 59)), day.may_be_used(time(9, 30))] == [True, False]
