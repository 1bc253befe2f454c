# SPDX-License-Identifier: GPL-2.0-or-later
"""Write bundles and captures with evidence of each kind, always the same bytes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from schedperf_collectors.machine.asymmetry import asymmetry_finders
from schedperf_collectors.machine.core_types import core_type_finders
from schedperf_collectors.machine.cpu import cpufreq_finders
from schedperf_collectors.machine.policies import policy_finders
from schedperf_collectors.machine.system import System, attempt
from schedperf_generators.asymmetric_machines import AsymmetricMachine, intel_hybrid
from schedperf_generators.energy import rapl_domain, write_capture
from schedperf_generators.events import PLAIN, Event
from schedperf_generators.features import BuildId, Machine
from schedperf_generators.kernel import KernelImage
from schedperf_generators.memory import scheduler_kernel, scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.profiles import USER, profile, profiled_kernel
from schedperf_generators.records import Comm, Fork
from schedperf_generators.samples import MODE_KERNEL, Sample
from tests.golden_inputs import (
    CPUS,
    NEW_KERNEL,
    NOISE,
    Json,
    Runs,
    Side,
    clean,
    in_turns,
    write_bundle,
    write_sides,
)
from tests.schedperf.compare.why.test_joined import WORSE, Made
from tests.schedperf.evidence.account.conftest import divided_run
from tests.schedperf.evidence.account.conftest import run_of as run_of_account
from tests.schedperf.evidence.load.conftest import COMMAND, beside_load
from tests.schedperf.evidence.pelt.conftest import make_function, make_run
from tests.schedperf.evidence.placement.conftest import PLACEMENT, move, phases_of, timer
from tests.schedperf.evidence.realtime.conftest import tail_runs
from tests.schedperf.evidence.sched_ext.records import EJECTED, FAIR, LAVD, LOADED
from tests.schedperf.evidence.sched_ext.records import run as run_of_scheduler
from tests.schedperf.evidence.schedstat.conftest import make_stat_runs, write_schedstat
from tests.schedperf.evidence.scx_stats.records import run_of as run_with_stats
from tests.schedperf.evidence.system.conftest import _run_of as run_of_counters
from tests.schedperf.evidence.wakeup_latency.conftest import US, WAKEUPS, waits_row, with_tail
from tests.stack_documents import blocking_document, locks_document, preemption_document


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


def hybrid(folder: Path) -> None:
    """Write a machine with P-cores and E-cores, whose tasks went to the E-cores."""
    core, atom = range(8), range(8, 12)
    types = {cpu: "cpu_core" if cpu in core else "cpu_atom" for cpu in (*core, *atom)}

    def captured(on_atom: int, step: int) -> Json:
        ran = {cpu: (10 - on_atom) * 10**8 // len(core) for cpu in core}
        ran |= {cpu: on_atom * 10**8 // len(atom) + step * 10**6 for cpu in atom}
        counts = {
            cpu: {
                "rq_cpu_time": ns,
                "run_delay": ns // 50,
                "pcount": 5000 + step,
                "sched_count": 9000,
            }
            for cpu, ns in ran.items()
        }
        cycles = {"cpu_core": (10 - on_atom) * 10**8, "cpu_atom": on_atom * 10**8 + step}
        return {
            "schedstat/before": write_schedstat(17, {cpu: {} for cpu in types}),
            "schedstat/after": write_schedstat(17, counts, jiffies=4295000250),
            "perf_stat/perf_stat.csv": "".join(
                f"N0,{len(cpus)},{cycles[pmu]},,{pmu}/cycles/,1000,100.00,,\n"
                f"N0,{len(cpus)},<not supported>,,{pmu}/branch-misses/,0,100.00,,\n"
                for pmu, cpus in (("cpu_core", core), ("cpu_atom", atom))
            ),
            "bpf_placement/placement.json": json.dumps(placed(on_atom, step)),
            "wakeup_latency/wakeups.json": json.dumps(waited(on_atom, step)),
        }

    def placed(on_atom: int, step: int) -> Json:
        onto = {"cpu_core": 1000 * (10 - on_atom), "cpu_atom": 1000 * on_atom + 10 * step}
        moves = [
            move(
                event, count, cause="load_balance" if event == "migration" else None,
                from_type=start, to_type=end,
            )
            for event in ("wakeup", "migration")
            for start in onto
            for end, count in onto.items()
        ]  # fmt: skip
        latency = [
            {
                "node": 0,
                "core_type": name,
                "log2_ns": [count * (place == bin_) for place in range(40)],
                "sum_ns": count << bin_,
                "count": count,
                "max_ns": (3 << bin_) - step,
            }
            for (name, count), bin_ in zip(onto.items(), (10, 10 + on_atom // 2), strict=True)
        ]
        nodes = {str(cpu): 0 for cpu in types}
        of_cpus = {str(cpu): name for cpu, name in types.items()}
        return {**PLACEMENT, "nodes": nodes, "types": of_cpus, "moves": moves, "latency": latency,
                "timers": [], "balance": None}  # fmt: skip

    def waited(on_atom: int, step: int) -> Json:
        waits = [waits_row("hackbench", 0, {(20 + step) * US: 1000}),
                 waits_row("hackbench", 8, {(100 * on_atom + step) * US: 1000})]  # fmt: skip
        return {**WAKEUPS, "nodes": {str(cpu): 0 for cpu in types}, "rows": waits}

    def runs(on_atom: int) -> Runs:
        return [{"files": captured(on_atom, step)} for step in (0, 4, -3, 2)]

    write_bundle(
        folder / "base.tar",
        runs=[*clean(0.6, 12), *instrumented(runs(2))],
        host=_host_of(intel_hybrid()),
    )
    write_bundle(
        folder / "new.tar",
        runs=[*clean(0.7, 12, shift=5), *instrumented(runs(6))],
        host={**_host_of(intel_hybrid().having(1, governor="performance")), **NEW_KERNEL},
    )


def _host_of(machine: AsymmetricMachine) -> Json:
    # What a collector reads of these files in host.json.
    with TemporaryDirectory() as root:
        machine.write(Path(root))
        system = System(Path(root), machine.machine)
        groups = {
            "topology": core_type_finders(system),
            "cpufreq": {**cpufreq_finders(system), **policy_finders(system)},
            "sched": asymmetry_finders(system),
        }
        return {
            group: {name: attempt(find)[0] for name, find in finders.items()}
            for group, finders in groups.items()
        }


def wakeup_latency(folder: Path) -> None:
    """Write waits of which 2% are longer in new, and the median is not."""

    def runs(tail_us: int) -> Runs:
        captured = (with_tail(tail_us, step) for step in (0, 2, -1, 1, -2))
        return [{"files": {"wakeup_latency/wakeups.json": json.dumps(one)}} for one in captured]

    write_sides(
        folder,
        [*clean(0.6, 12), *instrumented(runs(200))],
        [*clean(0.66, 12, shift=5), *instrumented(runs(900))],
    )


def where_tasks_wait(folder: Path) -> None:
    """Write longer waits for a mutex, after preemptions at a fault, and for a pipe.

    In new, the maps of locks were too small.
    """

    def runs(factor: int, lost: Mapping[str, int]) -> Runs:
        return [
            {
                "files": {
                    "bpf_locks/locks.json": json.dumps(
                        locks_document(10 * factor, step, lost=lost)
                    ),
                    "bpf_preemption/preemption.json": json.dumps(
                        preemption_document(100 * factor, step)
                    ),
                    "bpf_blocking/blocking.json": json.dumps(blocking_document(110 * factor, step)),
                }
            }
            for step in (0, 2, -1, 1, -2)
        ]

    write_sides(
        folder,
        [*clean(0.6, 6), *instrumented(runs(1, {}))],
        [
            *clean(0.66, 6, shift=5),
            *instrumented(runs(3, {"waits for which the maps had no room": 5})),
        ],
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


def load(folder: Path) -> None:
    """Write runs beside a load that became slower."""
    base, new = (beside_load([rate * factor for factor in NOISE[:12]]) for rate in (400.0, 320.0))
    write_sides(
        folder,
        [{**run, **of_load} for run, of_load in zip(clean(0.6), base, strict=True)],
        [{**run, **of_load} for run, of_load in zip(clean(0.6, shift=5), new, strict=True)],
        manifest={"load": COMMAND},
    )


def realtime(folder: Path) -> None:
    """Write histograms of cyclictest whose tail became heavier."""
    few, many = (3, 5, 4, 2, 6, 4), (30, 36, 28, 33, 35, 31)
    write_sides(folder, tail_runs(few), tail_runs(many, longest_us=300))


def realtime_unequal(folder: Path) -> None:
    """Write histograms of cyclictest of which the new ones have twice as many samples."""
    write_sides(folder, tail_runs((3, 5, 4, 2)), tail_runs((6, 9, 7, 8), samples=20_000))


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


def energy(folder: Path) -> None:
    """Write energy of two packages: the new kernel is faster with 16 groups, at more power."""
    refused = {"/sys/class/powercap/intel-rapl:2/energy_uj": "permission denied"}

    def runs(watts: float, shift: int, times_s: Mapping[str, float]) -> Iterator[Json]:
        for groups, mean_s in times_s.items():
            for place in range(6):
                time_s = mean_s * NOISE[place + shift]
                joules = time_s * watts * NOISE[place + shift + 1]
                domains = [
                    rapl_domain("0", "package-0", joules),
                    rapl_domain("0:0", "core", 0.7 * joules),
                    rapl_domain("0:1", "uncore", 0.0),
                    rapl_domain("0:2", "dram", 9.0 * time_s),
                    rapl_domain("1", "package-1", 0.9 * joules),
                ]
                capture = write_capture(domains[: 5 - shift], seconds=time_s, refused=refused)
                files = {"energy/energy.json": capture}
                yield {"time_s": time_s, "point": {"groups": groups}, "files": files}

    base = runs(90.0, 0, {"1": 0.2, "4": 0.8, "16": 3.2})
    new = runs(101.0, 1, {"1": 0.2, "4": 0.8, "16": 2.6})
    write_sides(folder, [*base], [*new])


def account(folder: Path) -> None:
    """Write runs of new beside another load: the tasks wait longer for a CPU, and do no more."""

    def run(place: int, waiting_s: float, load_s: float) -> Json:
        noise = NOISE[place]
        usage = {"utime_s": 0.2 * noise, "stime_s": 1.0 * noise, "maxrss_bytes": 4 << 20,
                 "minflt": 2700, "majflt": 0, "nvcsw": 9000, "nivcsw": 800}  # fmt: skip
        blocked_s, exec_s = 12.0 * noise, 1.1 * noise
        content = {
            "schema": "schedperf/account/1", "lost": 0, "left_out": 0, "unresolved": place % 2,
            "tasks": 161, "lifetime_s": waiting_s * noise + blocked_s + exec_s, "exec_s": exec_s,
            "waiting_s": waiting_s * noise, "user_s": 0.1, "system_s": 0.9, "minor_faults": 2700,
            "major_faults": 0, "recorder_cpu_s": 0.01, "others_cpu_s": load_s + 0.02,
            "others": [{"command": "stress-ng", "cpu_s": load_s},
                       {"command": "sshd", "cpu_s": 0.02}],
        }  # fmt: skip
        return {
            "time_s": 0.6 * noise * (1.0 + (waiting_s - 30.0) / 60.0),
            "rusage": usage,
            "files": {"account/account.json": json.dumps(content)},
        }

    base = [run(place, 30.0, 0.0 if place else 0.01) for place in range(8)]
    new = [run(place + 1, 66.0, 2.1) for place in range(8)]
    write_sides(folder, base, new)


def sampled_account(folder: Path) -> None:
    """Write runs of an ordinary user, whose tasks wait longer for a CPU: it is sampled."""

    def run(place: int, kind: str, waiting_s: float, coverage: float) -> Json:
        noise = NOISE[place]
        usage = {"utime_s": 0.2 * noise, "stime_s": 1.0 * noise, "maxrss_bytes": 4 << 20,
                 "minflt": 2700, "majflt": 0, "nvcsw": 9000, "nivcsw": 800}  # fmt: skip
        samples = {
            "schema": "schedperf/task_times/1", "looks": 6, "tasks": 161,
            "exec_s": 1.2 * coverage * noise, "waiting_s": waiting_s * coverage * noise,
        }  # fmt: skip
        has_samples = kind == "instrumented"
        return {
            "kind": kind,
            "time_s": 0.6 * noise * (1.0 + (waiting_s - 30.0) / 60.0),
            "rusage": usage,
            "files": {"task_times/task_times.json": json.dumps(samples)} if has_samples else {},
        }

    kinds = ("clean", "instrumented")
    base = [run(place, kind, 30.0, 0.92) for kind in kinds for place in range(8)]
    new = [run(place + 1, kind, 66.0, 0.88) for kind in kinds for place in range(8)]
    write_sides(folder, base, new)


def waits(folder: Path) -> None:
    """Write instrumented runs whose tasks are preempted more often, on a kernel before 6.18."""

    def run(place: int, preempted_s: float) -> Json:
        noise = NOISE[place]
        return divided_run(
            preempted=preempted_s * noise, woken=6.0 * noise, yielded=0.01 * noise,
            throttled=None, io=0.3 * noise, other=12.0 * noise,
        )  # fmt: skip

    base = [run(place, 20.0) for place in range(4)]
    new = [run(place + 1, 60.0) for place in range(4)]
    clean_new = [run_of_account(waiting=66.0 * NOISE[place], blocked=12.0) for place in range(6)]
    clean_base = [run_of_account(waiting=26.0 * NOISE[place], blocked=12.0) for place in range(6)]
    write_sides(
        folder,
        [*({**each, "time_s": 0.6 * NOISE[at]} for at, each in enumerate(clean_base)), *base],
        [*({**each, "time_s": 0.8 * NOISE[at]} for at, each in enumerate(clean_new)), *new],
    )


def sched_ext(folder: Path) -> None:
    """Write the fair class, with a run of a partial scheduler, against one that was ejected."""
    partial = run_of_scheduler({**LOADED, "switch_all": "0"})
    base = [FAIR if number != 4 else partial for number in range(12)]
    new = [EJECTED if number in {2, 7} else LAVD for number in range(12)]
    sides: Sequence[tuple[Side, float, Runs]] = (("base", 0.6, base), ("new", 0.7, new))
    for side, mean_s, captures in sides:
        runs = in_turns(side, mean_s)
        write_bundle(
            folder / f"{side}.tar",
            runs=[{**run, **capture} for run, capture in zip(runs, captures, strict=True)],
            manifest={"service": "scx_lavd --performance" if side == "new" else None},
        )


def with_scheduler(run: Json, *, time_s: float) -> Json:
    return {**LAVD, "time_s": time_s, "files": {**LAVD["files"], **run["files"]}}


def scx_stats(folder: Path) -> None:
    """Write statistics of two builds of a scheduler; one run of the new one has none."""

    def runs(direct: float, util: float, waits: Sequence[int], shift: int) -> Runs:
        captures = (
            run_with_stats(
                2.0, direct=direct * NOISE[place + shift], util=util * NOISE[place], waits=waits
            )
            for place in range(6)
        )
        return [with_scheduler(each, time_s=0.6 * NOISE[at]) for at, each in enumerate(captures)]

    without = {"samples": [], "failure": "no answer within 5 s"}
    lost = run_with_stats(2.0, direct=1.0, changed=without)
    base = runs(1000.0, 40.0, (0, 6, 3, 1), 0)
    new = [*runs(1400.0, 48.0, (0, 2, 5, 3), 1), with_scheduler(lost, time_s=0.6)]
    write_sides(folder, base, new)


def scx_stats_alone(folder: Path) -> None:
    """Write the fair class against a scheduler with statistics."""
    new = [run_with_stats(2.0, direct=1000.0 * NOISE[place]) for place in range(6)]
    fair = [{**run, **FAIR} for run in clean(0.6, 6)]
    write_sides(folder, fair, [with_scheduler(each, time_s=0.6) for each in new])


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
    "wakeup_latency/wakeups.json": "{}",
    "bpf_locks/locks.json": "[]",
    "bpf_preemption/preemption.json": '{"schema": "schedperf/bpf_preemption/9"}',
    "bpf_blocking/blocking.json": "{",
    "schedstat/before": "version 99\n",
    "schedstat/after": "version 99\n",
    "system_counters/facts.json": "{",
}


def unreadable_captures(folder: Path) -> None:
    """Write captures none of which can be parsed."""
    runs = [{"kind": "instrumented", "files": UNREADABLE}] * 2
    layout = {"boots/0/layout/System.map": "this is no map\n"}
    write_sides(folder, [*clean(0.6, 4), *runs], [*clean(0.6, 4, shift=5), *runs], files=layout)


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
