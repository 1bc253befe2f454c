# SPDX-License-Identifier: GPL-2.0-or-later
"""``record``: real runs of real commands, in bundles that hold what docs/bundle.md says."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle

pytestmark = pytest.mark.system

QUICK = ("-n", "2", "--warmup", "1", "--with", "none", "--seed", "7")
RUN_KEYS = {
    "boot", "run", "boot_id", "workload", "command", "label", "setup", "load", "treatment",
    "tool_version", "point", "point_key", "kind", "warmup", "block", "round", "side", "factors",
    "server", "order", "session", "seed", "sequential", "retest", "start", "start_monotonic_s",
    "exit_status", "signal", "failure", "wall_s", "rusage", "left_behind", "cgroup",
    "output_left_out", "service", "discarded", "metric", "captures",
}  # fmt: skip

PROBE = '''
@collector(scope="run", cost="nothing", intrusive=True)
def probe(capture):
    """Note the time before and after."""
    (capture.folder / "before").write_text(str(time.monotonic()))
    yield
    (capture.folder / "after").write_text(str(time.monotonic()))


@collector(scope="run", cost="nothing")
def mild(capture):
    """Note that it ran."""
    (capture.folder / "ran").write_text("yes")
    yield
'''


def test_a_bundle_holds_every_run_and_describes_it(recorder: Any, read_bundle: Any) -> None:
    done = recorder("record", "-o", "b.tar", *QUICK, "--", "sh", "-c", "echo out; echo err >&2")
    assert done.returncode == 0
    assert done.stdout == ""
    written = read_bundle(recorder.folder / "b.tar")
    assert [run["warmup"] for run in written.runs] == [True, False, False]
    assert [run["order"] for run in written.runs] == [0, 1, 2]
    run = written.runs[1]
    assert set(run) == RUN_KEYS
    assert run["command"] == ["sh", "-c", "echo out; echo err >&2"]
    assert run["workload"] == "sh -c 'echo out; echo err >&2'"
    assert (run["exit_status"], run["signal"], run["failure"]) == (0, None, None)
    assert (run["kind"], run["block"], run["side"], run["seed"]) == ("clean", 0, None, 7)
    assert 0 < run["wall_s"] < 10
    assert run["rusage"]["maxrss_bytes"] > 100_000
    assert run["left_behind"] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", run["start"])
    assert run["cgroup"] == Path("/proc/self/cgroup").read_text().splitlines()
    assert written.members["boots/0/runs/001/stdout"] == b"out\n"
    assert written.members["boots/0/runs/001/stderr"] == b"err\n"
    assert recorder.temporary_files() == []
    assert [item.name for item in recorder.folder.glob("b.*")] == ["b.tar"]


def test_the_manifest_lists_every_member_with_its_checksum(recorder: Any, read_bundle: Any) -> None:
    recorder("record", "-o", "b.tar", "--label", "today", *QUICK, "--", "true")
    written = read_bundle(recorder.folder / "b.tar")
    manifest = written.manifest
    entries = {entry["path"]: entry for entry in manifest["captures"] if entry["status"] == "ok"}
    assert entries.keys() == written.members.keys() - {"manifest.json"}
    for path, entry in entries.items():
        data = written.members[path]
        assert (entry["sha256"], entry["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    owners = {path.rpartition("/")[2]: entry["collector"] for path, entry in entries.items()}
    assert owners == {
        "run.json": "record",
        "stdout": "workload",
        "stderr": "workload",
        "host.json": "host",
    }
    assert manifest["version"] == {"major": 1, "minor": 0}
    assert (manifest["label"], manifest["workload"], manifest["points"]) == (
        "today",
        ["true"],
        [""],
    )
    assert (manifest["complete"], manifest["incomplete_reason"]) == (True, None)
    assert manifest["planned_runs"] == 2


def test_the_reader_reads_it_without_a_caveat(recorder: Any) -> None:
    recorder("record", "-o", "base.tar.xz", *QUICK, "--", "true")
    bundle = open_bundle(recorder.folder / "base.tar.xz")
    assert bundle.label == "base"
    assert (len(bundle.runs), bundle.complete, bundle.caveats) == (3, True, ())
    assert bundle.read("boots/0/runs/000/stdout") == b""


def test_points_are_substituted_and_run_in_balanced_blocks(recorder: Any, read_bundle: Any) -> None:
    points = ("--point", "groups=1,4", "--point", "fds=20,40")
    recorder("record", "-o", "b.tar", *QUICK, *points, "--", "echo", "{groups} x {fds}")
    written = read_bundle(recorder.folder / "b.tar")
    keys = ["fds=20,groups=1", "fds=40,groups=1", "fds=20,groups=4", "fds=40,groups=4"]
    assert written.manifest["points"] == keys
    measured = [run for run in written.runs if not run["warmup"]]
    assert Counter((run["block"], run["point_key"]) for run in measured) == Counter(
        (block, key) for block in (0, 1) for key in keys
    )
    for run in written.runs:
        name = f"boots/0/runs/{run['run']:03d}/stdout"
        text = f"{run['point']['groups']} x {run['point']['fds']}\n"
        assert written.members[name].decode() == text
    assert written.manifest["workload"] == ["echo '{groups} x {fds}'"]


def test_the_seed_repeats_the_order(recorder: Any, read_bundle: Any) -> None:
    orders = []
    for name in ("a.tar", "b.tar"):
        arguments = ("-n", "4", "--warmup", "0", "--with", "none", "--seed", "11")
        recorder("record", "-o", name, *arguments, "--point", "x=1,2,3", "--", "echo", "{x}")
        orders.append([run["point_key"] for run in read_bundle(recorder.folder / name).runs])
    assert orders[0] == orders[1]


def test_intrusive_collectors_run_in_instrumented_runs_only(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(PROBE)
    recorder("record", "-o", "b.tar", "-n", "2", "--instrumented", "3", "--", "sleep", "0.05")
    written = read_bundle(recorder.folder / "b.tar")
    measured = [run for run in written.runs if not run["warmup"]]
    assert Counter(run["kind"] for run in measured) == {"clean": 2, "instrumented": 3}
    for run in written.runs:
        folder = f"boots/0/runs/{run['run']:03d}"
        assert f"{folder}/mild/ran" in written.members
        if run["kind"] == "clean":
            assert f"{folder}/probe/before" not in written.members
        else:
            before, after = (
                float(written.members[f"{folder}/probe/{name}"]) for name in ("before", "after")
            )
            assert before < run["start_monotonic_s"]
            assert run["start_monotonic_s"] + run["wall_s"] < after
        paths = {entry["path"] for entry in run["captures"]}
        present = {name for name in written.members if name.startswith(f"{folder}/")}
        assert paths == present - {f"{folder}/run.json"}


def test_a_collector_that_cannot_run_is_noted_once_and_its_runs_are_not_made(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="run", cost="nothing", intrusive=True)
def blind(capture):
    """See nothing."""
    raise Skipped("nothing to see here", "open your eyes")
    yield
'''
    )
    done = recorder("record", "-o", "b.tar", "-n", "2", "--", "true")
    assert "blind skipped: nothing to see here; open your eyes" in done.stderr
    assert "no instrumented runs: none of the selected collectors is intrusive" in done.stderr
    written = read_bundle(recorder.folder / "b.tar")
    assert {run["kind"] for run in written.runs} == {"clean"}
    assert written.manifest["planned_runs"] == 2
    skipped = [entry for entry in written.manifest["captures"] if entry["status"] != "ok"]
    assert len(skipped) == 1
    assert skipped[0]["path"] == "boots/0/blind"
    assert skipped[0]["reason"] == "nothing to see here; open your eyes"


EXACT_AND_COARSE = '''
@collector(scope="run", cost="nothing")
def exact(capture):
    """Measure."""
    if not {works}:
        raise Skipped("no clock here")
    yield
    (capture.folder / "text").write_text("exact")


@collector(scope="run", cost="nothing", intrusive=True, instead_of="exact")
def coarse(capture):
    """Estimate."""
    yield
    (capture.folder / "text").write_text("coarse")
'''


@pytest.mark.parametrize(
    ("works", "arguments", "expected"),
    [
        (True, (), {("clean", "exact")}),
        (False, (), {("instrumented", "coarse")}),
        (True, ("--with", "coarse"), {("instrumented", "coarse")}),
        (
            True,
            ("--with", "default,coarse"),
            {("clean", "exact"), ("instrumented", "exact"), ("instrumented", "coarse")},
        ),
    ],
)
def test_a_collector_that_stands_in_for_another_is_used_where_that_one_does_not_work(
    recorder_with: Callable[[str], Any],
    read_bundle: Any,
    *,
    works: bool,
    arguments: tuple[str, ...],
    expected: set[tuple[str, str]],
) -> None:
    recorder = recorder_with(EXACT_AND_COARSE.format(works=works))
    once = ("-n", "1", "--warmup", "0")
    done = recorder("record", "-o", "b.tar", *once, *arguments, "--", "true")
    assert done.returncode == 0, done.stderr
    # It is no problem of the machine that it is not used.
    assert "coarse skipped" not in done.stderr
    written = read_bundle(recorder.folder / "b.tar")
    captured = {
        (run["kind"], entry["collector"])
        for run in written.runs
        for entry in run["captures"]
        if entry["status"] == "ok"
    }
    assert {each for each in captured if each[1] in {"exact", "coarse"}} == expected


@pytest.mark.parametrize("scope", ["run", "boot"])
def test_without_a_collector_that_the_user_named_nothing_is_recorded(
    recorder_with: Callable[[str], Any], scope: str
) -> None:
    recorder = recorder_with(
        f'''
@collector(scope="{scope}", cost="nothing")
def blind(capture):
    """See nothing."""
    raise Skipped("nothing to see here"){"; yield" if scope == "run" else ""}
'''
    )
    done = recorder("record", "-o", "b.tar", "--with", "default,blind", "--", "touch", "ran")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "schedperf: error: --with blind: nothing to see here; leave blind out of --with"
    )
    assert not [item for item in recorder.folder.iterdir() if item.name not in {"tmp", "copy"}]


def test_a_collector_that_is_left_out_captures_nothing(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(
        """
@collector(scope="run", cost="nothing")
def seen(capture):
    (capture.folder / "seen").write_text("")
    yield

@collector(scope="boot", cost="nothing")
def once(capture):
    (capture.folder / "once").write_text("")
"""
    )
    done = recorder("record", "-o", "b.tar", "-n", "1", "--without", "seen,once", "--", "true")
    assert done.returncode == 0, done.stderr
    manifest = read_bundle(recorder.folder / "b.tar").manifest
    collectors = {entry["collector"] for entry in manifest["captures"]}
    assert "host" in collectors
    assert not collectors & {"seen", "once"}


def test_runs_of_another_workload_are_added_with_a_warning(recorder: Any) -> None:
    recorder("record", "-o", "b.tar", *QUICK, "--", "true")
    again = recorder("record", "--append", "b.tar", *QUICK, "--", "true")
    other = recorder("record", "--append", "b.tar", *QUICK, "--", "sh", "-c", ":")
    assert (again.returncode, other.returncode) == (0, 0)
    assert "warning" not in again.stderr
    assert (
        "schedperf: warning: b.tar has runs of `true`; runs of `sh -c :` are added as another "
        "workload" in other.stderr
    )


def test_runs_of_another_kernel_or_without_the_setup_are_added_with_a_warning(
    recorder: Any,
) -> None:
    recorder("ab", "-o", "s", *QUICK, "--new-setup", "true", "--", "true")
    done = recorder("record", "--append", "s-new.tar", *QUICK, "--", "true")
    [line] = [line for line in done.stderr.splitlines() if "warning" in line]
    assert "s-new.tar was recorded with another setup; make --setup match that recording" in line
    path = recorder.folder / "s-base.tar"
    # The same length, so that the tar stays one.
    release = os.uname().release
    other = ("9" * len(release)).encode()
    path.write_bytes(path.read_bytes().replace(release.encode(), other))
    done = recorder("record", "--append", "s-base.tar", *QUICK, "--", "true")
    [line] = [line for line in done.stderr.splitlines() if "warning" in line]
    assert line.startswith(f"schedperf: warning: s-base.tar has runs of kernel {other.decode()} ")
    assert f"; runs of kernel {release} " in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--with", "default,probe", "--instrumented", "0"),
            "--with probe: only used in instrumented runs, but --instrumented is 0",
        ),
        (("--with", "reader"), "--with reader: reads the captures of instrumented runs"),
    ],
)
def test_a_named_collector_that_no_run_would_reach_ends_the_recording_before_it_begins(
    recorder_with: Callable[[str], Any], arguments: tuple[str, ...], message: str
) -> None:
    recorder = recorder_with(
        PROBE
        + '''
@collector(scope="run", cost="nothing")
def tried(capture):
    """Show that collectors were tried."""
    open("tried", "w").close()
    yield


@collector(scope="after", cost="nothing")
def reader(capture):
    """Read what others captured."""
'''
    )
    done = recorder("record", "-o", "b.tar", *arguments, "--", "touch", "ran")
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert not [item for item in recorder.folder.iterdir() if item.name not in {"tmp", "copy"}]


def test_a_collector_that_fails_costs_its_own_capture_only(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(
        PROBE
        + '''
@collector(scope="run", cost="nothing", intrusive=True)
def broken(capture):
    """Fail in the end."""
    (capture.folder / "half").write_text("half")
    yield
    raise OSError("the probe fell off")


@collector(scope="boot", cost="nothing")
def crashing(capture):
    """Crash."""
    os.abort()


@collector(scope="boot", cost="nothing")
def empty(capture):
    """Write nothing, or nothing that may enter a bundle."""
    (capture.folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(capture.folder / "fifo")
'''
    )
    done = recorder("record", "-o", "b.tar", "-n", "1", "--", "true")
    assert done.returncode == 0
    written = read_bundle(recorder.folder / "b.tar")
    bad = {
        entry["path"]: entry for entry in written.manifest["captures"] if entry["status"] != "ok"
    }
    assert bad.keys() == {"boots/0/crashing", "boots/0/empty", "boots/0/runs/002/broken"} or (
        bad.keys() == {"boots/0/crashing", "boots/0/empty", "boots/0/runs/001/broken"}
    )
    assert bad["boots/0/crashing"]["reason"].startswith("the collector crashed: killed by SIGABRT")
    assert bad["boots/0/empty"]["reason"] == "wrote no file"
    broken = next(entry for entry in bad.values() if entry["collector"] == "broken")
    assert broken["reason"] == "OSError: the probe fell off"
    assert "Traceback" in broken["detail"]
    assert not any("half" in name for name in written.members)
    assert any(name.endswith("probe/after") for name in written.members)


def test_a_run_that_fails_is_kept_and_the_others_go_on(recorder: Any, read_bundle: Any) -> None:
    script = "test {x} = 1 || exit 7"
    arguments = (*QUICK, "--point", "x=1,2", "--", "sh", "-c", script)
    done = recorder("record", "-o", "b.tar", *arguments)
    assert done.returncode == 0
    assert "), 2 failed, " in done.stderr
    assert "failed: exit status 7" in done.stderr
    written = read_bundle(recorder.folder / "b.tar")
    assert written.manifest["complete"] is True
    assert {run["exit_status"] for run in written.runs if run["point"]["x"] == "2"} == {7}


def test_a_workload_that_never_succeeds_ends_the_recording(recorder: Any, read_bundle: Any) -> None:
    done = recorder(
        "record",
        "-o",
        "b.tar",
        "-n",
        "9",
        "--with",
        "none",
        "--",
        "sh",
        "-c",
        "echo no >&2; exit 3",
    )
    assert done.returncode == 2
    assert "no run of the workload succeeded; the last run failed: exit status 3: no" in done.stderr
    manifest = read_bundle(recorder.folder / "b.tar").manifest
    assert manifest["complete"] is False
    assert manifest["incomplete_reason"].startswith(
        "stopped after 1 of 9 runs: no run of the workload"
    )


def test_a_run_is_killed_when_its_time_is_over(
    recorder: Any, read_bundle: Any, is_running: Callable[[str], bool]
) -> None:
    script = "sleep 3141.59 & test {x} = 1 || wait"
    limits = ("-n", "1", "--warmup", "0", "--with", "none", "--timeout", "2")
    arguments = (*limits, "--point", "x=1,2", "--", "sh", "-c", script)
    recorder("record", "-o", "b.tar", *arguments)
    runs = read_bundle(recorder.folder / "b.tar").runs
    late = [run for run in runs if run["point"]["x"] == "2"]
    assert {(run["exit_status"], run["signal"]) for run in late} == {(None, 9)}
    assert all(re.match(r"killed after [2-9]\.\d s \(time limit\)", run["failure"]) for run in late)
    assert all(run["exit_status"] == 0 for run in runs if run["point"]["x"] == "1")
    # Neither those that were killed nor those that ended leave anyone behind.
    assert not is_running("3141.59")


def test_the_workload_has_no_terminal_and_no_input(recorder: Any, read_bundle: Any) -> None:
    script = "import os; print(os.read(0, 1), os.getsid(0) == os.getpid() == os.getpgid(0))"
    recorder("record", "-o", "b.tar", *QUICK, "--", "python3", "-c", script)
    written = read_bundle(recorder.folder / "b.tar")
    assert written.members["boots/0/runs/000/stdout"] == b"b'' True\n"


def test_rusage_is_that_of_the_workload_alone(recorder: Any, read_bundle: Any) -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    recorder("record", "-o", "b.tar", *QUICK, "--", "python3", "-c", busy)
    recorder("record", "-o", "idle.tar", *QUICK, "--", "sleep", "0.2")
    run = read_bundle(recorder.folder / "b.tar").runs[0]
    assert 0.15 < run["rusage"]["utime_s"] + run["rusage"]["stime_s"] < 5
    idle = read_bundle(recorder.folder / "idle.tar").runs[0]
    assert idle["rusage"]["utime_s"] + idle["rusage"]["stime_s"] < 0.1
    assert idle["wall_s"] >= 0.2


def test_rules_and_settings_of_the_user_are_kept(recorder: Any, read_bundle: Any) -> None:
    rule = "rate[1/s,higher]=rate: ([0-9.]+)"
    recorder("record", "-o", "b.tar", *QUICK, "--metric", rule, "--vary", "cpu.smt", "--", "true")
    written = read_bundle(recorder.folder / "b.tar")
    expected = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "rate: ([0-9.]+)"}
    assert written.manifest["metric"] == [expected]
    assert written.runs[0]["metric"] == [expected]
    assert written.manifest["treatment"] == ["cpu.smt"]


def test_settings_reach_their_collector(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="boot", cost="nothing", options=("a",))
def told(capture):
    """Keep what one is told."""
    import json
    (capture.folder / "told").write_text(json.dumps(dict(capture.options)))
'''
    )
    recorder("record", "-o", "b.tar", "-n", "1", "--set", "told.a=b=c", "--", "true")
    assert read_bundle(recorder.folder / "b.tar").json("boots/0/told/told") == {"a": "b=c"}


def test_plain_lines_say_how_far_it_is(recorder: Any) -> None:
    done = recorder(
        "record", "-o", "b.tar", *QUICK, "--point", "groups=4", "--", "echo", "{groups}"
    )
    _, second, third, saved = [
        line for line in done.stderr.splitlines() if line.startswith(("run ", "b.tar"))
    ]
    assert re.fullmatch(r"run 2/3 groups=4 clean \d+\.\d\d s, about \d+ s left", second)
    assert re.fullmatch(r"run 3/3 groups=4 clean \d+\.\d\d s", third)
    assert re.fullmatch(r"b\.tar: 2 runs \(2 clean, 0 instrumented\), \d+\.\d kB", saved)


def test_one_run_is_singular(recorder: Any) -> None:
    done = recorder("record", "-o", "b.tar", *QUICK, "-n", "1", "--warmup", "0", "--", "true")
    assert "b.tar: 1 run (1 clean, 0 instrumented), " in done.stderr


def test_quiet_says_nothing_when_all_is_well(recorder: Any) -> None:
    done = recorder("record", "-o", "b.tar", "-q", *QUICK, "--", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_events_are_json_lines(recorder: Any) -> None:
    told, tell = os.pipe()
    with recorder.start(
        "record", "-o", "b.tar", "--events", str(tell), *QUICK, "--", "true", pass_fds=(tell,)
    ) as process:
        os.close(tell)
        with os.fdopen(told) as file:
            events = [json.loads(line) for line in file]
        assert process.communicate(timeout=120) == ("", "")
    # A note says that runs are short.
    kinds = [event["event"] for event in events if event["event"] != "note"]
    assert kinds == ["plan", *["begin", "run"] * 3, "saved"]
    assert events[-2]["done"] == events[-2]["total"] == 3


def test_a_listener_that_leaves_does_not_end_the_recording(recorder: Any, read_bundle: Any) -> None:
    told, tell = os.pipe()
    os.close(told)
    with recorder.start(
        "record", "-o", "b.tar", "--events", str(tell), *QUICK, "--", "true", pass_fds=(tell,)
    ) as process:
        os.close(tell)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert read_bundle(recorder.folder / "b.tar").manifest["complete"] is True


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-o", "b.tar"), "no command given; put it at the end, after --"),
        (("-o", "b.tar", "hackbench"), "hackbench: unknown option"),
        (("--", "true"), "one of the arguments -o/--output --append is required"),
        (("-o", "b.zip", "--", "true"), "unknown format"),
        (("-o", "no/b.tar", "--", "true"), "no such directory; create it first"),
        (("-o", "b.tar", "--", "no-such-program"), "no-such-program: no such program"),
        (("-o", "b.tar", "--", "echo", "{x}"), "command: {x} has no values"),
        (("-o", "b.tar", "--point", "x=1", "--", "true"), "the command has no {x}"),
        (
            ("-o", "b.tar", "--point", "x", "--", "true"),
            "expected NAME=VALUE,VALUE, e.g. groups=1,4",
        ),
        (("-o", "b.tar", "-n", "0", "--", "true"), "invalid number '0' (expected 1 or more"),
        (("-o", "b.tar", "-n", "two", "--", "true"), "expected 0, 1, 2 …"),
        (("-o", "b.tar", "--timeout", "-1", "--", "true"), "'-1' (expected seconds, e.g. 30"),
        (("-o", "b.tar", "--timeout", "nan", "--", "true"), "expected seconds, e.g. 30"),
        (("-o", "b.tar", "--with", "nothing", "--", "true"), "--with: unknown collector 'nothing'"),
        (
            ("-o", "b.tar", "--with", "none,host", "--", "true"),
            "--with: 'none' cannot be combined with other names",
        ),
        (
            ("-o", "b.tar", "--without", "nothing", "--", "true"),
            "--without: unknown collector 'nothing' (expected one or more of account, ",
        ),
        (
            ("-o", "b.tar", "--without", "host", "--", "true"),
            "--without: host is always captured",
        ),
        (
            ("-o", "b.tar", "--with", "default,account", "--without", "account", "--", "true"),
            "--without account: --with selects this collector; omit one of the two",
        ),
        (
            ("-o", "b.tar", "--with-load", "sleep 9", "--without", "load", "--", "true"),
            "--without load: --with-load needs this collector; omit one of the two",
        ),
        (("-o", "b.tar", "--set", "x.y=1", "--", "true"), "--set: unknown collector 'x'"),
        (
            ("-o", "b.tar", "--set", "wakeup_latency.limit=1M", "--", "true"),
            "--set: unknown option 'limit' of wakeup_latency (expected perf or perf_limit)",
        ),
        (
            ("-o", "b.tar", "--set", "sched_debug.level=1", "--", "true"),
            "--set: unknown option 'level' of sched_debug (it has no options)",
        ),
        (
            ("-o", "b.tar", "--set", "wakeup_latency.perf=perf6", "--", "true"),
            "--set: options of wakeup_latency, which is not used; add --with default,wakeup_la",
        ),
        (
            ("-o", "b.tar", "--set", "x", "--", "true"),
            "expected COLLECTOR.NAME=VALUE, e.g. schedstat.enable=1",
        ),
        (
            ("-o", "b.tar", "--metric", "rate=1", "--", "true"),
            "expected NAME[UNIT,higher]=REGEX, e.g. rate[1/s,higher]=rate:",
        ),
        (("-o", "b.tar", "--metric", "r[s,lower]=(", "--", "true"), "invalid regular expression"),
        (
            ("-o", "b.tar", "--metric", "r[s,lower]=x", "--", "true"),
            "no capturing group in 'x' (expected the number in paren",
        ),
        (
            ("-o", "b.tar", "--vary", "../x", "--", "true"),
            "expected a field of host.json, e.g. sched.autogroup",
        ),
        (("-o", "b.tar", "--label", "", "--", "true"), "invalid name ''"),
    ],
)
def test_a_slip_is_one_clear_line(
    recorder: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    done = recorder("record", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.startswith("schedperf: error: ")
    assert done.stderr.count("\n") == 1
    assert [item.name for item in recorder.folder.iterdir()] == ["tmp"]


def test_a_file_that_exists_is_replaced_with_force_only(recorder: Any, read_bundle: Any) -> None:
    (recorder.folder / "b.tar").write_text("precious")
    done = recorder("record", "-o", "b.tar", *QUICK, "--", "true")
    assert done.returncode == 2
    assert "already exists; add --force to replace it, or add runs to it with" in done.stderr
    assert (recorder.folder / "b.tar").read_text() == "precious"
    (recorder.folder / "b.tar.partial").write_text("what a killed recorder left")
    assert recorder("record", "-o", "b.tar", "--force", *QUICK, "--", "true").returncode == 0
    assert len(read_bundle(recorder.folder / "b.tar").runs) == 3
