# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by all tests: a generator of bundles, and golden files.

The generator writes what docs/bundle.md says and nothing else, with :mod:`tarfile`, so
that it shares no code with the recorder or with the reader::

    path = make_bundle(tmp_path / "base.tar", runs=[{"time_s": 0.61}, {"time_s": 0.64}])
    path = make_bundle(
        tmp_path / "new.tar.xz",
        label="new",
        host={"kernel": {"release": "6.12.0-new"}},
        runs=[
            {"time_s": 0.61, "point": {"groups": "1"}},
            {"stdout": "nonsense", "point": {"groups": "4"}, "exit_status": 1},
            {"kind": "instrumented", "files": {"perf_profile/perf.data": b"..."}},
        ],
        files={"boots/0/layout/System.map": "..."},
        captures=[{"collector": "schedstat", "path": "boots/0/runs/000/schedstat",
                   "status": "skipped", "reason": "no /proc/schedstat"}],
    )
"""

import contextlib
import fcntl
import functools
import gc
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from schedperf.cli import main
from schedperf.model.comparison import Comparison
from schedperf_generators.kernel import BUILD_ID
from scripts.summary import group_skips
from tests.chromium import start_chromium
from tests.programs import no_process_left

# A deadline would time the machine, and the machine is noisy. Without a random seed nothing depends
# on luck: "dev" and "long" try the same examples each time. "explore" tries others, and prints how
# to repeat what it found: make test-slow PYTEST_OPTIONS="--hypothesis-profile explore".
settings.register_profile("dev", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("long", deadline=None, derandomize=True, max_examples=250)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("dev")

END_TO_END = Path(__file__).parent / "end_to_end"
# A test does what its fixtures do: those that use one of these start programs.
STARTS_PROGRAMS = {"compare_two_recordings", "recorder", "recorder_with", "server", "small_disk"}
# Most characters of a parameter in the name of its test.
LONGEST_ID = 100
# A file with as many unit tests is begun before all system tests.
MANY_TESTS = 100
# These watch or set what the machine has once: its PMU, its breakpoints, its counts, its settings.
WATCHES_MACHINE = {
    "forks_since_boot",
    "needs_bpf",
    "needs_breakpoints",
    "needs_perf",
    "recorded_here",
    "recorded_here_with",
    "run_as_nobody",
    "run_here",
}

# The marks of all tests that were collected, before pytest chose by marks.
COLLECTED_MARKS = pytest.StashKey[Mapping[str, Sequence[str]]]()

Json = dict[str, Any]

HACKBENCH_TEXT = (
    "Running in process mode with {groups} groups using 40 file descriptors each "
    "(== {tasks} tasks)\n"
    "Each sender will pass 100 messages of 100 bytes\n"
    "Time: {time_s:.3f}\n"
)

# A machine that exists only here: every group of host.json, every kind of value.
HOST: Json = {
    "kernel": {
        "release": "6.12.0-base",
        "version": "#1 SMP PREEMPT_DYNAMIC Sat Nov 21 00:00:00 UTC 2026",
        "machine": "x86_64",
        "build_id": "3f1c5a",
        "config_sha256": "c0" * 32,
        "cmdline": "root=/dev/vda ro",
        "taint": 0,
        "lockdown": "none",
        "compiler": "gcc (Debian 12.2.0-14) 12.2.0",
    },
    "cpu": {
        "model": "Example CPU 9000 @ 2.10GHz",
        "vendor": "GenuineIntel",
        "family_model_stepping": "6-85-7",
        "microcode": "0x5003801",
        "count_online": 4,
        "smt": "off",
        "flags_sha256": "f1" * 32,
        "mitigations": {"spectre_v2": "Mitigation: Retpolines"},
        "l1_line_bytes": 64,
    },
    "topology": {
        "cpus": [
            {
                "cpu": cpu,
                "core": cpu,
                "cluster": None,
                "llc": cpu // 2,
                "socket": 0,
                "node": cpu // 2,
            }
            for cpu in range(4)
        ],
        "nodes": {"0": "0-1", "1": "2-3"},
        "distances": [[10, 20], [20, 10]],
    },
    "cpufreq": {
        "driver": "intel_pstate",
        "governor": "performance",
        "epp": "performance",
        "boost": True,
        "min_khz": 800000,
        "max_khz": 2100000,
    },
    "cpuidle": {
        "driver": "intel_idle",
        "governor": "menu",
        "states": [{"name": "C1", "latency_us": 2, "disabled": False}],
    },
    "sched": {
        "autogroup": 0,
        "features": "PLACE_LAG RUN_TO_PARITY",
        "base_slice_ns": 3000000,
        "min_granularity_ns": None,
        "latency_ns": None,
        "wakeup_granularity_ns": None,
        "migration_cost_ns": 500000,
        "preempt": "voluntary",
        "hz": 250,
        "sched_ext": "disabled",
        "schedstats": 0,
        "numa_balancing": 1,
        "rt_runtime_us": 950000,
        "cfs_bandwidth_slice_us": 5000,
    },
    "cgroup": {"version": 2, "path": "/", "depth": 0, "cpu_max": None, "cpus_allowed": "0-3"},
    "memory": {
        "total_bytes": 8 << 30,
        "page_bytes": 4096,
        "thp": "madvise",
        "swap_bytes": 0,
        "hugepages": 0,
    },
    "virtualisation": {
        "kind": "none",
        "emulated": False,
        "grounds": "no hypervisor flag",
        "dmi": None,
    },
    "clock": {"source": "tsc", "available": "tsc hpet acpi_pm"},
    "system": {
        "hostname": "bench01",
        "distro": "Debian GNU/Linux 12 (bookworm)",
        "libc": "glibc 2.36",
        "boot_id": "00000000-0000-4000-8000-000000000000",
        "machine_id_sha256": "a1" * 32,
    },
    "tools": {"perf": "perf version 6.12.0", "hackbench": "hackbench 2.40"},
    "state": {
        "loadavg": [0.0, 0.01, 0.05],
        "throttle_counts": {"cpu0": 0},
        "uptime_s": 3600.0,
        "memory_available_bytes": 7 << 30,
        "thermal": None,
        "processes": 120,
    },
    "missing": {
        "sched.min_granularity_ns": "not in this kernel",
        "sched.latency_ns": "not in this kernel",
        "sched.wakeup_granularity_ns": "not in this kernel",
        "cgroup.cpu_max": "no limit file in the root group",
        "virtualisation.dmi": "not readable",
        "state.thermal": "no thermal zones",
    },
}


def merge(into: Json, changes: Mapping[str, Any]) -> Json:
    """Return a copy of a JSON object with changes laid over it, group by group."""
    merged = deepcopy(into)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def to_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def to_bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def capture_entry(collector: str, path: str, content: bytes) -> Json:
    return {
        "collector": collector,
        "path": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "seconds": 0.01,
        "status": "ok",
        "reason": None,
    }


def owner(path: str) -> str:
    """Say which collector writes a member: the directory it lies in, else by its name."""
    parts = path.split("/")
    below = parts[4:] if "runs" in parts else parts[2:]
    plain = {"run.json": "record", "host.json": "host"}
    return below[0] if len(below) > 1 else plain.get(below[0], "workload")


def point_key(point: Mapping[str, str]) -> str:
    return ",".join(f"{name}={point[name]}" for name in sorted(point))


def hackbench_text(point: Mapping[str, str], time_s: float) -> str:
    """Write what hackbench prints when it took ``time_s`` seconds."""
    groups = int(point.get("groups", "4"))
    return HACKBENCH_TEXT.format(groups=groups, tasks=groups * 40, time_s=time_s)


def run_record(order: int, chosen: Mapping[str, Any], common: Json) -> Json:
    """Return one run.json without its captures; every key can be chosen."""
    time_s = chosen.get("time_s", 0.6)
    point = chosen.get("point", {})
    record: Json = {
        "boot": 0,
        "run": order,
        "boot_id": "00000000-0000-4000-8000-000000000000",
        **common,
        "command": common["workload"].format(**point).split(),
        "point": point,
        "point_key": point_key(point),
        "kind": "clean",
        "warmup": False,
        "block": order,
        "round": None,
        "side": None,
        "order": order,
        "session": "session-of-tests",
        "start": f"2026-11-21T01:{order // 60 % 60:02d}:{order % 60:02d}.000000Z",
        "start_monotonic_s": 1000.0 + order,
        "exit_status": 0,
        "signal": None,
        "failure": None,
        "wall_s": time_s + 0.01,
        "rusage": None,
        "cgroup": ["0::/"],
    }
    optional = {
        *(
            "workload",
            "left_behind",
            "output_left_out",
            "factors",
            "service",
            "discarded",
            "retest",
        ),
    }
    keys = {key: value for key, value in chosen.items() if key in record or key in optional}
    return {**record, **keys}


def run_members(
    order: int, chosen: Mapping[str, Any], common: Json
) -> tuple[dict[str, bytes], Json]:
    """Return one run's members by name, and its run.json."""
    record = run_record(order, chosen, common)
    folder = f"boots/{record['boot']}/runs/{record['run']:03d}"
    text = chosen.get("stdout", hackbench_text(record["point"], chosen.get("time_s", 0.6)))
    files = {"stdout": text, "stderr": chosen.get("stderr", ""), **chosen.get("files", {})}
    members = {f"{folder}/{name}": to_bytes(content) for name, content in files.items()}
    record["captures"] = [capture_entry(owner(name), name, members[name]) for name in members]
    return {**members, f"{folder}/run.json": to_json(record)}, record


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    """Write members, in this order, compressed as the suffix says."""
    suffix = path.suffix.removeprefix(".")
    mode = f"w:{suffix}" if suffix in {"gz", "xz"} else "w"
    with tarfile.open(path, mode, format=tarfile.USTAR_FORMAT) as archive:  # type: ignore[call-overload] # the mode is not literal
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def bundle_members(
    *,
    runs: Sequence[Mapping[str, Any]] | int = 5,
    host: Mapping[str, Any] | None = {},  # None means no host.json
    hosts: Mapping[int, Mapping[str, Any]] = {},
    files: Mapping[str, bytes | str] = {},
    captures: Sequence[Mapping[str, Any]] = (),
    label: str = "base",
    workload: str = "hackbench -l 100 -g {groups}",
    treatment: Sequence[str] = (),
    setup: str | None = None,
    metric: Sequence[Mapping[str, str]] = (),
    manifest: Mapping[str, Any] | None = {},  # None means no manifest
) -> dict[str, bytes]:
    """Return the members of a bundle by name, the manifest last.

    :param runs: what is chosen of each run: any key of run.json, ``time_s`` (hackbench prints it),
        ``stdout``, ``stderr``, ``files`` below the run's directory; a run without a point has the
        first point that another one has. A number makes that many runs of about 0.6 s
    :param host: changes to ``HOST``, for every boot; None leaves host.json out
    :param hosts: further changes, by boot
    :param files: more members, by full name
    :param captures: more entries of the manifest: captures that were skipped or failed
    :param manifest: changes to the manifest; None leaves it out
    """
    chosen: Sequence[Mapping[str, Any]] = (
        [{"time_s": 0.6 + 0.01 * (i % 3)} for i in range(runs)] if isinstance(runs, int) else runs
    )
    point: Mapping[str, str] = next((run["point"] for run in chosen if run.get("point")), {})
    common: Json = {
        "workload": workload if point else workload.replace("{groups}", "4"),
        "label": label,
        "setup": setup,
        "treatment": list(treatment),
        "tool_version": "0.1.0",
        "metric": [dict(rule) for rule in metric],
    }
    made = [run_members(order, {"point": point, **run}, common) for order, run in enumerate(chosen)]
    records = [record for _, record in made]
    members: dict[str, bytes] = {}
    build_ids: dict[int, str | None] = {}
    for boot in sorted({record["boot"] for record in records} | {0}):
        if host is not None:
            facts = merge(merge(HOST, host), hosts.get(boot, {}))
            members[f"boots/{boot}/host.json"] = to_json(facts)
            build_ids[boot] = facts["kernel"].get("build_id")
    members.update({name: to_bytes(content) for name, content in files.items()})
    for run, record in made:
        members.update(of_kernel(run, build_ids.get(record["boot"])))
    if manifest is not None:
        entries = [capture_entry(owner(name), name, members[name]) for name in members]
        skipped = [{"sha256": None, "bytes": None, "seconds": None, **entry} for entry in captures]
        whole = make_manifest(records, common, [*entries, *skipped])
        members["manifest.json"] = to_json({**whole, **manifest})
    return members


def of_kernel(run: Mapping[str, bytes], build_id: object) -> Mapping[str, bytes]:
    """Replace the build id of the generated kernel in the perf.data of a run.

    :param build_id: of the bundle's kernel, hexadecimal; no other value replaces anything
    """
    if not isinstance(build_id, str):
        return run
    raw = bytes.fromhex(build_id)
    generated, own = (
        each.ljust(20, b"\0") + bytes((len(each), 0, 0, 0)) for each in (BUILD_ID, raw)
    )
    return {
        name: content.replace(generated, own) if name.endswith("perf.data") else content
        for name, content in run.items()
    }


def make_manifest(records: Sequence[Json], common: Json, captures: Sequence[Json]) -> Json:
    workloads = dict.fromkeys(record["workload"] for record in records)
    points = dict.fromkeys(record["point_key"] for record in records)
    return {
        **common,
        "format": "schedperf-bundle",
        "version": {"major": 1, "minor": 0},
        "created": "2026-11-21T01:00:00.000000Z",
        "workload": list(workloads) or [common["workload"]],
        "points": list(points) or [""],
        "complete": True,
        "incomplete_reason": None,
        "planned_runs": sum(not record["warmup"] for record in records),
        "captures": list(captures),
    }


def _make_bundle(path: Path, **chosen: Any) -> Path:
    return write_tar(path, bundle_members(**chosen).items())


@pytest.fixture(scope="session")
def make_bundle() -> Callable[..., Path]:
    """Write a bundle: ``make_bundle(path, **what_bundle_members_takes) -> path``."""
    return _make_bundle


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run no other system test beside one that changes a setting: they record that setting.

    Guests have settings of their own.
    """
    marks = {mark.name for mark in item.iter_markers()}
    is_alone = "alone" in marks
    if not is_alone and ("system" not in marks or "vm" in marks):
        return (yield)
    mode = fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH
    # All workers lock the same two files. A test that waits for the machine holds the gate, so that
    # those behind it cannot take the machine first, again and again.
    assert item.config.inipath is not None
    with locked(item.config.rootpath, mode, gate=item.config.inipath):
        return (yield)


@contextlib.contextmanager
def locked(path: Path, mode: int, *, gate: Path) -> Iterator[None]:
    """Hold a lock of a file or directory, got through the lock of another one."""
    entry, machine = (os.open(one, os.O_RDONLY | os.O_CLOEXEC) for one in (gate, path))
    try:
        fcntl.flock(entry, fcntl.LOCK_EX)
        fcntl.flock(machine, mode)
        os.close(entry)
        yield
    finally:
        os.close(machine)


def pytest_configure() -> None:
    """Give workers and the programs that they start one thread for BLAS: workers use all CPUs."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return a short id for a long text: a hostile one has megabytes, which each worker reports."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--by-file``, which is for many short tests."""
    parser.addoption(
        "--by-file",
        action="store_true",
        help="with --dist loadgroup: one worker runs all tests of a file, the longest files first",
    )


class ByFile(LoadGroupScheduling):  # type: ignore[misc] # xdist ships no types
    """Give all tests of a file without a group to one worker: it makes their fixtures once.

    It looks at each unit of work whenever a test ends; test by test, they would be thousands.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Return the group of a test, or its file."""
        scope: str = super()._split_scope(nodeid)
        return scope.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    """Schedule by file, if asked to; files stay in the order of :func:`_rank`."""
    if not config.getoption("by_file"):
        return None
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they use, before pytest chooses by marks and xdist by groups."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if used & (STARTS_PROGRAMS | WATCHES_MACHINE) or END_TO_END in item.path.parents:
            item.add_marker(pytest.mark.system)
        is_alone = item.get_closest_marker("alone") is not None
        if (is_alone or used & WATCHES_MACHINE) and item.get_closest_marker("vm") is None:
            # One worker runs them, one after another.
            item.add_marker(pytest.mark.xdist_group("machine"))
    config.stash[COLLECTED_MARKS] = {
        item.nodeid: [mark.name for mark in item.iter_markers()] for item in items
    }
    if config.getoption("by_file"):
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: _rank(item, sizes[item.path]))


def _rank(item: pytest.Item, tests: int) -> tuple[int, int]:
    """Return the place of a test among others, so that workers wait little for each other.

    Those that no system test may run beside begin while the other workers have unit tests. System
    tests take longest, so they come before other unit tests, and large files before small ones.

    :param tests: in the file of this one
    """
    marks = {mark.name for mark in item.iter_markers()}
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args == ("machine",):
        return (0, 0) if "alone" in marks else (1, 0)
    if "system" in marks:
        return (3, 0)
    return (2, -tests) if tests >= MANY_TESTS else (4, -tests)


def pytest_collection_finish() -> None:
    """Keep the collected tests from the garbage collector, which would look at them each time."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason of skips once, with the number of tests, where pytest prints each place."""
    found = [report.longrepr for report in terminalreporter.getreports("skipped")]
    # pytest has the file, the line and the reason.
    reasons = [str(place[2]).removeprefix("Skipped: ") for place in found]
    if reasons:
        terminalreporter.section("skipped tests, by reason")
        for line in group_skips(reasons):
            terminalreporter.write_line(line)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def run_cli(
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in this process: ``run_cli("show", path).stdout``.

    A process of its own imports for a second; it is for signals, descriptors and the way it ends.
    """

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        words = [str(argument) for argument in arguments]
        status = main(words)
        return subprocess.CompletedProcess(words, status, *capsys.readouterr())

    return run


# Examples whose bundles have other names than base and new.
EXAMPLE_SIDES = {"three-kernels": ("tip", "cluster", "repair")}


def _compare_example(name: str) -> Comparison:
    # The engine takes seconds to import, and most tests do without.
    from schedperf.commands._compare_request import CompareRequest  # noqa: PLC0415
    from schedperf.model.verdict import MARGIN  # noqa: PLC0415

    # Commands in reports quote these paths, so they are the same wherever the checkout is.
    names = EXAMPLE_SIDES.get(name, ("base", "new"))
    sides = tuple(Path(f"examples/{name}/{side}.tar.xz") for side in names)
    request = CompareRequest(
        paths=sides, history=(), margin=MARGIN, allowed=(), base=None, are_tables=False
    )
    with contextlib.chdir(Path(__file__).parents[1]):
        return request.compare()


@pytest.fixture(scope="session")
def compared_example(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str], Comparison]:
    """Return what compare finds in an example: ``compared_example("deep-cgroup")``.

    All workers of one test run share one analysis of each.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "compared"
    folder.mkdir(exist_ok=True)

    @functools.cache
    def compared(name: str) -> Comparison:
        path = folder / f"{name}.pickle"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_bytes(pickle.dumps(_compare_example(name)))
            found = pickle.loads(path.read_bytes())  # noqa: S301 # of this test run
        assert isinstance(found, Comparison)
        return found

    return compared


@pytest.fixture(autouse=True)
def _no_width_of_whoever_runs_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    # An exported COLUMNS is the reader's wish for the width of a text.
    monkeypatch.delenv("COLUMNS", raising=False)
    # The library readline, if a debugger loads it, sets it for child processes only.
    os.unsetenv("COLUMNS")


@pytest.fixture(autouse=True, scope="session")
def _no_process_outlives_the_tests() -> Iterator[None]:
    with no_process_left():
        yield


@pytest.fixture(autouse=True, scope="session")
def _python3_is_no_wrapper(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Programs that manage versions of Python put a shell script on the PATH, which takes longer
    # than Python itself. Hundreds of processes of the tests are a `python3`.
    folder = tmp_path_factory.mktemp("python")
    (folder / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


@pytest.fixture(autouse=True, scope="session")
def _signals_as_a_terminal_gives_them() -> None:
    # What a script starts with "&" ignores SIGINT, and so does all that it starts in its turn.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def make_members() -> Callable[..., dict[str, bytes]]:
    """Return a bundle's members by name, for tests that damage them before ``make_tar``."""
    return bundle_members


@pytest.fixture(scope="session")
def make_tar() -> Callable[[Path, Iterable[tuple[str, bytes]]], Path]:
    """Write (name, content) pairs as a tar, as they are: ``make_tar(path, pairs) -> path``."""
    return write_tar


@pytest.fixture
def _golden_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    # The plugins take a second to import, and most tests do without.
    from tests.golden_plugins import use_golden_plugins  # noqa: PLC0415

    use_golden_plugins(monkeypatch)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start Chromium once per process, or skip where it cannot be driven."""
    with start_chromium() as started:
        yield started
