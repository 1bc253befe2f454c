# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the speed of a history: ``python -m bench.history``.

1,000 bundles are added to a store, twice, and the database is made again; a series is read from
10 million runs; 5,000 series of 365 nights are watched, and then one more night of them. The same
is done in PostgreSQL, if it is installed. The bundles are read by processes, by one Dask worker and
by two, and compared as pairs. The exit status is 1 if a limit is not kept.
"""

import argparse
import filecmp
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from statistics import median

from sqlalchemy import Connection, text

from bench.history.bundles import read_members, write_nights
from bench.history.postgresql import server
from bench.history.spread import measure_spread
from schedperf.history.questions.history import open_history
from schedperf.history.store.directory import open_or_create
from schedperf.history.store.writer import writing

EXAMPLE = Path(__file__).parents[2] / "examples" / "other-load" / "base.tar.xz"
BUNDLES, RUNS = 1_000, 10_000_000
RESULTS, RUNS_OF_A_BOOT = 5_000, 2
NIGHTS = 365
# Limits: adding 1,000 bundles on two CPUs, reading a series, and watching one more night of all.
ADD_S, SERIES_S, WATCH_S = 60.0, 0.050, 2.0
# Limits: comparing 1,000 pairs on two CPUs; two Dask workers, with one and with processes.
COMPARE_S, SPEEDUP, CPU_RATIO = 90.0, 1.5, 1.15
ROUNDS = 9
_FILL = """
INSERT INTO input (id, kind, digest, sha256, bytes, path, kept, night, role, purpose, parser)
  SELECT i, 'bundle', 'd' || i, 's' || i, 0, '', FALSE, '2026-01-01', 'new', 'night', ''
  FROM ({inputs}) AS numbers;
INSERT INTO result (id, machine_class, workload, point, metric, unit, better, family)
  SELECT i, 'bench', 'w', '', 'm' || i, 's', 'lower', 'primary' FROM ({results}) AS numbers;
INSERT INTO series (id, key, result_id, tree)
  SELECT i, 'k' || i, i, '' FROM ({results}) AS numbers;
INSERT INTO value (result_id, input_id, boot, run, value)
  SELECT result.id, input.id, 0, numbers.i, 1.0 + (result.id * input.id + numbers.i) % 97 / 1000.0
  FROM result CROSS JOIN input CROSS JOIN ({runs}) AS numbers
  ORDER BY result.id, input.id, numbers.i
"""
_FILL_NIGHTS = """
INSERT INTO night (series_id, position, revision, night, scale, new, reference)
  SELECT series.id, numbers.i, '', '2026-01-01', 'log',
    1.0 + (series.id * 7919 + numbers.i * 104729) % 997 / 1e5, 1.0
  FROM series CROSS JOIN ({nights}) AS numbers WHERE numbers.i > {since}
  ORDER BY series.id, numbers.i
"""
_NUMBERS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) "
    "SELECT i FROM n",
    "postgresql": "SELECT i FROM generate_series(1, {n}) AS s(i)",
}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--bundles", type=int, default=BUNDLES, metavar="N",
                        help=f"add N bundles [default: {BUNDLES}]")  # fmt: skip
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N",
                        help=f"read a series out of N runs [default: {RUNS}]")  # fmt: skip
    return parser.parse_args(arguments)


class Table:
    """Prints measurements, and whether limits are kept."""

    def __init__(self) -> None:
        self.is_kept = True

    def print(self, what: str, wall_s: float, limit_s: float | None = None) -> None:
        """Print one line.

        :param limit_s: the limit; None for none
        """
        word = ""
        if limit_s is not None:
            is_kept = wall_s <= limit_s
            self.is_kept &= is_kept
            word = f"  <= {limit_s:g} s {'kept' if is_kept else 'NOT KEPT'}"
        print(f"  {what:<44} {wall_s:>9.3f} s{word}", flush=True)

    def judge(
        self, what: str, ratio: float, *, at_least: float = 0.0, at_most: float = inf
    ) -> None:
        """Print a ratio and its limit."""
        is_kept = at_least <= ratio <= at_most
        self.is_kept &= is_kept
        limit = f">= {at_least:g}" if at_least else f"<= {at_most:g}"
        word = "kept" if is_kept else "NOT KEPT"
        print(f"  {what:<44} {ratio:>9.3f}    {limit} {word}", flush=True)


def run(*arguments: str | Path) -> tuple[float, float]:
    """Run a subcommand of ``schedperf history``; return its wall time and CPU time in s.

    :raises CalledProcessError: it ends with an error
    """
    return run_command("history", *arguments)


def run_command(*arguments: str | Path) -> tuple[float, float]:
    """Run ``schedperf``, as :func:`run`; exit status 1, a regression, is expected."""
    command = [sys.executable, "-m", "schedperf", *map(str, arguments)]
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(
        command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if done.returncode not in {0, 1}:
        done.check_returncode()
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system


def measure_adding(folder: Path, nights: Path, bundles: int, url: str | None, table: Table) -> None:
    """Add bundles twice, and make the database again."""
    store = make_store(folder / "store", url)
    wall, cpu = run("add", "--store", store, nights)
    table.print(f"add {bundles} bundles ({cpu:.1f} s CPU)", wall, ADD_S * bundles / BUNDLES)
    run("export", "--store", store, "--parquet", folder / "once")
    table.print("add them again", run("add", "--store", store, nights)[0])
    run("export", "--store", store, "--parquet", folder / "twice")
    is_same = is_equal(folder / "once", folder / "twice")
    table.is_kept &= is_same
    print(f"  exports are {'equal' if is_same else 'NOT EQUAL'} byte by byte")
    table.print("rebuild", run("rebuild", "--store", store)[0])
    table.print("list", run("list", "--store", store)[0])


def measure_many(folder: Path, nights: Path, table: Table) -> None:
    """Compare both kernels of each night, and read all bundles by processes and by Dask."""
    pairs = [
        (night / "night-base.tar", night / "night-new.tar") for night in sorted(nights.iterdir())
    ]
    file = folder / "pairs.csv"
    file.write_text("base,new\n" + "".join(f"{base},{new}\n" for base, new in pairs))
    wall, cpu = run_command("compare", "--many", file)
    limit_s = COMPARE_S * len(pairs) / BUNDLES
    table.print(f"compare {len(pairs)} pairs ({cpu:.1f} s CPU)", wall, limit_s)
    spread = measure_spread(folder / "clusters", [path for pair in pairs for path in pair])
    print(
        f"  bundles per second: {spread.bundles_by_processes:.0f} by processes, "
        f"{spread.bundles_by_one:.0f} by one Dask worker, {spread.bundles_by_two:.0f} by two"
    )
    table.judge("two Dask workers / one", spread.speedup, at_least=SPEEDUP)
    table.judge("CPU time of Dask / processes", spread.cpu_ratio, at_most=CPU_RATIO)


def measure_reading(folder: Path, runs: int, url: str | None, table: Table) -> None:
    """Read a series from a database with many runs, and watch many series."""
    directory, _ = open_or_create(make_store(folder / "large", url))
    with writing(directory, print):
        pass
    database = directory.database()
    start = time.perf_counter()
    with database.transaction() as connection:
        fill(connection, runs)
        add_nights(connection, 0, NIGHTS)
    if not database.is_sqlite:
        with database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        ) as connection:
            connection.execute(text("VACUUM ANALYZE"))
    table.print(f"fill with {runs} runs", time.perf_counter() - start)
    with open_history(directory.folder) as history:
        names = iter(history.series()[:: RESULTS // ROUNDS])
        table.print("nights of a series", timed(lambda: history.nights(next(names))), SERIES_S)
        ids = iter(range(7, RESULTS, RESULTS // ROUNDS))
        values = text("SELECT input_id, boot, run, value FROM value WHERE result_id = :result")
        with history.database.transaction() as connection:
            table.print(
                "values of a series",
                timed(lambda: connection.execute(values, {"result": next(ids)}).all()),
                SERIES_S,
            )
    every = f"{RESULTS} series"
    table.print(f"watch {NIGHTS} nights of {every}", run("watch", "--store", directory.folder)[0])
    with database.transaction() as connection:
        add_nights(connection, NIGHTS, NIGHTS + 1)
    database.close()
    wall, cpu = run("watch", "--store", directory.folder)
    table.print(f"watch one more night ({cpu:.1f} s CPU)", wall, WATCH_S)
    table.print("watch without a new night", run("watch", "--store", directory.folder)[0])
    table.print(f"list {every}", run("list", "--store", directory.folder)[0])


def fill(connection: Connection, runs: int) -> None:
    """Insert a number of runs of 5,000 results, two in each input."""
    sizes = {
        "inputs": runs // RESULTS // RUNS_OF_A_BOOT, "results": RESULTS, "runs": RUNS_OF_A_BOOT,
    }  # fmt: skip
    numbers = {name: numbers_to(connection, number) for name, number in sizes.items()}
    for statement in _FILL.format(**numbers).split(";"):
        connection.execute(text(statement))


def add_nights(connection: Connection, since: int, until: int) -> None:
    """Insert the nights of all series after one and up to another."""
    nights = numbers_to(connection, until)
    connection.execute(text(_FILL_NIGHTS.format(nights=nights, since=since)))


def numbers_to(connection: Connection, last: int) -> str:
    """Return a query of the numbers from 1."""
    return _NUMBERS[connection.dialect.name].format(n=last)


def timed(read: Callable[[], object]) -> float:
    """Return the median duration of some calls, in s."""

    def durations() -> Iterator[float]:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            read()
            yield time.perf_counter() - start

    return median(durations())


def make_store(folder: Path, url: str | None) -> Path:
    """Return a new directory of a store with this database; None for SQLite."""
    folder.mkdir()
    if url is not None:
        (folder / "store.toml").write_text(f'database = "{url}"\n')
    return folder


def is_equal(first: Path, second: Path) -> bool:
    """Return whether two directories have files of the same names and bytes."""
    names = [sorted(path.relative_to(folder) for path in folder.rglob("*.parquet"))
             for folder in (first, second)]  # fmt: skip
    return names[0] == names[1] and all(
        filecmp.cmp(first / name, second / name, shallow=False) for name in names[0]
    )


def main(arguments: Sequence[str]) -> int:
    """Print all measurements; return 0 if all limits are kept, and 1 if not."""
    options = parse_arguments(arguments)
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        size = write_nights(root / "nights", read_members(EXAMPLE), options.bundles)
        print(f"{options.bundles} bundles, {size / 1e6:.0f} MB, {os.cpu_count()} CPUs")
        measure_many(root, root / "nights", table)
        with server(root / "postgresql") as url:
            for engine, database in (("SQLite", None), ("PostgreSQL", url)):
                if engine == "PostgreSQL" and url is None:
                    print("PostgreSQL: not installed")
                    continue
                print(engine)
                folder = root / engine
                folder.mkdir()
                measure_adding(folder, root / "nights", options.bundles, database, table)
                if database is not None:
                    drop_tables(database)
                measure_reading(folder, options.runs, database, table)
    return 0 if table.is_kept else 1


def drop_tables(url: str) -> None:
    """Empty a database of PostgreSQL, for another store."""
    from sqlalchemy import create_engine  # noqa: PLC0415 # only here

    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
