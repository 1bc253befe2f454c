# SPDX-License-Identifier: GPL-2.0-or-later
"""The service of a side: started before each run, awaited, stopped; a run without it is lost."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._rerun_commands import Changes, read_recording, record_in_turns
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.publish.pages.bundle import redact_bundle
from schedperf.publish.pages.private import PrivateStrings
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder import service as service_module
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.service import (
    Service,
    Watched,
    describe_program,
    read_service,
)
from schedperf_collectors.recorder.sides import read_settings

pytestmark = pytest.mark.system

QUICK = ("--warmup", "0", "--with", "none")
# "on" while the service works, as a kernel would have it; on SIGINT it says why it ends.
SERVICE = """\
#!/bin/sh
[ "$1" != --version ] || { echo "light 1.2"; exit; }
trap 'echo "EXIT: asked to end"; rm -f on; exit 0' INT
echo started >>log
echo $$ >pid
sleep 0.1
echo on >on
while :; do sleep 0.02; done
"""
# A collector that knows this service, and discards a run in which it went away.
WATCH = '''
from pathlib import Path

class LightWatch:
    def __init__(self, command, options):
        self.awaits = "the light to be on" if command[:1] == ("./light",) else None
        self.is_lost = False

    def is_ready(self):
        return self.awaits is None or Path("on").exists()

    def begin(self):
        self.began = True

    def end(self):
        assert self.began
        self.is_lost = self.awaits is not None and not Path("on").exists()

    def is_over(self):
        return not Path("on").exists()

    def why_discard(self, output):
        said = output.strip().splitlines()[-1:] or [""]
        return f"the light went out ({said[0]})" if self.is_lost else None

@collector(scope="run", cost="nothing", default=False, watch=LightWatch)
def light(capture):
    """Watch the light."""
    (capture.folder / "file").touch()
    yield
'''
NUMBER = "seconds[s,lower]=took ([0-9.]+)"


@pytest.fixture
def lit(recorder_with: Callable[[str], Any]) -> Any:
    """Return a recorder that knows the service ./light."""
    recorder = recorder_with(WATCH)
    program = recorder.folder / "light"
    program.write_text(SERVICE)
    program.chmod(0o755)
    return recorder


def children() -> set[int]:
    return set(map(int, Path("/proc/thread-self/children").read_text().split()))


def sides(recorder: Any, *names: str) -> list[Any]:
    return [open_bundle(recorder.folder / f"s-{name}.tar") for name in names]


def test_a_service_runs_during_the_runs_of_its_side_only(lit: Any, read_bundle: Any) -> None:
    workload = "test -e on && echo took 1 || echo took 2"
    done = lit(
        "ab", "-o", "s", "--service", "lit=./light", "-n", "2", *QUICK, "--metric", NUMBER, "--",
        "sh", "-c", workload,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (lit.folder / "on").exists()
    # Once for host.json, which describes the machine with the service.
    assert (lit.folder / "log").read_text() == "started\n" * 3
    base, lights = (read_bundle(lit.folder / f"s-{name}.tar") for name in ("base", "lit"))
    assert [run["service"] for run in base.runs] == [None, None]
    for run in lights.runs:
        assert run["discarded"] is None
        described = run["service"]
        assert re.fullmatch("[0-9a-f]{64}", described.pop("sha256"))
        assert described == {
            "command": "./light",
            "program": "./light",
            "version": "light 1.2",
            "end": "exit status 0",
        }
    assert lights.members["boots/0/runs/000/service.txt"] == b"EXIT: asked to end\n"
    assert (base.manifest["service"], lights.manifest["service"]) == (None, "./light")
    comparison = compare_bundles(sides(lit, "base", "lit"))
    (difference,) = (d for d in comparison.comparability.differences if d.path == "service")
    assert (difference.severity, difference.new) == ("treatment", "./light")
    (row,) = (row for row in comparison.rows if row.metric == "seconds")
    values = [[each.value for each in side] for side in (row.values_base, row.values_new)]
    assert values == [[2, 2], [1, 1]]
    # Recorded again, the side has its service again.
    recordings = [read_recording(bundle) for bundle in sides(lit, "base", "lit")]
    again = record_in_turns(
        recordings, recordings[0].workloads[0], ["a/base.tar", "a/lit.tar"], Changes()
    )
    assert "--service lit=./light" in " ".join(again.words)


def test_a_run_that_lost_its_service_is_discarded_and_counted(lit: Any, read_bundle: Any) -> None:
    # In the second run of "lit" the service ends too early.
    workload = (
        "if test -e on; then echo >>count; fi; "
        "if test -e on -a $(wc -l <count) = 2; then kill -INT $(cat pid); "
        "while test -e on; do sleep 0.02; done; fi; echo took 1"
    )
    (lit.folder / "count").touch()
    done = lit(
        "ab", "-o", "s", "--service", "base=", "--service", "lit=./light", "-n", "3", *QUICK,
        "--metric", NUMBER, "--", "sh", "-c", workload,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reason = "the light went out (EXIT: asked to end)"
    assert f"discarded: {reason}" in done.stderr
    assert "3 runs (3 clean, 0 instrumented), 1 discarded" in done.stderr
    written = read_bundle(lit.folder / "s-lit.tar")
    assert [run["discarded"] for run in written.runs] == [None, reason, None]
    base, lights = sides(lit, "base", "lit")
    comparison = compare_bundles([base, lights])
    said = [each.text for each in comparison.caveats]
    assert f"1 of 3 runs of new discarded: {reason}" in said
    assert not any("failed" in each for each in said)
    new = comparison.sides[1]
    assert (new.runs_clean, new.runs_failed, new.runs_discarded) == (2, 0, 1)
    # A bundle for others does not count it either.
    copy = lit.folder / "copy.tar"
    copy.write_bytes(redact_bundle(lights, PrivateStrings(set())))
    assert [run.succeeded for run in open_bundle(copy).runs] == [True, False, True]


def test_without_a_valid_run_the_result_is_invalid(lit: Any) -> None:
    done = lit(
        "ab", "-o", "s", "--service", "lit=./light", "-n", "2", *QUICK, "--metric", NUMBER, "--",
        "sh", "-c", "kill -INT $(cat pid) && while test -e on; do :; done; echo took 1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    overall = compare_bundles(sides(lit, "base", "lit")).overall
    assert overall.verdict == "invalid"
    assert overall.reason == (
        "no result, because 2 of 2 clean runs of new were discarded: the light went out (EXIT: "
        "asked to end)"
    )
    assert overall.exit_status == 4


def test_a_side_alone_has_a_service_too(lit: Any, read_bundle: Any) -> None:
    done = lit(
        "record", "-o", "s.tar", "--service", "./light", "-n", "1", *QUICK, "--", "cat", "on"
    )
    assert done.returncode == 0, done.stderr
    assert read_bundle(lit.folder / "s.tar").members["boots/0/runs/000/stdout"] == b"on\n"


def test_a_service_that_does_not_get_ready_stops_the_recording(lit: Any) -> None:
    (lit.folder / "light").write_text("#!/bin/sh\necho no bulb >&2; exit 3\n")
    done = lit("ab", "-o", "s", "--service", "lit=./light", *QUICK, "--", "true")
    assert done.returncode == 2
    assert (
        "service of lit failed: waiting for the light to be on, but the program ended (exit status "
        "3: no bulb); run it by hand to see why"
    ) in done.stderr
    assert list(lit.folder.glob("s-*")) == []


def test_an_unknown_service_that_ends_early_discards_the_run(tmp_path: Path) -> None:
    with signals:
        others = children()
        with Watched("new", Service("true"), tmp_path, {}) as watched:
            (pid,) = children() - others
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            watched.end()
        assert watched.why_discard() == "true ended during the run (exit status 0)"
        assert watched.killed_warning() is None
        assert watched.describe() == {
            **describe_program("true", asks_version=False),
            "command": "true",
            "end": "exit status 0",
        }


def test_what_a_service_leaves_running_is_killed(recorder: Any) -> None:
    service = "sh -c 'setsid sleep 7533 & echo $! >pid; wait'"
    done = recorder(
        "record", "-o", "s.tar", "--service", service, "-n", "1", *QUICK, "--",
        "sh", "-c", "while ! test -s pid; do :; done",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not Path("/proc", (recorder.folder / "pid").read_text().strip()).exists()


def test_a_service_that_ignores_sigint_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "STOP_LIMIT_S", 0.2)
    script = f'trap "" INT; touch {tmp_path}/ready; sleep 1000'
    with signals:
        with Watched(None, Service(f"sh -c '{script}'"), tmp_path, {}) as watched:
            while not (tmp_path / "ready").exists():
                pass
            watched.end()
        assert watched.why_discard() is None
    described = watched.describe()
    assert described is not None
    assert described["end"] == "killed by SIGKILL"
    assert watched.killed_warning() == (
        "the service did not end within 0 s of SIGINT and was killed; let the program end on SIGINT"
    )


@pytest.mark.parametrize(
    ("arguments", "names", "services"),
    [
        (["--service", "x=true"], ["base", "x"], [None, "true"]),
        (["--service", "new=true"], ["base", "new"], [None, "true"]),
        (["--service", "a=", "--service", "b=true 1"], ["a", "b"], [None, "true 1"]),
        (["--service", "base=true", "--service", "new="], ["base", "new"], ["true", None]),
        (["--setup", "a=x", "--setup", "b=", "--service", "b=true"], ["a", "b"], [None, "true"]),
        (["--service", "new=true", "--factor", "kernel=k"], ["base", "new"], [None, "true"]),
    ],
)
def test_sides_have_the_services_that_are_given(
    arguments: list[str], names: list[str], services: list[str | None]
) -> None:
    options = make_parser("ab", "schedperf").parse_args(["-o", "s", *arguments])
    settings = read_settings(options)
    assert [setting.name for setting in settings] == names
    assert [each.service and each.service.command for each in settings] == services


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--service", "x=no-such-program"], "--service x: no-such-program: no such program; inst"),
        (["--service", "x='"], '--service x: invalid command "\'": no closing quotation (expecte'),
        (["--service", "x="], "--service x: empty command on all sides (expected a program, e.g."),
        (["--service", "x=true", "--service", "x=true"], "--service x: side given twice; use diff"),
        (["--service", "x=true", "--new-setup", "y"], "--service: cannot be combined with --new-s"),
        (["--feature", "X", "--service", "x=true"], "--feature: cannot be combined with --service"),
        (
            ["--setup", "a=", "--setup", "b=", "--service", "c=true"],
            "--service c: no side of this ",
        ),
    ],
)
def test_services_that_make_no_sense_are_refused(arguments: list[str], complaint: str) -> None:
    options = make_parser("ab", "schedperf").parse_args(["-o", "s", *arguments])
    with pytest.raises(RecordError, match=re.escape(complaint)):
        read_settings(options)


def test_a_service_must_be_executable(tmp_path: Path) -> None:
    program = tmp_path / "scx_a"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(RecordError, match="--service: .*: not executable; make it executable with"):
        read_service("", str(program))


def test_an_empty_service_is_none() -> None:
    assert read_service("base", "  ") is None
