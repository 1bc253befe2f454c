# SPDX-License-Identifier: GPL-2.0-or-later
"""Count false alarms and found steps of the watch and of other tools: ``python -m bench.watch``.

The exit status is 1 if a limit of ``gates.py`` is not met. Real series are read from
``../shared/data/histories`` if it exists.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import count

from bench.limits import Check, check_lines
from bench.watch.environment import install
from bench.watch.gates import check_real, check_simulated
from bench.watch.histories import HISTORIES, Kind, read_histories
from bench.watch.measure import (
    OURS,
    Cell,
    Detection,
    Quiet,
    RealScore,
    count_false_alarms,
    finders,
    measure_detection,
    measure_histories,
    of_kind,
)
from bench.watch.rules import series_of
from bench.watch.worlds import BOOT_SDS, CHANGES, NOISES
from schedperf.history.series import WatchedNight
from schedperf.history.watch.nights import add_nights, watch_series

SEED = 20_261_130
YEARS = 1000
RIVAL_YEARS = 20
SERIES = 1000
RIVAL_SERIES = 40
TIMED_SERIES = 5000
TIMED_NIGHTS = 100

GROUPS: Mapping[str, tuple[Kind, ...]] = {
    "paired": ("paired",),
    "all dedicated machines": ("paired", "dedicated"),
    "hosted CI": ("hosted",),
    "other": ("other",),
}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.watch", description=__doc__)
    parser.add_argument(
        "--years", type=int, default=YEARS, metavar="N",
        help=f"simulated series-years per noise, other tools 1/50 of it [default: {YEARS}]",
    )  # fmt: skip
    parser.add_argument("--only", choices=("simulated", "real"), help="leave out the other series")
    parser.add_argument(
        "--own", action="store_true", help="leave out the tools that have to be installed"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes [default: CPUs]"
    )
    return parser.parse_args(arguments)


def simulate_all(
    tools: Sequence[str], years: int, pool: Executor
) -> tuple[list[Future[Quiet]], list[Future[Detection]]]:
    """Start all simulations; return the futures of false alarms and of detections."""
    share = years / YEARS
    seeds = count(SEED)
    quiet: list[Future[Quiet]] = []
    detections: list[Future[Detection]] = []
    for tool in tools:
        is_ours = tool == OURS
        of_tool = max(1, round(share * (YEARS if is_ours else RIVAL_YEARS)))
        series = max(1, round(share * (SERIES if is_ours else RIVAL_SERIES)))
        for sd in BOOT_SDS if is_ours else BOOT_SDS[:1]:
            quiet += [
                pool.submit(count_false_alarms, tool, noise, sd, of_tool, next(seeds))
                for noise in NOISES
            ]
        for sd in BOOT_SDS:
            detections += [
                pool.submit(
                    measure_detection,
                    tool,
                    Cell(noise=noise, sd=sd, change=change),
                    series,
                    next(seeds),
                )
                for noise in (NOISES if is_ours else NOISES[:1])
                for change in CHANGES
            ]
    return quiet, detections


def quiet_lines(quiet: Sequence[Quiet]) -> Iterator[str]:
    """Yield a line of false alarms per 1,000 series-years, per tool and sd of boots."""
    yield "false alarms per 1,000 series-years"
    yield f"{'':<28}" + "".join(f"{noise:>14}" for noise in NOISES) + f"{'years':>8}"
    rows = dict.fromkeys((each.tool, each.sd) for each in quiet)
    for tool, sd in rows:
        of_row = [each for each in quiet if (each.tool, each.sd) == (tool, sd)]
        rates = "".join(f"{each.rate:>14,.0f}" for each in of_row)
        yield f"{tool + f', sd {sd:.1%}':<28}{rates}{of_row[0].years:>8}"


def detection_lines(detections: Sequence[Detection]) -> Iterator[str]:
    """Yield a line per tool, noise and sd: what is found within 14 nights, delay, place."""
    yield "steps: share found within 14 nights, median delay in nights, place right within a night"
    yield f"{'':<42}" + "".join(f"{change:>+12.0%}        " for change in CHANGES)
    rows: dict[tuple[str, str, float], list[Detection]] = {}
    for each in detections:
        rows.setdefault((each.tool, each.cell.noise, each.cell.sd), []).append(each)
    for (tool, noise, sd), cells in rows.items():
        text = "".join(
            f"{each.soon:>8.3f} {_number(each.delay, '4.0f')} {_number(each.near, '5.3f')}"
            for each in cells
        )
        yield f"{f'{tool}, {noise}, sd {sd:.1%}':<42}{text}"


def real_lines(scores: Mapping[str, Mapping[str, RealScore]]) -> Iterator[str]:
    """Yield a line per tool and group of real series.

    :param scores: by tool, then by source
    """
    for name, kinds in GROUPS.items():
        points = of_kind(next(iter(scores.values())), *kinds)
        yield f"{name}: {points.points} points, {points.evident} evident steps"
        yield (
            f"{'':<20}{'alarms':>8}{'stray':>8}{'/ 1,000':>9}{'found':>7}{'share':>7}"
            f"{'delay':>7}{'place':>7}"
        )
        for tool, by_source in scores.items():
            score = of_kind(by_source, *kinds)
            share = score.found / score.evident if score.evident else None
            near = score.near / score.found if score.found else None
            yield (
                f"{tool:<20}{score.alarms:>8}{score.stray:>8}{score.stray_rate:>9.2f}"
                f"{score.found:>7}  {_number(share, '5.2f')}  {_number(score.delay, '5.1f')}"
                f"  {_number(near, '5.2f')}"
            )
        yield ""


def time_one_night(series: int) -> float:
    """Return the seconds that one new night of many series takes."""
    nights = [
        WatchedNight(order=order, value=1.0 + order % 7 / 100, reference=1.0)
        for order in range(TIMED_NIGHTS + 1)
    ]
    keys = [series_of(f"series {index}", []).key for index in range(series)]
    state = watch_series(series_of("", nights[:-1])).state
    states = dict.fromkeys(keys, state)
    tonight = dict.fromkeys(keys, nights[-1])
    began = time.perf_counter()
    add_nights(states, tonight, lambda _: series_of("", nights))
    return time.perf_counter() - began


def main(arguments: Sequence[str]) -> int:
    """Print all tables; return 0 if all limits are kept, else 1."""
    chosen = parse_arguments(arguments)
    if not chosen.own:
        install()
    tools = list(finders(packaged=not chosen.own))
    checks: list[Check] = []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        real = {} if chosen.only == "simulated" else start_histories(tools, pool)
        if chosen.only != "real":
            checks += print_simulated(*simulate_all(tools, chosen.years, pool))
        scores = {tool: future.result() for tool, future in real.items()}
    if scores:
        print(*real_lines(scores), sep="\n")
        checks += check_real(scores[OURS])
    print(*check_lines(checks), sep="\n", end="\n\n")
    seconds = time_one_night(TIMED_SERIES)
    print(f"one new night of {TIMED_SERIES:,} series: {seconds:.2f} s")
    return 0 if all(check.is_kept for check in checks) else 1


def start_histories(
    tools: Sequence[str], pool: Executor
) -> Mapping[str, Future[Mapping[str, RealScore]]]:
    """Start each tool on all real series, if there are any."""
    histories = list(read_histories()) if HISTORIES.is_dir() else []
    return {tool: pool.submit(measure_histories, tool, histories) for tool in tools if histories}


def print_simulated(
    quiet: Sequence[Future[Quiet]], detections: Sequence[Future[Detection]]
) -> Iterator[Check]:
    """Print the tables of all simulations, and return their checks."""
    alarms = [future.result() for future in quiet]
    found = [future.result() for future in detections]
    print(*quiet_lines(alarms), sep="\n", end="\n\n")
    print(*detection_lines(found), sep="\n", end="\n\n", flush=True)
    return check_simulated(alarms, found)


def _number(value: float | None, form: str) -> str:
    width = int(form.split(".", maxsplit=1)[0])
    return f"{'-':>{width}}" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
