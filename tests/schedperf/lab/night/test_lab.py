# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of labs: what is read, and one line for each thing that is wrong."""

import json
from datetime import datetime, time
from pathlib import Path

import pytest

from schedperf.lab.night.job import jobs_file
from schedperf.lab.night.lab import Lab, Machine, read_lab
from schedperf.model.errors import InputError
from schedperf.publish.mail.site import MaildirTransport, read_site

MACHINE = '[[machine]]\nname = "lab"\nreach = "ssh:root@lab1"\n'
JOB = (
    '[[job]]\nname = "hackbench"\nrun = ["hackbench", "-g", "{groups}"]\npoints = {groups = [1]}\n'
)
MAIL = """\
[mail]
allow = ["@lab.example"]
[mail.site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
"""


def _read(tmp_path: Path, text: str) -> Lab:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return read_lab(path)


def test_defaults(tmp_path: Path) -> None:
    lab = _read(tmp_path, MACHINE + JOB)
    assert lab.out == tmp_path / "nights"
    assert lab.store == tmp_path / "nights" / "history"
    assert (lab.plan.boots, lab.plan.act_on_emulated) == (4, False)
    [machine] = lab.machines
    assert machine.boot == "auto"
    [tree] = lab.trees
    assert (tree.name, tree.reference, tree.yesterday) == (None, None, False)
    # Nights of one machine have no folder of the machine.
    assert lab.folder_of(machine) == lab.out


def test_several_machines_trees_and_jobs(tmp_path: Path) -> None:
    second = MACHINE.replace('"lab"', '"2x48"') + 'trees = ["tip"]\njobs = []\nclass = "big"\n'
    trees = '[[tree]]\nname = "tip"\nsources = "tip"\n[[tree]]\nname = "linus"\n'
    lab = _read(tmp_path, MACHINE + second + trees + JOB + JOB.replace('"hackbench"\n', '"b"\n'))
    first, other = lab.machines
    assert [job.name for job in lab.jobs_of(first)] == ["hackbench", "b"]
    assert [tree.name for tree in lab.trees_of(first)] == ["tip", "linus"]
    assert lab.jobs_of(other) == ()
    assert [tree.name for tree in lab.trees_of(other)] == ["tip"]
    assert (first.recorded_name, other.recorded_name) == ("lab", "big")
    assert lab.folder_of(other) == tmp_path / "nights" / "2x48"
    assert lab.trees[0].sources == f"{tmp_path}/tip"
    with pytest.raises(InputError, match=r"--machine: x not in .* \(expected one of lab, 2x48\)"):
        lab.machine("x")


def test_jobs_for_the_recorder(tmp_path: Path) -> None:
    keys = 'points = {a = ["ä", 1, 0.5]}\nmetric = ["t[s,lower]=\\"x\\\\d(.*)"]\n'
    lab = _read(tmp_path, MACHINE + '[[job]]\nname = "x"\nrun = ["x", "{a}"]\n' + keys)
    [job] = json.loads(jobs_file(lab.jobs))["job"]
    assert job["points"] == {"a": ["ä", 1, 0.5]}
    assert job["metric"] == ['t[s,lower]="x\\d(.*)']
    assert job["with"] == ["default"]


def test_points_of_a_job(tmp_path: Path) -> None:
    keys = "points = {groups = [1, 4], fds = [20]}\n"
    run = '[[job]]\nname = "x"\nrun = ["x", "-g{groups}", "-f", "{fds}"]\n'
    [job] = _read(tmp_path, MACHINE + run + keys).jobs
    assert job.workload == "x -g{groups} -f {fds}"
    assert job.command_of("fds=20,groups=4") == ("x", "-g4", "-f", "20")
    assert job.command_of("groups=4") is None


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    machine = f'{MACHINE}boot = "command:hooks/boot"\npower = "hooks/power"\n'
    kernel = '[kernel]\nbuild = ["./build", "x"]\nsources = "commits"\n'
    lab = _read(tmp_path, machine + JOB + kernel + '[site]\nout = "/srv/nights"\n')
    assert lab.machines[0].boot == f"command:{tmp_path}/hooks/boot"
    assert lab.machines[0].power == f"{tmp_path}/hooks/power"
    assert lab.trees[0].build == (f"{tmp_path}/build", "x")
    assert lab.trees[0].sources == f"{tmp_path}/commits"
    assert lab.out == Path("/srv/nights")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MACHINE + JOB + "[plan]\nbots = 3\n", "plan.bots: unknown key (did you mean boots?)"),
        (MACHINE + 'hour = "1"\n' + JOB, "machine.hour: unknown key (did you mean hours?)"),
        (MACHINE + JOB + "[tree]\n", "tree: expected a table [[tree]]"),
        (MACHINE + JOB + "[trees]\n", "trees: unknown key (did you mean tree?)"),
        (MACHINE + JOB + MACHINE, "machine: the name lab is given twice (expected one table"),
        (MACHINE + JOB + JOB, "job: the name hackbench is given twice (expected one table"),
        (MACHINE + JOB + "[[tree]]\n", "tree.name is missing in a table [[tree]]"),
        (
            MACHINE + JOB + '[kernel]\n[[tree]]\nname = "tip"\n',
            "kernel: given with [[tree]] or a name (expected [kernel] alone",
        ),
        (MACHINE + 'jobs = ["x"]\n' + JOB, "machine lab: jobs: unknown x (expected hackbench)"),
        (MACHINE + 'trees = ["x"]\n' + JOB, "machine lab: trees: unknown x (expected "),
        (MACHINE + "trees = []\n" + JOB, "machine lab: trees is empty (expected one or more)"),
        (MACHINE.replace('"lab"', '"pages"') + JOB, "machine pages: a directory of site.out has"),
        (MACHINE + 'reserve = "labgrid"\n' + JOB, 'machine.reserve is "labgrid" (expected e.g.'),
        (
            MACHINE + JOB + '[[tree]]\nname = "a"\nprivate = true\n[[tree]]\nname = "b"\n',
            "tree a: private, but other trees are not (expected all or none",
        ),
        (MACHINE + JOB + "[kernel]\nprivate = true\n" + MAIL, "mail: given, but all trees are"),
        (MACHINE + JOB + MAIL.replace("lab.example", "x"), 'mail.site.domain is "x"'),
        (MACHINE + JOB + MAIL + "alow = []\n", "mail.site.alow: unknown key (expected one of"),
        (MACHINE, "0 tables [[job]] (expected one or more)"),
        (JOB, "0 tables [[machine]] (expected one or more)"),
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
    assert "edit the file" in line or "add one to the file" in line or "of its own" in line


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
        read_lab(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_lab(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(InputError, match="larger than"):
        read_lab(path)


def test_settings_for_mails(tmp_path: Path) -> None:
    lab = _read(tmp_path, MACHINE + JOB + MAIL + '[mail.transport]\nkind = "maildir"\npath = "m"\n')
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    (outbox / "lab.toml").symlink_to(lab.path)
    site = read_site(outbox)
    assert site == lab.mail
    assert isinstance(site.transport, MaildirTransport)
    assert site.transport.path == str(tmp_path / "m")
    lab.path.write_text(MACHINE + JOB)
    with pytest.raises(InputError, match=r"night.toml: mail: expected a table \[mail\]"):
        read_site(outbox)
    lab.path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read_site(outbox)


def test_hours_that_are_left() -> None:
    machine = Machine(name="lab", reach="ssh:lab", hours="22:00-06:00")
    left = {(21, 0): 0.0, (22, 0): 8.0, (23, 30): 6.5, (5, 0): 1.0, (6, 0): 0.0}
    for (hour, minute), hours in left.items():
        assert machine.seconds_left(datetime(2026, 12, 1, hour, minute)) == hours * 3600.0  # noqa: DTZ001
    assert Machine(name="lab", reach="ssh:lab").seconds_left(datetime(2026, 12, 1)) is None  # noqa: DTZ001


def test_hours_over_midnight(tmp_path: Path) -> None:
    [machine] = _read(tmp_path, f'{MACHINE}hours = "22:00-06:00"\n' + JOB).machines
    expected = {22: True, 23: True, 0: True, 5: True, 6: False, 12: False, 21: False}
    assert {hour: machine.may_be_used(time(hour)) for hour in expected} == expected
    [day] = _read(tmp_path, f'{MACHINE}hours = "08:00-09:30"\n' + JOB).machines
    assert [day.may_be_used(time(8, 59)), day.may_be_used(time(9, 30))] == [True, False]
