# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the bundles that the golden cases are about, always the same bytes.

``golden_evidence`` writes those with evidence, ``golden_tables`` the tables.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from schedperf.inputs.benchmarks import all_parsers
from schedperf_generators.mmtests import write_results
from tests.conftest import bundle_members, write_tar
from tests.retests import make_plan, record_boots

Json = dict[str, Any]
Runs = list[Json]
Side = Literal["base", "new"]

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
DATA = ROOT / "tests" / "data"

# Factors of a time that scatter by 0.4 %, without a trend and without two that are equal.
NOISE = (
    1.0012, 0.9963, 1.0047, 0.9991, 1.0029, 0.9954, 1.0003, 1.0058, 0.9972, 1.0036, 0.9947, 1.0018,
    0.9985, 1.0041, 0.9968, 1.0007, 1.0052, 0.9979, 0.9996, 1.0023,
)  # fmt: skip
CPUS = range(4)
NEW_KERNEL = {"kernel": {"release": "6.13.0-new", "build_id": "77aa01"}}
RATE_RULE = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "rate: ([0-9.]+)"}


def write_bundle(path: Path, **chosen: Any) -> None:
    """Write a bundle that is called after its file."""
    write_tar(path, bundle_members(**{"label": path.name.partition(".")[0], **chosen}).items())


def write_sides(folder: Path, base: Runs, new: Runs, **of_both: Any) -> None:
    """Write base.tar and new.tar, whose kernels differ."""
    write_bundle(folder / "base.tar", runs=base, **of_both)
    host = {**of_both.pop("host", {}), **NEW_KERNEL}
    write_bundle(folder / "new.tar", runs=new, host=host, **of_both)


def clean(mean_s: float, count: int = 12, *, shift: int = 0, **chosen: Any) -> Runs:
    """Return clean runs of about ``mean_s`` seconds, that are recorded one after the other.

    :param shift: with which factor of ``NOISE`` they begin, so that two sides are not alike
    """
    return [
        {"time_s": mean_s * NOISE[(number + shift) % len(NOISE)], **chosen}
        for number in range(count)
    ]


def in_turns(side: Side, mean_s: float, count: int = 12, **chosen: Any) -> Runs:
    """Return the runs of one side of two that took turns."""
    second = side == "new"
    return [
        {**run, "order": 2 * number + (second ^ number % 2), "round": number, "side": side,
         "block": number}
        for number, run in enumerate(clean(mean_s, count, shift=7 * second, **chosen))
    ]  # fmt: skip


def pair(folder: Path, base_s: float, new_s: float, count: int = 12, **of_both: Any) -> None:
    """Write two sides that took turns."""
    base, new = in_turns("base", base_s, count), in_turns("new", new_s, count)
    write_sides(folder, base, new, **of_both)


def regression(folder: Path) -> None:
    pair(folder, 0.600, 0.780, treatment=["kernel"])


def improvement(folder: Path) -> None:
    pair(folder, 0.600, 0.450)


def no_change(folder: Path) -> None:
    pair(folder, 0.600, 0.601, 20)


def later(runs: Runs) -> Runs:
    """Return the runs as another session recorded them an hour later."""
    return [
        {**run, "session": "session-of-new", "start_monotonic_s": 4600.0 + number,
         "start": f"2026-11-21T02:00:{number:02d}.000000Z"}
        for number, run in enumerate(runs)
    ]  # fmt: skip


def few_runs(folder: Path) -> None:
    write_sides(folder, in_turns("base", 0.6, 1), in_turns("new", 0.62, 1))


def two_blocks(folder: Path) -> None:
    """Write enough runs to see a change, and too few to tell it from drift."""
    write_sides(folder, clean(0.6, 5), later(clean(0.66, 5, shift=3)))


def same_kernel(folder: Path) -> None:
    """Write two recordings of one kernel, and one that is a copy."""
    write_bundle(folder / "base.tar", runs=in_turns("base", 0.6, 20))
    write_bundle(folder / "new.tar", runs=in_turns("new", 0.6, 20))


def not_comparable(folder: Path) -> None:
    other = {
        "cpu": {"microcode": "0x5003802", "mitigations": {"spectre_v2": "Vulnerable"}},
        "sched": {"hz": 1000, "features": "PLACE_LAG NO_RUN_TO_PARITY"},
        "kernel": {
            "release": "6.13.0-new",
            "cmdline": "root=/dev/vdb ro isolcpus=3 panic=1",
            "taint": 512,
            "config_sha256": "d1" * 32,
        },
        "system": {"boot_id": "11111111-0000-4000-8000-000000000000"},
        "tools": {"hackbench": "hackbench 2.50"},
        "memory": {"total_bytes": 16 << 30},
    }
    config = {"boots/0/kernel/config": "CONFIG_HZ=250\nCONFIG_PREEMPT=y\n"}
    new_config = {"boots/0/kernel/config": "CONFIG_HZ=1000\n# CONFIG_PREEMPT is not set\n"}
    write_bundle(folder / "base.tar", runs=clean(0.6), files=config)
    write_bundle(folder / "new.tar", runs=clean(0.7), host=other, files=new_config)


def allowed(folder: Path) -> None:
    other = {**NEW_KERNEL, "cpu": {"microcode": "0x5003802"}}
    write_bundle(folder / "base.tar", runs=in_turns("base", 0.6))
    write_bundle(folder / "new.tar", runs=in_turns("new", 0.62), host=other)


def other_workload(folder: Path) -> None:
    write_bundle(folder / "base.tar", runs=clean(0.6, 4))
    pipe = {"workload": "perf bench sched pipe", "stdout": "Total time: 0.271 [sec]\n"}
    write_bundle(folder / "new.tar", runs=[pipe] * 4, workload="perf bench sched pipe")


def emulated(folder: Path) -> None:
    how = {"kind": "qemu", "emulated": True, "grounds": "QEMU without KVM"}
    pair(folder, 0.600, 0.780, host={"virtualisation": how})


def sweep(folder: Path) -> None:
    """Write points that a change hurts the more, the more groups there are."""
    factors = {"1": 1.0, "4": 1.04, "16": 1.1, "32": 1.2, "64": 1.4}

    def runs(side: Side) -> Runs:
        return [
            {**run, "point": {"groups": groups}, "order": 24 * place + run["order"]}
            for place, (groups, factor) in enumerate(factors.items())
            for run in in_turns(side, 0.05 * int(groups) * (factor if side == "new" else 1.0), 8)
        ]

    write_sides(folder, runs("base"), runs("new"))


def three_sides(folder: Path) -> None:
    for name, mean_s, shift in (("base", 0.6, 0), ("faster", 0.5, 5), ("slower", 0.7, 9)):
        host = {"kernel": {"release": f"6.12.0-{name}", "build_id": f"{shift:06x}"}}
        write_bundle(folder / f"{name}.tar", runs=clean(mean_s, 12, shift=shift), host=host)


def four_kernels(folder: Path) -> None:
    """Write a sweep of a kernel, a patch that costs more the more groups there are, and two more.

    The second patch takes most of the cost away, and the third makes small groups faster.
    """
    factors = {
        "tip": (1.0, 1.0, 1.0),
        "cluster": (1.0, 1.08, 1.25),
        "repair": (1.0, 1.01, 1.04),
        "v2": (0.93, 0.99, 1.04),
    }
    for place, (name, of_groups) in enumerate(factors.items()):
        runs = [
            {**run, "point": {"groups": groups}, "order": 4 * (8 * point + number) + place}
            for point, (groups, factor) in enumerate(zip(("1", "4", "16"), of_groups, strict=True))
            for number, run in enumerate(clean(0.05 * int(groups) * factor, 8, shift=4 * place))
        ]
        host = {"kernel": {"release": f"6.12.0-{name}", "build_id": f"{place:06x}"}}
        write_bundle(folder / f"{name}.tar", runs=runs, host=host)


def three_settings(folder: Path) -> None:
    """Write three settings of one kernel, interleaved, in an order that is not balanced."""
    orders = ("abc", "cba", "bca", "acb")
    for index, (letter, mean_s) in enumerate(zip("abc", (0.6, 0.6, 0.66), strict=True)):
        runs = [
            {**run, "order": 3 * number + orders[number].index(letter), "round": number,
             "side": f"slice-{letter}", "block": number}
            for number, run in enumerate(clean(mean_s, 4, shift=5 * index))
        ]  # fmt: skip
        setup = f"echo {index}000000 > /sys/kernel/debug/sched/base_slice_ns"
        write_bundle(folder / f"slice-{letter}.tar", runs=runs, setup=setup)


def _cell(kernel: int, setting: int, effect: float, *, shared: bool) -> Runs:
    """Return the runs of a setting on a kernel: four boots, each with three rounds.

    :param shared: both settings were recorded in each boot
    """
    runs = []
    for boot, factor in enumerate((1.0, 1.03, 0.98, 1.015)):
        place = 2 * boot + (kernel ^ boot % 2)
        of_setting = "" if shared else f"-{setting}"
        for number, run in enumerate(clean(0.6 * factor * effect, 3, shift=place + 5 * setting)):
            order = 6 * place + 2 * number + (setting ^ number % 2)
            runs.append(
                {**run, "boot": boot, "run": number, "boot_id": f"{kernel}-{boot}{of_setting}",
                 "session": f"session-{kernel}-{boot}{of_setting}", "round": number,
                 "side": ("NO_PLACE_LAG", "PLACE_LAG")[setting], "block": number, "order": order}
            )  # fmt: skip
    return runs


def _two_by_two(folder: Path, *, shared: bool) -> None:
    effects = {("tip", 0): 1.0, ("tip", 1): 1.002, ("patched", 0): 1.01, ("patched", 1): 1.06}
    for (kernel, setting), effect in effects.items():
        number = int(kernel == "patched")
        feature = ("NO_PLACE_LAG", "PLACE_LAG")[setting]
        host = {
            "kernel": {"release": f"6.12.0-{kernel}", "build_id": f"{number:06x}"},
            "sched": {"features": f"{feature} RUN_TO_PARITY"},
        }
        write_bundle(
            folder / f"{kernel}-{('off', 'on')[setting]}.tar",
            runs=_cell(number, setting, effect, shared=shared),
            host=host,
            treatment=["sched.features"],
            setup=f"echo {feature} > /sys/kernel/debug/sched/features",
        )


def two_by_two(folder: Path) -> None:
    """Write a scheduler feature on two kernels, one of which it makes slower."""
    _two_by_two(folder, shared=True)


def settings_apart(folder: Path) -> None:
    """Write two kernels and two settings, each of which was recorded in boots of its own."""
    _two_by_two(folder, shared=False)


def boots(folder: Path) -> None:
    """Write four boots a side, which differ more than the runs of one."""

    def runs(mean_s: float, shift: int) -> Runs:
        return [
            {**run, "boot": boot, "run": number, "boot_id": f"{shift:08}-{boot:04}",
             "order": 16 * boot + 8 * bool(shift) + number}
            for boot, factor in enumerate((1.0, 1.02, 0.985, 1.01))
            for number, run in enumerate(clean(mean_s * factor, 4, shift=boot + shift))
        ]  # fmt: skip

    write_sides(folder, runs(0.6, 0), runs(0.75, 6))


def unpaired(folder: Path) -> None:
    write_sides(folder, in_turns("base", 0.6), in_turns("new", 0.7)[:9])


def incomplete(folder: Path) -> None:
    skipped = {
        "collector": "perf_stat",
        "path": "boots/0/runs/000/perf_stat",
        "status": "skipped",
        "reason": "perf is not installed; apt-get install linux-perf",
    }
    failed = {
        "collector": "layout",
        "path": "boots/0/layout",
        "status": "failed",
        "reason": "PermissionError: /proc/kallsyms",
    }
    cut = {"complete": False, "incomplete_reason": "interrupted after 8 of 20 runs"}
    runs = [*in_turns("base", 0.6, 8), {"exit_status": 1, "stdout": "", "round": 8, "order": 16}]
    captures = [skipped, failed]
    write_bundle(folder / "base.tar", runs=runs, captures=captures, manifest=cut)
    killed = {"exit_status": None, "signal": 9, "stdout": "", "round": 8, "order": 17}
    first, second, *others = in_turns("new", 0.61, 8)
    left = {**first, "left_behind": ["sleep", "stress-ng-cpu (still running)"]}
    long = {**second, "output_left_out": {"stdout": 1 << 30}}
    new = [left, long, *others, killed]
    write_bundle(folder / "new.tar", runs=new, host=NEW_KERNEL, captures=captures)


def damaged(folder: Path) -> None:
    """Write what a full disk and a careless editor leave of a bundle."""
    members = bundle_members(runs=clean(0.6, 6))
    write_tar(folder / "cut.tar", members.items())
    whole = (folder / "cut.tar").read_bytes()
    # Within the fifth run; the manifest is the last member.
    (folder / "cut.tar").write_bytes(whole[: len(whole) * 2 // 3])
    members["boots/0/runs/002/stdout"] = members["boots/0/runs/002/stdout"].replace(b"0.6", b"0.5")
    del members["boots/0/runs/004/stdout"]
    write_tar(folder / "edited.tar", members.items())
    write_bundle(folder / "base.tar", runs=clean(0.6, 6))


def newer_format(folder: Path) -> None:
    """Write a bundle of a newer format, with more and with less than its manifest says."""
    write_bundle(folder / "base.tar", runs=clean(0.6, 6))
    newer = bundle_members(
        runs=clean(0.6, 6, shift=4),
        label="new",
        host=None,
        manifest={"version": {"major": 1, "minor": 7}},
    )
    newer["boots/0/runs/001/notes.txt"] = b"nobody listed this"
    newer["boots/0/runs/077/stdout"] = b"Time: 0.5\n"
    write_tar(folder / "new.tar", newer.items())


def without_manifest(folder: Path) -> None:
    write_bundle(folder / "base.tar", runs=clean(0.6, 6), manifest=None)
    write_bundle(folder / "new.tar.gz", runs=clean(0.6, 6, shift=4))


def nothing_known(folder: Path) -> None:
    """Write runs that print nothing that anybody reads."""
    for name, word in (("base", "fine"), ("new", "well")):
        run = {"stdout": f"all is {word}\n"}
        write_bundle(folder / f"{name}.tar", runs=[run] * 4, workload="make -j4")


def bad_lines(folder: Path) -> None:
    bad = {"stdout": "Running in process mode with 4 groups\nTime: fast\n"}
    begin = "Running in process mode with 4 groups using 40 file descriptors each (== 160 tasks)\n"
    stopped = {"stdout": f"{begin}signaling 160 worker threads to terminate\nTime: 0.104\n"}
    write_sides(folder, [*clean(0.6, 6), bad, stopped], [bad] * 3)


def imported(folder: Path) -> None:
    """Write results of mmtests with a benchmark that no parser reads."""
    for name, seconds in (("base", 0.06), ("new", 0.065)):
        write_results(folder / name, release=name, seconds=seconds, boots=2, seed=len(name))
        log = folder / name / "iter-0/aim9/logs/aim9.log"
        log.parent.mkdir(parents=True)
        log.write_text("page_test 3 4\n")


def imported_values(folder: Path) -> None:
    """Write results in the Go benchmark format, one with and one without a direction."""
    for name, times in (("base", (50, 51, 49, 50)), ("new", (60, 61, 62, 60))):
        lines = (f"BenchmarkPipe 100 {time_ns} ns/op {time_ns / 10} hits/op" for time_ns in times)
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def all_failed(folder: Path) -> None:
    write_sides(folder, clean(0.6, 4), clean(0.6, 4, exit_status=1))


def rules(folder: Path) -> None:
    """Write a metric of the user's own, printed in steps of which the change is not two."""

    def runs(side: Side, rates: Sequence[str]) -> Runs:
        second = side == "new"
        return [
            {"stdout": f"rate: {rate}\n", "order": 2 * number + second, "round": number}
            for number, rate in enumerate(rates)
        ]

    write_sides(
        folder,
        runs("base", ["24"] * 12),
        runs("new", ["25"] * 12),
        workload="./loop",
        metric=[RATE_RULE],
    )


def with_history(folder: Path) -> None:
    write_bundle(folder / "past.tar", runs=clean(0.59, 15, shift=11))
    write_sides(folder, in_turns("base", 0.6, 4), in_turns("new", 0.63, 4))


def until_decided(folder: Path) -> None:
    write_bundle(folder / "base.tar", runs=in_turns("base", 0.6))
    looked = {
        "against": None,
        "first": 3,
        "max_runs": 20,
        "looks": [3, 6, 12],
        "stopped": "decided after 12 pairs",
    }
    write_bundle(
        folder / "new.tar",
        runs=in_turns("new", 0.66),
        host=NEW_KERNEL,
        manifest={"sequential": looked},
    )


def retest(folder: Path) -> None:
    for side, times in (("base", (0.5, 0.505, 0.497, 0.501)), ("new", (0.55, 0.556, 0.547, 0.551))):
        record_boots(folder / f"{side}.tar", side, times, make_plan(step="5e9a1b2c3d4e"))


def recorded_benchmarks(folder: Path) -> None:
    """Write a bundle of the recorded output of each benchmark."""
    # A parser that the golden files do not hold may have brought texts of its own.
    texts = [
        path
        for path in sorted((DATA / "benchmarks").glob("*.txt"))
        if any(parser.claims(path.read_text()) for parser in all_parsers().values())
    ]

    def runs(side: Side) -> Runs:
        return [
            {"stdout": path.read_text(), "workload": f"./{path.stem}", "order": 4 * number + look}
            for number, path in enumerate(texts)
            for look in ((0, 2) if side == "base" else (1, 3))
        ]

    write_sides(folder, runs("base"), runs("new"))


def printing_benchmarks(folder: Path) -> None:
    """Write a bundle of benchmarks whose output is short enough to be spelled out."""
    stress = "stress-ng: metrc: [9] "
    texts = {
        "stress-ng --switch 2": f"{stress}stressor       bogo ops real time  usr time  sys time "
        "  bogo ops/s     bogo ops/s\n"
        f"{stress}                          (secs)    (secs)    (secs) "
        "  (real time) (usr+sys time)\n"
        f"{stress}switch           {{0}}     10.00      1.20     18.20     {{1}}      19587.63\n",
        "perf bench sched pipe": "# Running 'sched/pipe' benchmark:\n"
        "# Executed 1000000 pipe operations between two processes\n\n"
        "     Total time: {2} [sec]\n\n       5.741000 usecs/op\n         174183 ops/sec\n",
        "perf bench sched messaging": "# Running 'sched/messaging' benchmark:\n"
        "# 20 sender and receiver processes per group\n"
        "# 10 groups == 400 processes run\n\n     Total time: {2} [sec]\n",
        "kernbench -H": "Average Optimal load -j 8 Run (std deviation):\n"
        "Elapsed Time {2} (0.182565)\nUser Time 184.74 (0.397052)\nSystem Time 20.72 (0.18262)\n",
        "rtla osnoise hist -n": "# RTLA osnoise histogram\n# Time unit is nanoseconds (ns)\n"
        "# Duration:   0 00:01:00\nIndex   CPU-000   CPU-001\n"
        "500          90        40\n1000          9        59\n"
        "over:         1         1\ncount:      100       100\n"
        "min:        512       601\navg:     570.00    820.00\nmax:     {0}    1900\n",
    }

    def runs(side: Side) -> Runs:
        second = side == "new"
        return [
            {
                "workload": workload,
                "stdout": text.format(
                    int(380000 * factor), f"{38000 * factor:.2f}", f"{5.7 * factor:.3f}"
                ),
                "order": 40 * number + 2 * turn + second,
                "round": turn,
            }
            for number, (workload, text) in enumerate(texts.items())
            for turn, factor in enumerate(NOISE[7 * second : 7 * second + 8])
        ]

    write_sides(folder, runs("base"), runs("new"))


def example(name: str) -> Any:
    def link(folder: Path) -> None:
        for side in ("base", "new"):
            (folder / f"{side}.tar.xz").symlink_to(EXAMPLES / name / f"{side}.tar.xz")

    return link


def five_layouts(folder: Path) -> None:
    """Write the five kernels of a mail, of which only the layouts are known."""
    published_layouts(folder)
    names = ("tip", "patch-1", "moved-declaration", "align-first", "custom-layout")
    for number, name in enumerate(names):
        write_bundle(
            folder / f"{name}.tar",
            runs=[],
            files={"boots/0/layout/System.map": (folder / f"{name}.map").read_text()},
            host={"kernel": {"release": f"5.19.0-{name}", "build_id": f"{number:040x}"}},
        )


def published_layouts(folder: Path) -> None:
    for path in (DATA / "layouts").glob("*.map"):
        start, end = f"{0:016x} D __per_cpu_start", f"{0x34000:016x} D __per_cpu_end"
        text = f"{start}\n{path.read_text()}{end}\nffffffff84000000 B _end\n"
        (folder / path.name).write_text(text)


def interrupted_sweep(folder: Path) -> None:
    """Write two points whose recording was cut, after a run and some captures failed."""
    runs: Runs = [
        {
            "time_s": 0.5 + number / 100,
            "point": {"groups": ("1", "16")[number % 2]},
            "kind": "instrumented" if number % 4 > 1 else "clean",
            "files": {"schedstat/before": "version 17\n", "schedstat/after": "version 17\n"},
        }
        for number in range(6)
    ]
    skipped = [
        {
            "collector": "perf_stat",
            "path": f"boots/0/runs/{run:03d}/perf_stat",
            "status": "skipped",
            "reason": "perf is not installed; apt-get install linux-perf",
        }
        for run in range(4)
    ]
    failed = {
        "collector": "layout",
        "path": "boots/0/layout",
        "status": "failed",
        "reason": "PermissionError: /proc/kallsyms",
    }
    write_bundle(
        folder / "base.tar.xz",
        runs=[*runs, {"exit_status": 1, "point": {"groups": "16"}}],
        captures=[*skipped, failed],
        treatment=["sched.autogroup"],
        setup="sysctl -w kernel.sched_autogroup_enabled=0",
        metric=[{"name": "rate", "unit": "1/s", "better": "higher", "regex": "rate: (.*)"}],
        manifest={
            "complete": False,
            "incomplete_reason": "interrupted after 7 of 20 runs",
            "planned_runs": 20,
        },
    )


def two_boots(folder: Path) -> None:
    """Write a bundle of two boots and two workloads, on an emulator."""
    pipe = {"workload": "perf bench sched pipe", "command": ["perf", "bench", "sched", "pipe"]}
    second = "11111111-0000-4000-8000-000000000000"
    write_bundle(
        folder / "new.tar",
        label="cluster",
        runs=[
            {},
            {**pipe, "stdout": "Total time: 0.271 [sec]\n"},
            {"boot": 1, "run": 0, "boot_id": second},
            {"boot": 1, "run": 1, "boot_id": second, **pipe, "exit_status": None, "signal": 9},
            {"boot": 1, "run": 2, "boot_id": second, "warmup": True},
        ],
        host={"virtualisation": {"kind": "qemu", "emulated": True}},
    )


def wrong_files(folder: Path) -> None:
    """Write files that are none of what they are called."""
    write_bundle(folder / "base.tar", runs=2)
    (folder / "text.tar").write_text("this is no archive\n")
    (folder / "empty.csv").write_text("")
    (folder / "table.csv").write_text(
        "side,workload,metric,unit,better,value\nbase,w,m,s,lower,x\n"
    )
    write_tar(folder / "other.tar", [("README", b"a tar of something else")])
    newer = {"version": {"major": 2, "minor": 0}}
    write_bundle(folder / "newer.tar", runs=2, manifest=newer)


def nothing(folder: Path) -> None:
    """Write nothing: the command needs no file."""
    del folder
