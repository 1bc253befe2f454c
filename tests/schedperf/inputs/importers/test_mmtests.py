# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of mmtests become boots and runs, and every number is that of the source."""

import gzip
import lzma
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.importers import Imported
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values
from schedperf_generators.mmtests import (
    FIRST_JIFFIES,
    GROUPS,
    HZ,
    RUNS,
    Benchmark,
    messaging,
    unixbenchd,
    write_iteration,
    write_results,
)
from schedperf_reports.formats import Options, find_format
from schedperf_reports.verdict.comparable import describe_machines

TEXTS = Path(__file__).parents[3] / "data" / "benchmarks"
START = 1_735_689_600


def values_of(path: Path) -> list[tuple[str, str, str, float]]:
    """Return workload, point, metric and value of each run, as a comparison reads them."""
    with Opener() as opener:
        table = read_run_values(name_sides([opener.open(Path(f"mmtests:{path}"))])).table
        columns = ["workload", "point", "metric", "value"]
        return [(str(a), str(b), str(c), float(str(d))) for a, b, c, d in table.rows(columns)]


def read(path: Path) -> Imported:
    return read_results("mmtests", path)[0]


def one_iteration(folder: Path, logs: Mapping[str, str], test: str = "sysbenchcpu") -> None:
    write_iteration(folder, [Benchmark(name=test, logs=logs)], release="6.12.0", start=START)


def real(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text()


def test_every_number_is_that_of_the_source(tmp_path: Path) -> None:
    write_results(tmp_path / "6.12", release="6.12.0", seconds=0.06, boots=3, seed=7)
    expected = [
        ("hackbench-process-pipes", f"groups={groups}", "sched/messaging time", time_s)
        for groups in GROUPS
        for boot in range(3)
        for time_s in _times(tmp_path / f"6.12/iter-{boot}", groups)
    ]
    assert len(expected) == 3 * len(GROUPS) * RUNS
    assert values_of(tmp_path / "6.12") == expected


def _times(iteration: Path, groups: int) -> list[float]:
    log = iteration / "hackbench-process-pipes" / "logs" / f"hackbench-{groups}"
    words = [line.split() for line in log.read_text().splitlines()]
    return [float(line[2]) for line in words if line[:2] == ["Total", "time:"]]


def test_a_restart_of_jiffies_is_a_boot(tmp_path: Path) -> None:
    test = Benchmark(name="hackbench-process-pipes", logs={"hackbench-1": messaging(1, [0.1, 0.2])})
    # The second iteration follows 600 s after the first; before the third the machine restarts.
    for number, jiffies in enumerate((9_000, 9_000 + 600 * HZ, 9_000)):
        write_iteration(
            tmp_path / f"iter-{number}",
            [test],
            release="6.12.0",
            start=START + 600 * number,
            jiffies=FIRST_JIFFIES + jiffies,
        )
    assert [len(boot.runs) for boot in read(tmp_path).boots] == [4, 2]


def test_a_longer_uptime_after_a_restart_is_a_boot(tmp_path: Path) -> None:
    test = Benchmark(name="hackbench-process-pipes", logs={"hackbench-1": messaging(1, [0.1])})
    for number, uptime_s in enumerate((50, 3_000)):
        write_iteration(
            tmp_path / f"iter-{number}",
            [test],
            release="6.12.0",
            start=START + 100_000 * number,
            jiffies=FIRST_JIFFIES + uptime_s * HZ,
        )
    assert len(read(tmp_path).boots) == 2


def test_without_jiffies_iterations_are_one_boot_in_order_of_time(tmp_path: Path) -> None:
    for number, start in ((0, START + 1000), (1, START)):
        test = Benchmark(name="hackbench", logs={"hackbench-1": messaging(1, [0.1 + number])})
        write_iteration(tmp_path / f"iter-{number}", [test], release="6.12.0", start=start)
    imported = read(tmp_path)
    assert [run.start for run in imported.boots[0].runs] == [
        "2025-01-01T00:00:05.000000Z",
        "2025-01-01T00:16:45.000000Z",
    ]
    assert "count as runs of one boot" in imported.notes[0]


@pytest.mark.parametrize(
    ("test", "file", "text", "point"),
    [
        ("tbench4", "tbench-8.log", "tbench", "clients=8"),
        ("dbench4", "dbench-64.log", "dbench", "clients=64"),
        ("pgbench-timed-ro-small", "pgbench-16.log", "pgbench", "clients=16"),
        ("schbench", "schbench-4.log", "schbench", "workers=4"),
        ("netperf-ipv4-tcp-rr", "TCP_RR-1.2", "netperf-tcp-rr-interim", "bytes=1,protocol=TCP_RR"),
        ("sysbenchmutex", "benchlog-4-_-1", "sysbench-mutex", "threads=4"),
        ("sysbench-ro", "sysbench-raw-2-1", "sysbench-oltp", "threads=2"),
        ("other", "benchlog-4-b-1", "sysbench-mutex", "factorA=4,factorB=b"),
        ("other", "benchlog-4-1", "sysbench-mutex", "factorA=4,factorB=1"),
        ("easywave", "benchlog-4-1", "sysbench-mutex", "threads=4"),
        ("redis-memtier-small", "benchlog-64-10", "sysbench-mutex", "clients=64"),
        ("unixbench", "pipe-2-1.log", "unixbench", "test=pipe,threads=2"),
        ("unixbench-io-fsdisk", "fsdisk-r-2-10.log", "unixbench", "test=fsdisk-r,threads=2"),
        ("own", "pipe-2-1.log", "unixbench", "log=pipe-2-1"),
        ("own", "my log", "sysbench-mutex", "log=my_log"),
    ],
)
def test_names_of_logs_are_parameters(
    tmp_path: Path, test: str, file: str, text: str, point: str
) -> None:
    one_iteration(tmp_path / "iter-0", {file: real(text)}, test)
    rows = values_of(tmp_path)
    assert rows
    assert {(workload, key) for workload, key, _, _ in rows} == {(test, point)}


def test_tbench_is_not_called_dbench(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"tbench-8.log": real("tbench")}, "tbench4")
    assert values_of(tmp_path)[0][2].startswith("tbench ")


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_logs_may_be_compressed(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    one_iteration(tmp_path / "iter-0", {"tbench-8.log": real("tbench")}, "tbench4")
    before = values_of(tmp_path)
    log = tmp_path / "iter-0/tbench4/logs/tbench-8.log"
    log.with_name(f"{log.name}.{suffix}").write_bytes(pack(log.read_bytes()))
    # A log that is there twice counts once.
    assert values_of(tmp_path) == before
    log.unlink()
    assert values_of(tmp_path) == before


def test_runs_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    logs = {
        f"benchlog-{threads}-_-{iteration}": real("sysbench-mutex")
        for threads in (16, 2)
        for iteration in (10, 9)
    }
    one_iteration(tmp_path / "iter-0", logs)
    points = [dict(run.point)["threads"] for run in read(tmp_path).boots[0].runs]
    assert points == ["2", "2", "16", "16"]


def test_the_log_of_mmtests_repeats_results_and_is_not_read(tmp_path: Path) -> None:
    text = real("sysbench-mutex")
    one_iteration(tmp_path / "iter-0", {"benchlog-2-_-1": text, "mmtests.log.gz": text})
    assert len(read(tmp_path).boots[0].runs) == 1


def test_layout_without_iterations(tmp_path: Path) -> None:
    folder = tmp_path / "4.4.0-vanilla"
    one_iteration(folder, {"hackbench-1": messaging(1, [0.1])}, "hackbench-pipes")
    old = folder / "hackbench-pipes-4.4.0-vanilla"
    (folder / "hackbench-pipes").rename(old)
    (old / "logs").rename(old / "noprofile")
    (folder / "tests-timestamp").rename(folder / "tests-timestamp-4.4.0-vanilla")
    imported = read(folder)
    assert (imported.label, imported.boots[0].runs[0].workload) == (
        "4.4.0-vanilla",
        "hackbench-pipes",
    )


def test_layout_with_activities_only(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"hackbench-1": messaging(1, [0.1])}, "hackbench")
    (tmp_path / "iter-0/tests-timestamp").unlink()
    (tmp_path / "iter-0/tests-activity").write_text(
        f"{START} run-mmtests: Start\n"
        f"{START} run-mmtests: test start :: hackbench {START}\n"
        f"{START + 9} run-mmtests: test end :: hackbench {START + 9} 1\n"
    )
    imported = read(tmp_path)
    assert imported.boots[0].runs[0].start == "2025-01-01T00:00:00.000000Z"
    assert "exit status other than 0 of hackbench (iter-0: 1)" in imported.notes[0]


def test_a_test_that_did_not_end_makes_the_bundle_incomplete(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"hackbench-1": messaging(1, [0.1])}, "hackbench")
    stamps = tmp_path / "iter-0/tests-timestamp"
    stamps.write_text("\n".join(stamps.read_text().splitlines()[:2]))
    assert read(tmp_path).incomplete == "mmtests did not finish hackbench (iter-0)"


def test_a_benchmark_without_parser_is_named(tmp_path: Path) -> None:
    tests = [
        Benchmark(name="hackbench", logs={"hackbench-1": messaging(1, [0.1])}),
        Benchmark(name="aim9", logs={"aim9.log": "page_test 3 4"}),
    ]
    write_iteration(tmp_path / "iter-0", tests, release="6.12.0", start=START)
    assert "no parser reads the output of aim9" in read(tmp_path).notes


def test_what_single_iterations_lack_is_named(tmp_path: Path) -> None:
    for number in range(5):
        tests = [
            Benchmark(name="hackbench", logs={"hackbench-1": messaging(1, [0.1])}),
            Benchmark(name="aim9", logs={"aim9.log": "page_test 3 4"}),
        ]
        write_iteration(tmp_path / f"iter-{number}", tests, release="6.12.0", start=START + number)
    (tmp_path / "iter-1/hackbench/logs/hackbench-1").unlink()
    for number in (2, 3, 4):
        (tmp_path / f"iter-{number}/hackbench/logs/hackbench-1").write_text("Killed\n")
    (tmp_path / "iter-9").mkdir()
    (tmp_path / "iter-9/kernel.version").write_text("Linux a 6.12.0 #1 x86_64")
    notes = read(tmp_path).notes
    assert (
        "no parser reads the output of aim9 (iter-0, iter-1 and 3 more), hackbench (iter-2, iter-3 "
        "and 1 more)" in notes
    )
    assert "no output of hackbench (iter-1)" in notes
    assert "no benchmarks in iter-9" in notes


def test_a_run_that_was_cut_off_is_named(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"hackbench-4": messaging(4, [0.1, 0.2])}, "hackbench")
    log = tmp_path / "iter-0/hackbench/logs/hackbench-4"
    log.write_text(log.read_text().partition("Total time: 0.2")[0])
    with Opener() as opener:
        caveats = read_run_values(name_sides([opener.open(Path(f"mmtests:{tmp_path}"))])).caveats
    assert [each.text for each in caveats] == [
        (
            "1 run of base printed no number that a benchmark parser or a --metric rule reads; "
            "first: iter-0/hackbench/logs/hackbench-4, run 2 of 2"
        )
    ]


def test_the_machine_is_what_mmtests_recorded(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"hackbench-1": messaging(1, [0.1])})
    boot = read(tmp_path).boots[0]
    assert boot.config is not None
    assert boot.host["kernel"]["release"] == "6.12.0"
    assert boot.host["cpu"] == {
        "model": "AMD EPYC 7313P 16-Core Processor",
        "vendor": "AuthenticAMD",
        "family_model_stepping": "25-1-1",
        "count_online": 16,
        "threads_per_core": 1,
    }
    assert boot.host["sched"] == {"hz": 250}


@pytest.mark.parametrize("name", ["", "log", "log/base", "log/base/iter-0"])
def test_directories_above_and_below_name_the_same_results(tmp_path: Path, name: str) -> None:
    write_results(tmp_path / "log/base", release="6.12.0", seconds=0.1, boots=1, seed=1)
    imported = read(tmp_path / name)
    assert (imported.label, len(imported.boots[0].runs)) == ("base", RUNS * len(GROUPS))


def test_several_recordings_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("new", "old"):
        write_results(tmp_path / name, release="6.12.0", seconds=0.1, boots=1, seed=1)
    with pytest.raises(InputError, match=r"contains 2 recordings \(new, old; expected one\)"):
        read(tmp_path)


def test_what_is_no_results_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=rf"put the format before .*, e\.g\. mmtests:{tmp_path}"):
        Opener().open(tmp_path)
    for path, problem in (
        (tmp_path, "not a results directory of mmtests"),
        (tmp_path / "file", "/file: not a results directory of mmtests"),
        (tmp_path / "none", "no such file or directory"),
    ):
        with pytest.raises(InputError, match=problem):
            read(path)
    with pytest.raises(InputError, match=r"^mmtests: no path \(expected FORMAT:PATH, e\.g\. "):
        Opener().open(Path("mmtests:"))
    with pytest.raises(InputError, match=r"^unknown format 'mmtest' \(expected one of benchfmt, "):
        Opener().open(Path(f"mmtest:{tmp_path}"))


def test_results_without_any_number_are_refused(tmp_path: Path) -> None:
    one_iteration(tmp_path / "iter-0", {"aim9.log": "page_test 3 4"}, "aim9")
    with pytest.raises(InputError, match=r"no output that a benchmark parser reads \(aim9\)"):
        read(tmp_path)


def test_links_and_damaged_files_are_noted(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(messaging(1, [9.0]))
    folder = tmp_path / "base/iter-0"
    one_iteration(folder, {"hackbench-1": messaging(1, [0.1])}, "hackbench")
    logs = folder / "hackbench/logs"
    (logs / "hackbench-2").symlink_to(secret)
    (logs / "hackbench-4.gz").write_bytes(gzip.compress(b"x" * 1000)[:-20])
    imported = read(tmp_path / "base")
    assert len(imported.boots[0].runs) == 1
    assert any("hackbench-2: not read" in note for note in imported.notes)
    assert any("hackbench-4.gz: damaged .gz file" in note for note in imported.notes)


def test_a_decompression_bomb_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedperf.inputs.importers.tree.LARGEST_FILE_BYTES", 100_000)
    one_iteration(tmp_path / "iter-0", {"hackbench-1": messaging(1, [0.1])}, "hackbench")
    bomb = gzip.compress(bytes(1_000_000))
    (tmp_path / "iter-0/hackbench/logs/hackbench-4.gz").write_bytes(bomb)
    assert any("larger than" in note for note in read(tmp_path).notes)


def test_the_bundle_holds_the_originals(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_results(tmp_path / "base", release="6.12.0", seconds=0.06, boots=1, seed=7)
    path = tmp_path / "base.tar"
    done = run_cli("import", "mmtests", tmp_path / "base", "-o", path)
    assert (done.returncode, done.stderr) == (0, f"{path}: 20 runs in 1 boot\n")
    with Opener() as opener:
        bundle = opener.open(path)
        name = "iter-0/hackbench-process-pipes/logs/hackbench-4"
        original = bundle.read(f"import/files/{name}")
        assert original == (tmp_path / "base" / name).read_bytes()
        assert bundle.broken_members() == ()
        _is_marked(bundle)
        # The directory itself is the same data.
        assert bundle.digest == opener.open(Path(f"mmtests:{tmp_path}/base")).digest


def _is_marked(bundle: Bundle) -> None:
    assert bundle.imported is not None
    assert bundle.imported.format == "mmtests"
    assert all(run.imported == "mmtests" and run.succeeded for run in bundle.runs)


def test_show_names_the_importer_and_no_recorder(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_results(tmp_path / "base", release="6.12.0", seconds=0.06, boots=1, seed=7)
    lines = run_cli("show", f"mmtests:{tmp_path}/base").stdout.splitlines()
    [recorded] = [line for line in lines if line.startswith("  recorded ")]
    assert recorded.endswith(" UTC")
    assert any(line.startswith("  imported   from mmtests by schedperf ") for line in lines)


def test_two_directories_are_compared(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    for name, seconds in (("6.12", 0.06), ("6.13", 0.066)):
        write_results(tmp_path / name, release=name, seconds=seconds, boots=3, seed=len(name))
    done = run_cli("compare", f"mmtests:{tmp_path}/6.12", f"mmtests:{tmp_path}/6.13", "--all")
    assert done.returncode == 1, done.stderr
    assert "regression" in done.stdout
    assert "imported from mmtests, so these cannot be checked:" in " ".join(done.stdout.split())


@pytest.mark.parametrize("boots", [1, 2])
def test_the_next_step_can_be_followed_with_mmtests(tmp_path: Path, boots: int) -> None:
    for seed, (name, seconds) in enumerate((("6.12", 0.06), ("6.13", 0.066)), start=1):
        write_results(tmp_path / name, release=name, seconds=seconds, boots=boots, seed=seed)
    with Opener() as opener:
        paths = [Path(f"mmtests:{tmp_path}/{name}") for name in ("6.12", "6.13")]
        comparison = compare_bundles([opener.open(path) for path in paths])
    [step] = comparison.next_steps
    assert step.what.startswith(
        "boot the sides alternately, each 4 times, run mmtests in each boot"
    )
    assert step.commands == ()
    assert ("variance" in step.why) == (boots == 1)
    text = find_format("text").render(comparison, Options(width=80, colour=False, everything=False))
    assert "run the benchmark on the sides alternately" in " ".join(text.split())


def test_what_cannot_be_checked_is_the_first_caveat(tmp_path: Path) -> None:
    for name in ("old", "new"):
        logs = {"hackbench-1": messaging(1, [0.1, 0.2]), "hackbench-2": "Killed\n"}
        one_iteration(tmp_path / name / "iter-0", logs, "hackbench")
        stamps = tmp_path / name / "iter-0/tests-timestamp"
        stamps.write_text(stamps.read_text() + f"test begin :: {name} 1\n")
        (tmp_path / name / "iter-0/hackbench/logs/hackbench-4.gz").write_bytes(b"x")
    with Opener() as opener:
        bundles = [opener.open(Path(f"mmtests:{tmp_path}/{name}")) for name in ("old", "new")]
        comparison = compare_bundles(bundles)
    for name in ("text", "lkml", "html"):
        text = find_format(name).render(
            comparison, Options(width=80, colour=False, everything=False)
        )
        assert "these cannot be checked: kernel command line" in " ".join(text.split()), name


def test_imported_results_cannot_be_recorded_again(
    tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_results(tmp_path / "base", release="6.12.0", seconds=0.06, boots=1, seed=7)
    path = tmp_path / "base.tar"
    run_cli("import", "mmtests", tmp_path / "base", "-o", path)
    done = run_cli("rerun", path, path)
    assert done.returncode == 2
    assert "imported from mmtests (expected a bundle that schedperf recorded)" in done.stderr


@pytest.mark.parametrize("removed", [8, 9])
def test_will_it_scale_without_its_beginning(tmp_path: Path, removed: int) -> None:
    text = "".join(real("will-it-scale-threads").splitlines(keepends=True)[removed:])
    one_iteration(tmp_path / "iter-0", {"benchlog-context_switch1_threads-2": text}, "wis")
    assert values_of(tmp_path) == [
        (
            "wis",
            "tasks=2,test=context_switch1_threads",
            "will-it-scale operations",
            (756484 + 742094) // 2,
        )
    ]


def test_lines_that_mmtests_copied_and_times_are_not_results(tmp_path: Path) -> None:
    logs = {
        "tbench-8.log": real("tbench"),
        "benchlog-tput-8": "  8  1000  12.5 MB/sec  execute   1 sec  latency 1.0 ms",
        "time-8": "1.00user 0.50system 0:02.00elapsed 75%CPU (0avgtext)k",
    }
    one_iteration(tmp_path / "iter-0", logs, "tbench4")
    imported = read(tmp_path)
    assert (len(imported.boots[0].runs), imported.notes) == (1, ())


def test_recordings_of_old_versions_share_a_directory_and_are_refused(tmp_path: Path) -> None:
    one_iteration(tmp_path / "log", {"hackbench-1": messaging(1, [0.1])}, "hackbench-a")
    for name in ("a", "b"):
        (tmp_path / f"log/tests-timestamp-{name}").write_text("start :: 1\n")
    with pytest.raises(InputError, match=r"contains 2 recordings \(a, b; expected one\); copy"):
        read(tmp_path / "log")


def test_the_number_of_cpus_is_unknown_without_lscpu(tmp_path: Path) -> None:
    for name in ("old", "new"):
        folder = tmp_path / name / "iter-0"
        one_iteration(folder, {"hackbench-1": messaging(1, [0.1, 0.2])}, "hackbench")
        (folder / "lscpu.txt.gz").unlink()
    with Opener() as opener:
        bundles = [opener.open(Path(f"mmtests:{tmp_path}/{name}")) for name in ("old", "new")]
        comparison = compare_bundles(bundles)
    assert describe_machines(comparison.sides).startswith(
        "CPU unknown, unknown number of CPUs on all sides"
    )


def test_the_iteration_in_an_unknown_name_is_no_parameter(tmp_path: Path) -> None:
    names = [f"tcp-1024-100M-{threads}.{number}" for threads in (1, 2) for number in (10, 2, 1)]
    logs = {name: messaging(1, [float(name.rpartition(".")[2])]) for name in names}
    one_iteration(tmp_path / "iter-0", logs, "network-iperf3")
    assert [(point, value) for _, point, _, value in values_of(tmp_path)] == [
        (f"log=tcp-1024-100M-{threads}", number) for threads in (1, 2) for number in (1, 2, 10)
    ]


@pytest.mark.parametrize(
    ("names", "points"),
    [
        (["foo-6.12"], ["foo-6.12"]),
        (["foo-6.12", "bar.1"], ["bar", "foo-6.12"]),
        (["foo.0"], ["foo"]),
        (["foo.3", "foo.2"], ["foo", "foo"]),
    ],
)
def test_a_single_number_is_part_of_an_unknown_name(
    tmp_path: Path, names: list[str], points: list[str]
) -> None:
    one_iteration(tmp_path / "iter-0", {name: messaging(1, [0.1]) for name in names}, "foo")
    assert [point for _, point, _, _ in values_of(tmp_path)] == [f"log={name}" for name in points]


def test_two_numbers_of_some_scripts_are_load_and_iteration(tmp_path: Path) -> None:
    logs = {
        f"benchlog-{clients}-{number}": messaging(1, [clients + number / 100])
        for clients in (16, 2)
        for number in (10, 9, 1)
    }
    one_iteration(tmp_path / "iter-0", logs, "redis-memtier")
    assert [(point, value) for _, point, _, value in values_of(tmp_path)] == [
        (f"clients={clients}", clients + number / 100)
        for clients in (2, 16)
        for number in (1, 9, 10)
    ]


def one_of_unixbench(folder: Path, command: str, runs: list[str]) -> None:
    test = unixbenchd(command, runs)
    write_iteration(folder / "iter-0", [test], release="6.12.0", start=START)


@pytest.mark.parametrize(
    ("command", "unit", "point", "metric", "scale"),
    [
        ("context1 5", "1|lps", "duration_s=5,test=context1", "loops per run", 1),
        (
            "syscall 5 getpid",
            "1|lps",
            "argument=getpid,duration_s=5,test=syscall",
            "loops per run",
            1,
        ),
        (
            "looper 60 ./pgms/multi.sh",
            "60|lpm",
            "argument=._pgms_multi.sh,duration_s=60,test=looper",
            "loops per run",
            1,
        ),
        (
            "whetstone-double 10",
            "0|MWIPS\nTIME|10.1",
            "duration_s=10,test=whetstone-double",
            "Whetstone instructions",
            1e6,
        ),
        ("fstime 3", "0|KBps\nTIME|3.0", "duration_s=3,test=fstime", "file throughput", 1024),
    ],
)
def test_each_count_of_unixbenchd_is_a_run(  # noqa: PLR0917 # a table
    tmp_path: Path, command: str, unit: str, point: str, metric: str, scale: float
) -> None:
    numbers = (52880, 71679, 65783, 65783)
    one_of_unixbench(tmp_path, command, [f"COUNT|{number}|{unit}" for number in numbers])
    assert values_of(tmp_path) == [
        ("unixbenchd", point, f"unixbench {metric}", number * scale) for number in numbers
    ]
    assert "iter-0/unixbenchd/logs/commands.log" in read(tmp_path).originals


@pytest.mark.parametrize(
    ("command", "numbers", "values"),
    [
        # UnixBench 6.0.0 prints the count of both processes.
        ("context1 1", (68682, 68683, 72267, 72267), [68682.5, 72267]),
        ("context1 1", (68682, 68683, 72267), [68682.5, 72267]),
        ("context1 1", (68682, 72267, 72267, 87538), [68682, 72267, 72267, 87538]),
        ("context1 1", (68682,), [68682]),
        ("pipe 1", (12, 12, 13, 12), [12, 12, 13, 12]),
    ],
)
def test_a_count_that_two_processes_print_is_one_run(
    tmp_path: Path, command: str, numbers: tuple[int, ...], values: list[float]
) -> None:
    one_of_unixbench(tmp_path, command, [f"COUNT|{number}|1|lps" for number in numbers])
    assert [value for *_, value in values_of(tmp_path)] == values


@pytest.mark.parametrize(
    "commands",
    [
        b"",
        b"\xff\x00 pgms",
        b"./pgms/context1",
        b"./pgms/context1 5\n./pgms/context1 9\n",
        b"./pgms/" + b"a" * 100_000 + b" 5",
        "./pgms/\u202econtext1 5".encode(),
    ],
)
def test_without_its_command_unixbenchd_has_no_parameters(tmp_path: Path, commands: bytes) -> None:
    one_of_unixbench(tmp_path, "context1 5", ["COUNT|7|1|lps", "COUNT|9|1|lps"])
    log = tmp_path / "iter-0/unixbenchd/logs/commands.log"
    log.write_bytes(commands)
    assert [(point, value) for _, point, _, value in values_of(tmp_path)] == [
        ("log=unixbenchd", 7),
        ("log=unixbenchd", 9),
    ]


def test_a_damaged_log_of_unixbenchd_costs_only_the_damaged_run(tmp_path: Path) -> None:
    runs = [
        "fork failed\r",
        "COUNT|7|1|lps\r",
        "COUNT|\x00|1|lps",
        "COUNT||",
        f"COUNT|{'9' * 5000}",
    ]
    one_of_unixbench(
        tmp_path, "context1 5", [*runs, "\u202eCOUNT|8|1|lps", "COUNT|9|1|lps", "COUNT"]
    )
    assert [value for *_, value in values_of(tmp_path)] == [7, 9]


def test_unixbenchd_without_any_count_is_named(tmp_path: Path) -> None:
    one_of_unixbench(tmp_path, "context1 5", ["Usage: context duration"])
    with pytest.raises(InputError, match=r"no output that a benchmark parser reads \(unixbenchd\)"):
        read(tmp_path)
