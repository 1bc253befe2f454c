# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the bundles, tables and captures that the golden cases are about, always the same bytes."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from schedperf.benchmarks import all_parsers
from schedperf_generators.events import PLAIN, Event
from schedperf_generators.features import BuildId, Machine
from schedperf_generators.kernel import KernelImage
from schedperf_generators.memory import scheduler_kernel, scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.profiles import USER, profile, profiled_kernel
from schedperf_generators.records import Comm, Fork
from schedperf_generators.samples import MODE_KERNEL, Sample
from tests.conftest import bundle_members, write_tar
from tests.schedperf.compare.why.test_joined import WORSE, Made
from tests.schedperf.evidence.pelt.conftest import make_function, make_run
from tests.schedperf.evidence.placement.conftest import PLACEMENT, move, phases_of, timer
from tests.schedperf.evidence.schedstat.conftest import make_stat_runs, write_schedstat
from tests.schedperf.evidence.system.conftest import _run_of as run_of_counters

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
    write_sides(folder, [*clean(0.6, 6), bad], [bad] * 3)


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
        "against": "0" * 64,
        "first": 3,
        "max_runs": 20,
        "looks": [3, 6, 12],
        "stopped": "decided after 12 runs",
    }
    write_bundle(
        folder / "new.tar",
        runs=in_turns("new", 0.66),
        host=NEW_KERNEL,
        manifest={"sequential": looked},
    )


def write_table(
    path: Path,
    rows: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    in_blocks: bool = False,
) -> None:
    """Write a table of runs, one metric for each entry.

    :param in_blocks: base was recorded wholly before new; else they took turns
    """
    lines = ["side,workload,metric,unit,better,order,value"]
    for metric, (base, new) in rows.items():
        for number, values in enumerate(zip(base, new, strict=True)):
            for second, value in enumerate(values):
                order = second * len(base) + number if in_blocks else 2 * number + second
                lines.append(f"{('base', 'new')[second]},made,{metric},s,lower,{order},{value:.6g}")
    path.write_text("\n".join(lines) + "\n")


def wandering(folder: Path) -> None:
    """Write runs of which each resembles the one before."""
    waves = tuple(
        [mean + 0.02 * math.sin(number / 2.0) for number in range(16)] for mean in (1.0, 1.03)
    )
    write_table(folder / "wandering.csv", {"time": (waves[0], waves[1])}, in_blocks=True)


def shapes(folder: Path) -> None:
    """Write metrics each of which is noisy in a way of its own."""
    noise = NOISE[:16]

    def near(mean: float, spread: float = 1.0, shift: int = 0) -> list[float]:
        return [
            mean * (1.0 + spread * (noise[(number + shift) % 16] - 1.0)) for number in range(16)
        ]

    fast_or_slow = [1.0, 1.5]
    slow_of_base, slow_of_new = (2, 7), (0, 1, 3, 4, 6, 8, 9, 11, 12, 13)
    write_table(
        folder / "shapes.csv",
        {
            "steady": (near(1.0), near(1.0, shift=5)),
            "slower": (near(1.0), near(1.1, shift=5)),
            "spread": (near(1.0), near(1.0, 12.0, shift=5)),
            "modes": tuple(
                [
                    value * fast_or_slow[number in slow]
                    for number, value in enumerate(near(1.0, shift=shift))
                ]
                for slow, shift in ((slow_of_base, 0), (slow_of_new, 5))
            ),  # type: ignore[dict-item] # two sides
            "drifting": (
                [value * (1.0 + 0.01 * number) for number, value in enumerate(near(1.0))],
                [value * (1.0 + 0.01 * number) for number, value in enumerate(near(1.02, 1.0, 5))],
            ),
            "outliers": ([*near(1.0)[:15], 9.0], [*near(1.02, 1.0, 5)[:15], 1.02]),
        },
    )


def seed(name: str) -> Any:
    def write(folder: Path) -> None:
        (folder / name).write_bytes((DATA / "seeds" / name).read_bytes())

    return write


def claims(folder: Path) -> None:
    """Write a published table whose claims do not follow from its numbers."""
    (folder / "claims.csv").write_text(
        "side,workload,point,metric,unit,better,value,claimed,claimed_mean\n"
        + "".join(
            f"{side},tbench,threads={threads},throughput,MB/s,higher,{value},{claimed},{mean}\n"
            for threads in (1, 2)
            for side, values, claimed, mean in (
                ("tip", (100, 101, 102), "", "101"),
                ("patched", (110, 111, 112), "+2.0%" if threads == 1 else "+9.9%", "115"),
            )
            for value in values
        )
    )


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


def instrumented(runs: Runs) -> Runs:
    return [{**run, "kind": "instrumented"} for run in runs]


def pelt(folder: Path) -> None:
    """Write calls of PELT's functions: three times as many, longer, and one function unseen."""

    def runs(calls: Sequence[int], ns: int, *, blind: bool) -> Runs:
        unseen = {
            "mechanism": None, "calls": None, "contexts": None, "durations": None,
            "tried": {"fentry/fexit": "operation not permitted", "kprobe/kretprobe": "no kprobes"},
        }  # fmt: skip
        return [
            make_run(
                {
                    "update_cfs_group": make_function({0: count, 2: count // 2}, ns),
                    "update_load_avg": make_function({0: 5000, 2: 5000 + count}, 20_000 + ns),
                    "propagate_entity_load_avg": {
                        **make_function({0: 700}), **(unseen if blind else {})
                    },
                }
            )
            for count in calls
        ]  # fmt: skip

    base, new = (1000, 1010, 990, 1005), (3000, 3010, 2990, 3005)
    write_sides(
        folder,
        [*clean(0.6, 12), *runs(base, 200, blind=False)],
        [*clean(0.66, 12, shift=5), *runs(new, 900, blind=True)],
    )


def placement(folder: Path) -> None:
    """Write where tasks went: across nodes more often, with timers that expire together."""

    def placed(crossing: int, waits: int, bins: tuple[int, int], step: int) -> Json:
        latency = [
            {
                "node": node,
                "log2_ns": [5000 * (place == waits + node) for place in range(40)],
                "sum_ns": 5000 << (waits + node),
                "count": 5000,
                "max_ns": 3 << (waits + node),
            }
            for node in (0, 1)
        ]
        moves = [
            move("fork", 900 + step),
            move("fork", crossing + step, (0, 1)),
            move("wakeup", 8000 + step),
            move("migration", 3 * crossing + step, (0, 1), cause="load_balance"),
            move("migration", 100 + step, cause="wakeup"),
        ]
        timers = [timer("/a", phases_of(bins[0])), timer("/b", phases_of(bins[1]))]
        return {**PLACEMENT, "moves": moves, "latency": latency, "timers": timers}

    def runs(crossing: int, waits: int, bins: tuple[int, int]) -> Runs:
        captured = (placed(crossing, waits, bins, step) for step in (0, 4, -3, 2))
        return [{"files": {"bpf_placement/placement.json": json.dumps(one)}} for one in captured]

    write_sides(
        folder,
        [*clean(0.6, 12), *instrumented(runs(100, 10, (0, 16)))],
        [*clean(0.6, 12, shift=5), *instrumented(runs(400, 13, (0, 0)))],
    )


def schedstat(folder: Path) -> None:
    base = make_stat_runs((9000, 9100, 8900, 9050))
    new = make_stat_runs((810, 820, 800, 815))
    write_sides(
        folder,
        [{**run, **stat} for run, stat in zip(clean(0.6, 4), base, strict=True)],
        [{**run, **stat} for run, stat in zip(clean(0.7, 4, shift=5), new, strict=True)],
    )


def schedstat_versions(folder: Path) -> None:
    """Write counts of kernels that print other fields, and of one that prints none."""
    write_bundle(folder / "base.tar", runs=make_stat_runs((900, 910, 890), version=15))
    write_bundle(
        folder / "new.tar", runs=make_stat_runs((700, 710, 690), version=17), host=NEW_KERNEL
    )


def without_schedstats(folder: Path) -> None:
    reason = "no /proc/schedstat in this kernel; rebuild with CONFIG_SCHEDSTATS=y"
    missing = {
        "collector": "schedstat",
        "path": "boots/0/runs/000/schedstat",
        "status": "skipped",
        "reason": reason,
    }
    write_sides(folder, clean(0.6), clean(0.7, shift=5), captures=[missing])


def system_counters(folder: Path) -> None:
    def runs(factor: int, entries: int) -> Runs:
        return [
            run_of_counters(
                throttled=40 * factor + step,
                stalled_us=300_000 * factor + 100 * step,
                entries=entries + step,
                idle_us=400_000 // factor + 100 * step,
                energy_uj=9_000_000 * factor + 1000 * step,
                switches=5000 * factor + step,
                stolen=5 * factor,
                lines={"RES": [200 * factor + step] * len(CPUS), "LOC": [500] * len(CPUS)},
            )
            for step in (0, 2, -1, 1)
        ]

    write_sides(
        folder,
        [{**run, **counts} for run, counts in zip(clean(0.6, 4), runs(1, 900), strict=True)],
        [{**run, **counts} for run, counts in zip(clean(0.6, 4), runs(2, 4000), strict=True)],
    )


def counters(folder: Path) -> None:
    """Write counts of perf stat, one event that was not counted and one of which a part was."""

    def runs(counts: Sequence[int]) -> Runs:
        return [
            {
                "time_s": 0.75 * NOISE[place],
                "files": {
                    "perf_stat/perf_stat.csv": "".join(
                        f"N{node},2,{count + node},,sched:sched_switch,1000,100.00,,\n"
                        f"N{node},2,{10 * count},,context-switches,1000,40.00,,\n"
                        f"N{node},2,<not supported>,,cycles,0,100.00,,\n"
                        for node in (0, 1)
                    )
                },
            }
            for place, count in enumerate(counts)
        ]

    base, new = runs((1000, 1040, 960, 1010)), runs((1500, 1560, 1440, 1490))
    write_sides(
        folder,
        [*clean(0.6, 6), *instrumented(base)],
        [*clean(0.6, 6, shift=5), *instrumented(new)],
    )


def only_instrumented(folder: Path) -> None:
    write_sides(folder, instrumented(clean(0.6, 4)), instrumented(clean(0.7, 4, shift=5)))


PROFILE_KERNEL = profiled_kernel()


@cache
def samples(extra: int, seed_: int, *, chains: bool = True) -> bytes:
    """Return a perf.data in which update_cfs_group has ``extra`` samples."""
    counts = {
        ("update_load_avg", 0): 120 + seed_,
        ("update_load_avg", 3): 40,
        ("update_cfs_group", 1): extra + seed_,
        ("schedule", 1): 60,
        ("nf_conntrack_in", 2): 30,
        (USER, 0): 150,
    }
    return write_perf_data(profile(PROFILE_KERNEL, counts, chains=chains, seed=seed_ + 1))


def profiles(folder: Path) -> None:
    """Write profiles in which a function takes five times as long, with call stacks."""
    facts = {"event": "cycles", "clock": "pmu", "blind": False, "blind_reason": "PMU by NMI"}

    def runs(extra: int) -> Iterator[Json]:
        for seed_ in range(4):
            files: Json = {
                "perf_profile/perf.data": samples(extra, seed_),
                "perf_profile/perf_profile.json": json.dumps(facts),
            }
            yield {"kind": "instrumented", "files": files}

    symbols = {"boots/0/layout/kallsyms": PROFILE_KERNEL.kallsyms()}
    write_sides(
        folder, [*clean(0.6), *runs(40)], [*clean(0.66, shift=5), *runs(200)], files=symbols
    )


def bystanders(folder: Path) -> None:
    """Write profiles in which a command that is not the workload has half of the busy time."""
    # The recorder, 5, starts hackbench, 7; make, 3, was there before.
    tasks = (
        Comm(pid=3, comm="make"),
        Comm(pid=5, comm="python3"),
        Fork(pid=7, parent_pid=5, time=10),
        Comm(pid=7, comm="hackbench", execed=True, time=20),
    )
    at = PROFILE_KERNEL.address("schedule", 8)
    samples_ = tuple(
        Sample(ip=at, pid=(3, 7)[number % 2], time=100 + number, mode=MODE_KERNEL, period=1000)
        for number in range(200)
    )
    data = PerfData(
        events=(Event(sample_type=PLAIN),),
        records=(*PROFILE_KERNEL.mappings(), *tasks, *samples_),
        machine=Machine(
            build_ids=(BuildId(path="[kernel.kallsyms]", raw=PROFILE_KERNEL.build_id, mode=1),)
        ),
    )
    run = {"kind": "instrumented", "files": {"perf_profile/perf.data": write_perf_data(data)}}
    symbols = {"boots/0/layout/kallsyms": PROFILE_KERNEL.kallsyms()}
    write_sides(folder, [*in_turns("base", 0.6), run], [*in_turns("new", 0.6), run], files=symbols)


def story(folder: Path) -> None:
    """Write a line, a symbol, a layout and a benchmark that changed together."""
    for number, (name, chosen) in enumerate({"base": {}, "new": WORSE}.items()):
        made = Made(**chosen)
        write_bundle(
            folder / f"{name}.tar",
            runs=[{"boot_id": f"boot-{number}", **run} for run in made.runs()],
            files={f"boots/0/layout/{path}": text for path, text in made.layout().items()},
            host={"kernel": {"build_id": f"{number:040x}"}},
        )


NUMA = Numa(cpus=8, nodes=2)


def units_of(kernel_numa: Numa) -> bytes:
    units = {str(cpu): hex(base) for cpu, base in kernel_numa.unit_bases().items()}
    facts = {
        "method": "kcore",
        "units": units,
        "stable": True,
        "unit_bytes": kernel_numa.unit_bytes,
    }
    return json.dumps(facts).encode()


@cache
def memory(side: Side, seed_: int) -> bytes:
    """Return a perf.data of the scheduler's cache lines."""
    return write_perf_data(scheduler_run(side, numa=NUMA, seed=seed_).perf_data())


def cache_lines(folder: Path) -> None:
    """Write memory samples in which lines of the scheduler bounce more often."""
    kernel: KernelImage = scheduler_kernel()
    layout = {"System.map": kernel.system_map(), "kallsyms": kernel.kallsyms()}

    def runs(side: Side, boot_id: str) -> Runs:
        files = ({"perf_c2c/perf.data": memory(side, number)} for number in range(3))
        return [
            {"kind": "instrumented", "boot_id": boot_id,
             "files": {**one, "perf_c2c/percpu.json": units_of(NUMA)}}
            for one in files
        ]  # fmt: skip

    for number, side in enumerate(("base", "new")):
        write_bundle(
            folder / f"{side}.tar",
            runs=runs(side, f"boot-{number}"),  # type: ignore[arg-type] # the two sides
            files={f"boots/0/layout/{name}": text for name, text in layout.items()},
            host={"kernel": {"build_id": f"{number:040x}"}},
        )


UNREADABLE: Mapping[str, str | bytes] = {
    "perf_profile/perf.data": b"PERFILE2 and no more",
    "perf_c2c/perf.data": b"\0" * 64,
    "perf_stat/perf_stat.csv": "a,b\n",
    "bpf_pelt/pelt.json": '{"schema": "schedperf/bpf_pelt/9"}',
    "bpf_placement/placement.json": "[]",
    "schedstat/before": "version 99\n",
    "schedstat/after": "version 99\n",
    "system_counters/facts.json": "{",
}


def unreadable_captures(folder: Path) -> None:
    """Write captures none of which can be parsed."""
    runs = [{"kind": "instrumented", "files": UNREADABLE}] * 2
    layout = {"boots/0/layout/System.map": "this is no map\n"}
    write_sides(folder, [*clean(0.6, 4), *runs], [*clean(0.6, 4, shift=5), *runs], files=layout)


def example(name: str) -> Any:
    def link(folder: Path) -> None:
        for side in ("base", "new"):
            (folder / f"{side}.tar.xz").symlink_to(EXAMPLES / name / f"{side}.tar.xz")

    return link


def published_layouts(folder: Path) -> None:
    for path in (DATA / "layouts").glob("*.map"):
        text = f"{0:016x} D __per_cpu_start\n{path.read_text()}{0x34000:016x} D __per_cpu_end\n"
        (folder / path.name).write_text(text)


def perf_files(folder: Path) -> None:
    """Write perf.data of two kernels, and their symbols."""
    (folder / "base.data").write_bytes(samples(40, 0))
    (folder / "new.data").write_bytes(samples(200, 1))
    (folder / "kallsyms").write_text(PROFILE_KERNEL.kallsyms())


def memory_files(folder: Path) -> None:
    kernel = scheduler_kernel()
    (folder / "base.data").write_bytes(memory("base", 0))
    (folder / "new.data").write_bytes(memory("new", 1))
    (folder / "percpu.json").write_bytes(units_of(NUMA))
    (folder / "System.map").write_text(kernel.system_map())
    (folder / "kallsyms").write_text(kernel.kallsyms())


def schedstat_files(folder: Path) -> None:
    """Write copies before and after some runs of two kernels."""
    for name, pulls in {"base": (900, 910, 890, 905), "new": (81, 82, 80, 83)}.items():
        for number, count in enumerate(pulls):
            run = folder / name / f"{number:03d}"
            run.mkdir(parents=True)
            machine = {cpu: {"sched_count": 50, "newidle lb_gained": count} for cpu in (0, 1)}
            before = write_schedstat(17, {0: {}, 1: {}}, jiffies=1000)
            (run / "before").write_text(before)
            (run / "after").write_text(write_schedstat(17, machine, jiffies=1500))


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
