# SPDX-License-Identifier: GPL-2.0-or-later
"""Set-up, make targets and .ci/run: they say what they do, and every test is run by one target."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import COLLECTED_MARKS

ROOT = Path(__file__).parents[1]
NEVER_INSTALLED = "schedperf-tests-need-no-such-package"
NOBODY = 65534
TEST_TARGETS = ("test", "test-browser", "test-vm", "test-slow")
# What a make that runs these tests leaves in the environment, and is not meant for another one.
OF_MAKE = ("PYTEST_OPTIONS", "EACH_ONCE")
# Writes {node id: names of marks} of all tests.
LIST_MARKS = """
import json, os, pathlib
def pytest_collection_finish(session):
    marks = {item.nodeid: [mark.name for mark in item.iter_markers()] for item in session.items}
    pathlib.Path(os.environ["MARKS"]).write_text(json.dumps(marks))
"""


def copy_checkout(folder: Path) -> Path:
    """Copy what the set-up reads into a directory whose name has a blank."""
    checkout = folder / "a checkout"
    for part in ("scripts", "requirements", "collectors"):
        shutil.copytree(ROOT / part, checkout / part)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout / name)
    (folder / "tmp").mkdir()
    return checkout


def set_up(
    checkout: Path, purpose: str, *, prefix: tuple[str, ...] = (), env: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup without a terminal; its temporary files would be in ../tmp."""
    return subprocess.run(
        [*prefix, "scripts/setup", purpose],
        cwd=checkout,
        env=os.environ | {"TMPDIR": str(checkout.parent / "tmp"), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("latest", "line"),
    [("true", r"creating .venv, \d s"), ("echo pip", r"creating .venv, \d s: pip")],
)
def test_a_progress_line_ends_with_the_step_if_there_is_one(latest: str, line: str) -> None:
    text = (ROOT / "scripts" / "setup").read_text()
    function = text[text.index("progress() {") : text.index("log_latest()")]
    start = "every_s=0 work=$(mktemp -d); say() { echo setup: $* >&2; }; latest() {"
    script = f"{start} {latest}; }}\n{function}\nprogress 'creating .venv' latest sleep 0.5"
    ran = subprocess.run(
        ["sh", "-euc", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(f"setup: {line}", ran.stderr.splitlines()[0])


def temporary_files(checkout: Path) -> list[Path]:
    return list((checkout.parent / "tmp").iterdir())


@pytest.fixture
def lacking() -> Iterator[Path]:
    """Return a checkout, open to all users, that needs a Debian package which is not installed."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("this is not Debian")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkout = copy_checkout(folder)
        (checkout / "requirements" / "debian-check.txt").write_text(f"{NEVER_INSTALLED}\n")
        folder.chmod(0o755)
        (folder / "tmp").chmod(0o777)
        yield checkout


def test_an_unknown_purpose_is_refused_with_those_that_are_known() -> None:
    done = set_up(ROOT, "everything")
    assert done.returncode == 2
    assert "setup: unknown purpose 'everything' (expected demo, lint, check" in done.stderr


def test_sudo_without_a_terminal_is_named(lacking: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user whom sudo refuses")
    if shutil.which("sudo") is None:
        pytest.skip("sudo is not installed; apt-get install sudo")
    nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    done = set_up(lacking, "check", prefix=nobody)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "sudo needs a terminal to ask for a password" in line
    assert line.endswith(
        f"run this as root once: apt-get install --no-install-recommends {NEVER_INSTALLED}"
    )
    assert temporary_files(lacking) == []


def test_a_failure_of_apt_is_shown_and_leaves_no_file(lacking: Path) -> None:
    # An apt of its own, which knows no packages and asks nobody.
    state = lacking.parent / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "dpkg").mkdir()
    (state / "dpkg" / "status").touch()
    config = state / "apt.conf"
    config.write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "/dev/null";\n'
        f'Dir::State::Lists "{state}/lists";\nDir::State::Status "{state}/dpkg/status";\n'
        f'Dir::Cache "{state}";\nAPT::Sandbox::User "root";\n'
    )
    as_root = () if os.geteuid() == 0 else ("unshare", "--map-root-user")
    if as_root and subprocess.run([*as_root, "true"], capture_output=True).returncode != 0:
        pytest.skip("neither root nor user namespaces")
    done = set_up(lacking, "check", prefix=as_root, env={"APT_CONFIG": str(config)})
    assert done.returncode == 2, done.stderr
    assert f"    E: Unable to locate package {NEVER_INSTALLED}" in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "setup: apt-get cannot install the packages, see above; "
        f"run: apt-get install {NEVER_INSTALLED}"
    )
    assert temporary_files(lacking) == []
    assert not (lacking / ".venv").exists()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout whose set-up was ended while it made the environment."""
    checkout = copy_checkout(tmp_path_factory.mktemp("setup"))
    process = subprocess.Popen(
        ["scripts/setup", "demo"],
        cwd=checkout,
        env=os.environ | {"TMPDIR": str(checkout.parent / "tmp")},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "setup: creating .venv\n"
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert temporary_files(checkout) == []
    return checkout


@pytest.fixture(scope="module")
def installed(interrupted: Path) -> tuple[Path, str]:
    """Return a checkout that is set up for the demo, and what the set-up said."""
    done = set_up(interrupted, "demo")
    assert done.returncode == 0, done.stderr
    return interrupted, done.stderr


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("setup")
class TestInstalled:
    def test_it_goes_on_after_an_interruption(self, installed: tuple[Path, str]) -> None:
        checkout, _ = installed
        subprocess.run(
            [".venv/bin/python", "-c", "import numpy, schedperf_collectors"],
            cwd=checkout,
            check=True,
        )
        assert temporary_files(checkout) == []

    def test_it_says_how_much_it_installs(self, installed: tuple[Path, str]) -> None:
        _, said = installed
        assert re.search(r"^setup: installing \d+ Python packages, [1-9]\d* MB", said, re.MULTILINE)
        assert re.search(r"^setup: ready after \d+ s; .venv has [1-9]\d* MB$", said, re.MULTILINE)

    def test_nothing_to_do_is_silent_and_cheap(self, installed: tuple[Path, str]) -> None:
        checkout, _ = installed
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = set_up(checkout, "demo")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        # Time of a CPU, which does not depend on what else runs.
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5

    def test_settings_of_pip_hold_for_uv(self, installed: tuple[Path, str], tmp_path: Path) -> None:
        checkout, _ = installed
        config = tmp_path / "pip.conf"
        config.write_text(
            "[global]\nindex-url = https://example.org/simple\ntimeout = 7\n"
            f"[install]\nextra-index-url =\n  https://a.example.org\n  https://b.example.org\n"
            f"find-links = {tmp_path} {tmp_path}/missing https://example.org/wheels\n"
        )
        done = subprocess.run(
            [".venv/bin/python", "scripts/uv_settings.py"],
            cwd=checkout,
            env={"PIP_CONFIG_FILE": str(config), "PIP_CERT": "/a b.pem", "UV_INDEX": "mine"},
            capture_output=True,
            text=True,
            check=True,
        )
        exported = dict(line.split("=", 1) for line in shlex.split(done.stdout) if "=" in line)
        del exported["UV_SYSTEM_CERTS"]
        assert exported == {
            "UV_DEFAULT_INDEX": "https://example.org/simple",
            "UV_HTTP_TIMEOUT": "7",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_FIND_LINKS": f"{tmp_path},https://example.org/wheels",
            "SSL_CERT_FILE": "/a b.pem",
        }


def without_make() -> dict[str, str]:
    """Return the environment without what a make that runs these tests put there."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("MAKE") and key not in OF_MAKE
    }


def make(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=cwd,
        env=without_make(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_guide_names_every_target_that_make_helps_with() -> None:
    targets = [line.split()[0] for line in make("help").splitlines()]
    # "test-vm: WORKERS = ..." sets a variable of a target.
    rules = r"^([a-z-]+):(?! [A-Z]+ =)"
    phony = re.findall(rules, (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(targets) == sorted(name for name in phony if not name.startswith("lint-"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [name for name in targets if f"`make {name}`" not in text] == []


def pytest_words(target: str, *variables: str) -> list[str]:
    """Return the command line with which ``make TARGET`` starts pytest."""
    (command,) = [
        line for line in make("-n", target, *variables).splitlines() if "-m pytest" in line
    ]
    return shlex.split(command)


@pytest.fixture(scope="module")
def marks_of_tests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Sequence[str]]:
    """Return the names of the marks of all tests by node id."""
    config = request.config
    if [Path(one).resolve() for one in config.args] == [ROOT / "tests"]:
        # This test run has collected them all, and then chosen by marks.
        return config.stash[COLLECTED_MARKS]
    folder = tmp_path_factory.mktemp("marks")
    (folder / "list_marks.py").write_text(LIST_MARKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "list_marks"],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "PYTHONPATH": str(folder),
            "MARKS": str(folder / "marks.json"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    marks: dict[str, list[str]] = json.loads((folder / "marks.json").read_text())
    return marks


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("marks")
class TestSelections:
    def selected(
        self, target: str, marks_of_tests: Mapping[str, Sequence[str]], *variables: str
    ) -> set[str]:
        words = pytest_words(target, *variables)
        text = words[len(words) - words[::-1].index("-m")]
        places = tuple(
            f"{word}::" if word.endswith(".py") else f"{word}/"
            for word in words
            if word.startswith("tests")
        )
        names = set(re.findall(r"\w+", text)) - {"and", "or", "not"}
        return {
            test
            for test, marks in marks_of_tests.items()
            if test.startswith(places or "tests/")
            and eval(text, {name: name in marks for name in names})  # noqa: S307 # our own Makefile
        }

    def runs(
        self, marks_of_tests: Mapping[str, Sequence[str]], *variables: str
    ) -> dict[str, list[str]]:
        """Return the targets that run each test."""
        targets = {name: self.selected(name, marks_of_tests, *variables) for name in TEST_TARGETS}
        return {
            test: [name for name, tests in targets.items() if test in tests]
            for test in marks_of_tests
        }

    def test_every_test_is_run_by_exactly_one_target(
        self, marks_of_tests: Mapping[str, Sequence[str]]
    ) -> None:
        runs = self.runs(marks_of_tests)
        twice = {
            test
            for test, marks in marks_of_tests.items()
            if "property" in marks and not {"slow", "repeats"} & {*marks}
        }
        assert {test: runs[test] for test in twice if runs[test] != ["test", "test-slow"]} == {}
        others = {test: names for test, names in runs.items() if test not in twice}
        assert {test: names for test, names in others.items() if len(names) != 1} == {}

    def test_ci_runs_every_test_once(self, marks_of_tests: Mapping[str, Sequence[str]]) -> None:
        assert 'make "$1" EACH_ONCE=1 ' in (ROOT / ".ci" / "run").read_text()
        runs = self.runs(marks_of_tests, "EACH_ONCE=1")
        repeats = {test for test, marks in marks_of_tests.items() if "repeats" in marks}
        others = {test: names for test, names in runs.items() if test not in repeats}
        assert {test: names for test, names in others.items() if len(names) != 1} == {}
        assert {test: runs[test] for test in repeats if runs[test]} == {}

    def test_paths_of_the_caller_replace_those_of_the_target(self) -> None:
        words = pytest_words("test-vm", "PYTEST_OPTIONS=-x tests/end_to_end/test_guest_boots.py")
        assert [word for word in words if word.startswith("tests")] == [
            "tests/end_to_end/test_guest_boots.py"
        ]

    def test_check_is_a_part_of_test(self, marks_of_tests: Mapping[str, Sequence[str]]) -> None:
        check = self.selected("check", marks_of_tests)
        assert check < self.selected("test", marks_of_tests)
        assert len(check) > len(marks_of_tests) / 2


def test_tests_of_a_group_share_a_worker(tmp_path: Path) -> None:
    # Guests and pages are opened once per worker. Releases of pytest and xdist that do not fit
    # each other ignore groups without a word.
    (tmp_path / "test_groups.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('number', range(16))\n"
        "@pytest.mark.xdist_group('guest')\n"
        "def test_grouped(number, record_property):\n"
        "    record_property('worker', os.environ['PYTEST_XDIST_WORKER'])\n"
        "@pytest.mark.parametrize('number', range(16))\n"
        "def test_other(number): pass\n"
    )
    assert "--dist loadgroup" in " ".join(pytest_words("test-vm"))
    result = tmp_path / "result.xml"
    options = ["--numprocesses", "4", "--dist", "loadgroup", f"--junit-xml={result}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_groups.py"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
        capture_output=True,
        check=True,
    )
    cases = ET.parse(result).iter("testcase")  # noqa: S314 # written by pytest above
    workers = [case.find(".//property") for case in cases if "grouped" in case.get("name", "")]
    assert len(workers) == 16
    assert len({worker.get("value") for worker in workers if worker is not None}) == 1


def test_a_worker_runs_all_tests_of_a_file_and_one_all_that_run_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import (\n"
        "    pytest_addoption, pytest_collection_modifyitems, pytest_xdist_make_scheduler\n"
        ")\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone\n  system\n")
    files = [f"test_{name}" for name in "abcdef"]
    for file in files:
        (tmp_path / f"{file}.py").write_text(
            "import os, pytest\n"
            "alone = pytest.param(5, marks=[pytest.mark.alone, pytest.mark.system])\n"
            "@pytest.mark.parametrize('number', [*range(5), alone])\n"
            "def test_it(number, record_property):\n"
            "    record_property('run', f'{os.environ[\"PYTEST_XDIST_WORKER\"]} {number}')\n"
        )
    assert "--by-file" in pytest_words("test")
    assert "--by-file" in pytest_words("check")
    result = tmp_path / "result.xml"
    options = ["--numprocesses", "3", "--dist", "loadgroup", "--by-file", f"--junit-xml={result}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "."],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    workers: dict[str, set[str]] = {name: set() for name in (*files, "alone")}
    for case in ET.parse(result).iter("testcase"):  # noqa: S314 # written by pytest above
        run = case.find(".//property")
        assert run is not None
        worker, number = run.get("value", "").split()
        workers["alone" if number == "5" else case.get("classname", "")].add(worker)
    assert {name: len(found) for name, found in workers.items()} == dict.fromkeys(workers, 1)


def test_a_test_that_changes_the_machine_runs_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_protocol\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone\n  system\n  vm\n")
    (tmp_path / "test_alone.py").write_text(
        "import pathlib, time, pytest\n"
        "pytestmark = pytest.mark.system\n"
        "done = pathlib.Path('done')\n"
        "@pytest.mark.vm\n"
        "def test_guest():\n"
        "    # The one that runs alone does not wait for it.\n"
        "    end = time.monotonic() + 60\n"
        "    while not done.exists():\n"
        "        assert time.monotonic() < end\n"
        "        time.sleep(0.01)\n"
        "one = pytest.param(20, marks=pytest.mark.alone)\n"
        "@pytest.mark.parametrize('number', [*range(20), one, *range(21, 40)])\n"
        "def test_it(number, record_property):\n"
        "    begin = time.monotonic()\n"
        "    time.sleep(0.05)\n"
        "    record_property('span', f'{number} {begin} {time.monotonic()}')\n"
        "    if number == 20: done.touch()\n"
    )
    result = tmp_path / "result.xml"
    inherited = {key: one for key, one in os.environ.items() if not key.startswith("PYTEST")}
    options = ["--numprocesses", "4", "--dist", "worksteal", f"--junit-xml={result}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "."],
        cwd=tmp_path,
        env=inherited | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    found = ET.parse(result).iter("property")  # noqa: S314 # written by pytest above
    texts = [one.get("value", "").split() for one in found if one.get("name") == "span"]
    spans = {int(number): (float(begin), float(end)) for number, begin, end in texts}
    begin, end = spans.pop(20)
    assert len(spans) == 39
    assert all(ended <= begin or began >= end for began, ended in spans.values())


def test_reasons_of_skips_are_listed_once(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    (tmp_path / "test_skips.py").write_text(
        "import pytest\n"
        "@pytest.mark.skipif(True, reason='needs a PMU')\n"
        "def test_mark(): pass\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_call(number): pytest.skip('needs\\n root')\n"
    )
    (tmp_path / "test_module.py").write_text(
        "import pytest\npytest.skip('needs root', allow_module_level=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-c", ROOT / "pyproject.toml", tmp_path],
        cwd=tmp_path,
        env={key: one for key, one in os.environ.items() if not key.startswith("PYTEST")}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    *_, title, first, second, last = done.stdout.splitlines()
    assert "skipped tests, by reason" in title
    assert (first, second) == ("     3  needs root", "     1  needs a PMU")
    assert "4 skipped" in last
    assert "SKIPPED" not in done.stdout


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """Return a directory with .ci/run, and targets of which one passes, one fails, one hangs."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "test_good.py").write_text(
        "import pytest\ndef test_passes(): pass\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "def test_skips(number): pytest.skip('needs root' if number else 'needs a PMU')\n"
    )
    (tmp_path / "test_bad.py").write_text("def test_fails(): assert False\n")
    (tmp_path / "Makefile").write_text(
        f"good bad:\n\t@{shlex.quote(sys.executable)} -m pytest -q -p no:xdist "
        "$(PYTEST_OPTIONS) test_$@.py\nlint:\n\t@true\nhang:\n\t@sleep 60\n"
    )
    return tmp_path


def run_ci(folder: Path, targets: str, limit_s: int = 600) -> subprocess.CompletedProcess[str]:
    chosen = {
        "CI_SETUPS": "",
        "CI_TARGETS": targets,
        "CI_LIMIT_S": str(limit_s),
        "PYTHON": sys.executable,
    }
    return subprocess.run(
        [".ci/run"], cwd=folder, env=without_make() | chosen, capture_output=True, text=True
    )


def test_ci_runs_all_targets_and_sums_up(ci: Path) -> None:
    done = run_ci(ci, "bad lint good")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[-1] == "1 passed, 1 failed, 3 skipped"
    assert "ci: failed: bad" in lines
    skips = lines.index("skipped tests, by reason:")
    assert lines[skips + 1 : -1] == ["     2  needs root", "     1  needs a PMU"]
    slowest = lines[lines.index("the 10 slowest tests:") + 1 : skips]
    assert sorted(line.split()[-1] for line in slowest) == [
        "test_bad::test_fails",
        "test_good::test_passes",
        "test_good::test_skips[0]",
        "test_good::test_skips[1]",
        "test_good::test_skips[2]",
    ]
    assert [line.split()[-1] for line in lines if re.match(r" +\d+ s  make ", line)] == [
        "bad",
        "lint",
        "good",
    ]


def test_ci_passes_when_all_targets_pass(ci: Path) -> None:
    done = run_ci(ci, "lint good")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 3 skipped"


def test_ci_runs_joined_targets_at_the_same_time(ci: Path) -> None:
    # Each waits for the other one.
    os.mkfifo(ci / "pipe")
    with (ci / "Makefile").open("a") as makefile:
        makefile.write("one:\n\t@echo first >pipe\ntwo:\n\t@cat pipe; false\n")
    done = run_ci(ci, "one+two good", limit_s=60)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert {"one: ==== make one", "two: ==== make two", "two: first", "==== make good"} <= {*lines}
    assert "ci: failed: two" in lines
    assert lines[-1] == "1 passed, 0 failed, 3 skipped"


def test_ci_names_the_target_that_ran_over(ci: Path) -> None:
    done = run_ci(ci, "hang lint", limit_s=1)
    assert done.returncode == 1
    over = [line for line in done.stdout.splitlines() if "ran over" in line]
    assert over[0].startswith("ci: make hang: ran over the limit of 1 s")
