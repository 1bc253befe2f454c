# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of six kinds for the tests of mails: each is compared and becomes a record."""

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.publish.culprit.build import Roles, new_culprit, part_of
from schedperf.publish.culprit.commits import Ends
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import (
    Bisection,
    BisectionStep,
    Commit,
    Links,
    Trailer,
    Tree,
)
from schedperf_generators.mmtests import write_results
from tests.conftest import bundle_members, hackbench_text, write_tar

BOOTS, RUNS = 4, 2
# What distinguishes boots, and the runs of one boot.
BOOT_NOISE = (1.0, 1.004, 0.997, 1.002)
RUN_NOISE = (1.0, 1.0015)
GOOD, BAD, TIP, FIX = (digits * 40 for digits in ("c07cac21ad45", "4ab2d1379d59", "919f", "d0f1"))
GOOD, BAD, TIP, FIX = GOOD[:40], BAD[:40], TIP[:40], FIX[:40]
PERSON = "Ada Author <ada@kernel.example>"
SUBJECT = "sched/fair: Ignore percpu threads for imbalance pulls"
HOST: dict[str, Any] = {
    "cpu": {
        "model": "AMD EPYC 7763 64-Core Processor",
        "family_model_stepping": "25-17-1",
        "microcode": "0x1000065",
        "smt": "notsupported",
        "count_online": 2,
    },
    "topology": {
        "cpus": [
            {"cpu": cpu, "core": cpu, "cluster": None, "llc": 0, "socket": 0, "node": 0}
            for cpu in range(2)
        ],
        "nodes": {"0": "0-1"},
        "distances": [[10]],
    },
    "sched": {"preempt": "none", "numa_balancing": 0, "autogroup": 1},
    "memory": {"total_bytes": 25 << 30},
    "cpufreq": {"governor": None, "boost": None},
}


class Recorded(Struct, frozen=True, kw_only=True):
    """A benchmark as the tests record it.

    :param workload: its command, with placeholders
    :param points: parameters
    :param show: returns the output of a run at a point, for a factor of its time
    :param factors: by kernel, the factor of the time at each point
    :param program: name and version
    """

    workload: str
    points: Sequence[Mapping[str, str]]
    show: Callable[[Mapping[str, str], float], str]
    factors: Mapping[str, Sequence[float]]
    program: tuple[str, str] = ("hackbench", "2.5")


def _hackbench(point: Mapping[str, str], factor: float) -> str:
    seconds = {"1": 0.411, "4": 0.875, "16": 1.736}[point["groups"]] * factor
    return hackbench_text(point, seconds)


def _schbench(_: Mapping[str, str], factor: float) -> str:
    wakeup = [round(each * extra) for each, extra in ((9, 1), (230, factor), (900, factor**2))]
    return (
        "Wakeup Latencies percentiles (usec) runtime 30 (s) (86400 total samples)\n"
        f"\t  50.0th: {wakeup[0]:<10} (16000 samples)\n"
        f"\t  90.0th: {wakeup[1]:<10} (24000 samples)\n"
        f"\t* 99.0th: {wakeup[2]:<10} (6000 samples)\n"
        f"\t  99.9th: {2 * wakeup[2]:<10} (600 samples)\n"
        f"\t  min=1, max={3 * wakeup[2]}\n"
        "Request Latencies percentiles (usec) runtime 30 (s) (86400 total samples)\n"
        "\t  50.0th: 14480      (18000 samples)\n"
        f"\t  90.0th: {round(15000 * factor):<10} (24000 samples)\n"
        f"\t* 99.0th: {round(19000 * factor):<10} (6000 samples)\n"
        f"\t  99.9th: {round(25000 * factor):<10} (600 samples)\n"
        "\t  min=4906, max=53318\n"
        "RPS percentiles (requests) runtime 30 (s) (31 total samples)\n"
        "\t  20.0th: 2804       (10 samples)\n"
        "\t* 50.0th: 2820       (16 samples)\n"
        "\t  90.0th: 2836       (5 samples)\n"
        "\t  min=2790, max=2841\n"
        f"average rps: {2820 / factor:.2f}\n"
    )


def _stress_ng(_: Mapping[str, str], factor: float) -> str:
    lines = [
        f"{name:<15} {int(10 * rate):>10} {10.0:>9.2f} {0.1:>9.2f} {2.7:>9.2f} {rate:>14.2f} "
        f"{3 * rate:>14.2f}"
        for name, rate in (("switch", 31047.80 / factor), ("pipe", 138361.76))
    ]
    return (
        "stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n"
        "                          (secs)    (secs)    (secs)   (real time) (usr+sys time)\n"
        + "".join(f"{line}\n" for line in lines)
    )


def _netperf(_: Mapping[str, str], factor: float) -> str:
    return (
        "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () "
        "port 0 AF_INET : demo : first burst 0\n"
        "Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n"
        "Send   Recv   Size     Size    Time     Rate         \n"
        "bytes  Bytes  bytes    bytes   secs.    per sec   \n\n"
        f"16384  131072 1        1       5.00     {25486.62 / factor:.2f}   \n16384  131072\n"
    )


_ONE = {"base": (1.0,), "new": (1.143,), "tip": (1.139,), "revert": (1.001,), "fix": (1.002,)}
HACKBENCH = Recorded(
    workload="hackbench -p -l 4000 -g {groups}",
    points=[{"groups": groups} for groups in ("1", "4", "16")],
    show=_hackbench,
    factors={
        "base": (1.0, 1.0, 1.0),
        "new": (1.008, 1.085, 1.213),
        "tip": (1.007, 1.09, 1.219),
        "revert": (1.004, 0.992, 0.998),
        "fix": (1.001, 1.003, 1.002),
    },
)
SCHBENCH = Recorded(
    workload="schbench -m 2 -t 16 -r 30",
    points=[{}],
    show=_schbench,
    factors=_ONE,
    program=("schbench", "1.0"),
)
STRESS_NG = Recorded(
    workload="stress-ng --switch 1 --pipe 1 -t 10 --metrics-brief",
    points=[{}],
    show=_stress_ng,
    factors=_ONE,
    program=("stress-ng", "0.18.06"),
)
NETPERF = Recorded(
    workload="netperf -H 127.0.0.1 -t TCP_RR -l 5",
    points=[{}],
    show=_netperf,
    factors=_ONE,
    program=("netperf", "2.7.0"),
)
# A workload that the commit does not change, recorded in the same boots.
OTHER = Recorded(
    workload="perf bench sched pipe",
    points=[{}],
    show=lambda _, factor: (
        "# Running 'sched/pipe' benchmark:\n"
        "# Executed 1000000 pipe operations between two processes\n\n"
        f"     Total time: {5.741 * factor:.3f} [sec]\n\n"
        f"       {5.741 * factor:.6f} usecs/op\n         {174183 / factor:.0f} ops/sec\n"
    ),
    factors=dict.fromkeys(_ONE, (1.0,)),
    program=("perf", "6.18"),
)


def write_kernel(
    path: Path, kernel: str, *recorded: Recorded, session: str = "5e", **chosen: Any
) -> Path:
    """Write the bundle of one kernel as ``ab --kernel`` records it: 4 boots, 2 runs in each.

    :param kernel: base, new, tip, revert or fix
    :param session: other sessions have other boots
    """
    members = bundle_members(
        runs=[*_runs(kernel, recorded, session)],
        label=path.stem,
        workload=recorded[-1].workload,
        host={**HOST, "kernel": {"release": f"6.19.0-{kernel}", "build_id": kernel.encode().hex()},
              "system": {"boot_id": f"{session}-{kernel}-0"}},
        manifest={"recordings": [_recording(each) for each in recorded],
                  "source": _source(kernel), **chosen},
    )  # fmt: skip
    return write_tar(path, members.items())


def _runs(kernel: str, recorded: Sequence[Recorded], session: str) -> Iterator[dict[str, Any]]:
    second = kernel != "base"
    for boot, boot_factor in enumerate(BOOT_NOISE):
        number = 0
        for each in recorded:
            for run in range(RUNS):
                for index, point in enumerate(each.points):
                    # As runs differ, but the same each time.
                    noise = BOOT_NOISE[(boot + 2 * second + index) % BOOTS] * RUN_NOISE[run]
                    factor = each.factors[kernel][index] * boot_factor * noise
                    yield {
                        "boot": boot, "run": number, "boot_id": f"{session}-{kernel}-{boot}",
                        "session": session, "point": dict(point), "workload": each.workload,
                        "command": each.workload.format(**point).split(), "block": run,
                        "stdout": each.show(point, factor), "round": boot,
                        "order": 100 * (2 * boot + (second ^ boot % 2)) + number,
                        "start": f"2026-11-25T22:{boot:02d}:{number:02d}.000000Z",
                    }  # fmt: skip
                    number += 1


def _recording(recorded: Recorded) -> dict[str, Any]:
    name, version = recorded.program
    kernels = ("--kernel", "base=6.19.0-base", "--kernel", "new=6.19.0-new")
    return {
        "command": ["schedperf", "ab", *kernels, "--", *recorded.workload.split()],
        "minutes": 14.0,
        "programs": [{"name": name, "version": version, "sha256": "0" * 64, "path": name}],
    }


def _source(kernel: str) -> dict[str, Any]:
    commit = {"base": GOOD, "new": BAD, "tip": TIP, "revert": TIP, "fix": FIX}[kernel]
    return {
        "tree": "https://git.kernel.org/pub/scm/linux/kernel/git/tip/tip.git",
        "ref": "sched/core",
        "commit": commit,
        "subject": {"new": SUBJECT}.get(kernel, f"sched: {kernel}"),
        "author": PERSON,
        "committed": {"tip": "2026-11-25T00:00:00Z"}.get(kernel, "2026-11-20T12:00:00Z"),
    }


def compare(*paths: Path) -> Comparison:
    """Return the comparison of bundles, base first."""
    return compare_bundles([open_bundle(path) for path in paths])


def _commit(commit: str, subject: str) -> Commit:
    trailers = (Trailer(name="Signed-off-by", value=PERSON),)
    return Commit(commit=commit, subject=subject, author=PERSON, committer=PERSON,
                  committed="2026-11-20T12:00:00+00:00", trailers=trailers)  # fmt: skip


ENDS = Ends(good=_commit(GOOD, "sched: before"), bad=_commit(BAD, SUBJECT), is_range=False)
BISECTION = Bisection(
    good="1" * 40,
    bad=BAD,
    steps=tuple(BisectionStep(commit=each, boots=8, probability=None) for each in (GOOD, BAD)),
    builds=17,
    boots=58,
    probability=0.996,
    neighbours_tested=True,
)


@functools.cache
def evidence_of(name: str) -> Evidence:
    """Return the record of an input: hackbench, schbench, stress-ng, netperf, mmtests or fix."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "mmtests":
            return _imported(Path(folder))
        return _recorded(Path(folder), *_INPUTS[name], has_fix=name == "fix")


_INPUTS: Mapping[str, Sequence[Recorded]] = {
    "hackbench": (HACKBENCH, OTHER),
    "schbench": (SCHBENCH,),
    "stress-ng": (STRESS_NG,),
    "netperf": (NETPERF,),
    "fix": (HACKBENCH,),
}
NAMES = (*_INPUTS, "mmtests")


def _recorded(folder: Path, *recorded: Recorded, has_fix: bool) -> Evidence:
    def made(kernel: str, session: str) -> Comparison:
        paths = [
            write_kernel(folder / f"{session}-{name}.tar", name, *recorded, session=session)
            for name in ("base", kernel)
        ]
        return compare(*paths)

    found, again, tip = made("new", "first"), made("new", "again"), made("tip", "tip")
    revert = made("revert", "revert")
    fix = made("fix", "fix") if has_fix else None
    roles = Roles(
        retest=part_of("again", again),
        tip=part_of("tip", tip),
        revert=part_of("revert", revert),
        fix=None if fix is None else part_of("fix", fix),
        fixed_by=_commit(FIX, "sched/fair: Pull percpu threads again") if has_fix else None,
        bisection=BISECTION,
        tree=Tree(name="tip/sched/core"),
        merged=True,
        links=Links(report="<report@lab.example>") if has_fix else Links(),
    )
    culprit = new_culprit(ENDS, part_of("found", found), roles)
    made_ = [found, again, tip, revert, *([] if fix is None else [fix])]
    return Evidence(culprit=culprit, comparisons={each.id: each for each in made_})


def _imported(folder: Path) -> Evidence:
    for name, release, seconds in (("base", "6.12.0", 0.06), ("new", "6.13.0", 0.0655)):
        write_results(folder / name, release=release, seconds=seconds, boots=4, seed=len(name))
        tar = str(folder / f"{name}.tar")
        assert main(["import", "mmtests", str(folder / name), "-o", tar]) == 0
    comparison = compare(folder / "base.tar", folder / "new.tar")
    ends = replace(ENDS, is_range=False)
    culprit = new_culprit(ends, part_of("found", comparison), Roles())
    return Evidence(culprit=culprit, comparisons={comparison.id: comparison})
