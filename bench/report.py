# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how long a report takes to build, how large it is, and how soon a browser shows it.

Five reports: three examples, 60 benchmarks with 20 runs per side, and 500 benchmarks with 5 runs
per side. The times in the browser are those of its Performance API, each the median of several
visits of a file on disk. Words and pictures are counted as the page shows them when it is opened,
in a window of 1400 x 900.
"""

import csv
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ("deep-cgroup", "deep-cgroup-arm64", "cluster-percpu")
ROUNDS = 3
VISITS = 5
# Exit statuses of a comparison that are a verdict.
VERDICTS = (0, 1)
COLUMNS = ("workload", "point", "metric", "unit", "better", "run", "value")

# Relative standard deviation of the runs, and relative changes of the results, in turn.
NOISE = 0.01
CHANGES = (0.0, 0.0, 0.0, 0.0, 0.0, 0.08, -0.05)

# Words that are not folded, and pictures in the first window.
COUNTS = """() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  let words = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const isText = !node.parentElement.closest("script, noscript, template, title");
    if (isText && node.parentElement.checkVisibility()) {
      words += node.textContent.split(/\\s+/).filter(Boolean).length;
    }
  }
  const pictures = [...document.querySelectorAll("main figure, main .drawn svg")];
  return {
    nodes: document.querySelectorAll("*").length,
    screens: document.documentElement.scrollHeight / innerHeight,
    words,
    pictures: pictures.filter((one) => one.getBoundingClientRect().top < innerHeight).length,
    parsed: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  };
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
READY = "performance.getEntriesByName('ready')[0]?.startTime"
LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The measured times, size and counts of one report.

    :param compare_s: seconds of ``schedperf compare --json``, without a page
    :param html_s: seconds of ``schedperf compare --html``
    :param megabytes: size of the page
    :param counts: ``nodes``, ``screens`` (height of the page / height of the window), ``words``
        that are visible, ``pictures`` in the first window, and ``parsed``: ms until the DOM is
        loaded
    :param paint_ms: ms until the first contentful paint
    :param ready_ms: ms until the page's scripts have run
    """

    name: str
    compare_s: float
    html_s: float
    megabytes: float
    counts: dict[str, float]
    paint_ms: float
    ready_ms: float


def write_table(path: Path, results: int, runs: int, *, is_new: bool) -> Path:
    """Write simulated runs of benchmarks as CSV, and return the path; the same values each time.

    :param results: number of benchmarks
    :param runs: of each benchmark
    :param is_new: whether some benchmarks are slower or faster, by CHANGES
    """
    chance = random.Random(f"{results} {runs} {is_new}")  # noqa: S311 # nothing is secret
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for result in range(results):
            level = 1.0 + (CHANGES[result % len(CHANGES)] if is_new else 0.0)
            for run in range(runs):
                value = level * (1.0 + result % 9) * (1.0 + chance.gauss(0.0, NOISE))
                name = f"benchmark-{result:03}"
                writer.writerow((name, "", f"{name} time", "s", "lower", run, f"{value:.6f}"))
    return path


def wall_s(command: Sequence[str]) -> float:
    """Return how many seconds a comparison takes.

    :raises SystemExit: its exit status is not that of a verdict
    """
    start = time.perf_counter()
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in VERDICTS:
        sys.exit(f"{shlex.join(command)}: exit status {done.returncode}")
    return time.perf_counter() - start


def visit(browser: Any, page_file: Path) -> tuple[float, float, dict[str, float]]:
    """Open a page; return ms until the first paint, ms until its scripts have run, and its counts.

    :raises SystemExit: it is not painted and ready after LONGEST_WAIT_S
    """
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    end = time.monotonic() + LONGEST_WAIT_S
    while None in (times := (page.evaluate(FIRST_PAINT), page.evaluate(READY))):
        if time.monotonic() > end:
            sys.exit(f"{page_file.name}: never became readable and ready: {times}")
        time.sleep(0.01)
    counts: dict[str, float] = page.evaluate(COUNTS)
    context.close()
    return (*times, counts)


def measure(browser: Any, name: str, sides: Sequence[Path], folder: Path) -> Figures:
    """Build one report ROUNDS times, open it VISITS times, and return the medians.

    :param sides: files of base and new
    :param folder: where the report is written
    """
    page_file = folder / "report.html"
    compare = [sys.executable, "-m", "schedperf", "compare", *map(str, sides)]
    commands = ([*compare, "--json", os.devnull], [*compare, "--html", str(page_file)])
    alone, with_page = zip(*[tuple(map(wall_s, commands)) for _ in range(ROUNDS)], strict=True)
    visits = [visit(browser, page_file) for _ in range(VISITS)]
    paints, readies, counts = zip(*visits, strict=True)
    parsed = statistics.median(one["parsed"] for one in counts)
    return Figures(
        name=name,
        compare_s=statistics.median(alone),
        html_s=statistics.median(with_page),
        megabytes=page_file.stat().st_size / 1e6,
        counts={**counts[0], "parsed": parsed},
        paint_ms=statistics.median(paints),
        ready_ms=statistics.median(readies),
    )


def measure_all(browser: Any, folder: Path) -> Iterator[Figures]:
    """Yield the figures of each report.

    :param folder: where the reports and the simulated runs are written
    """
    for name in NAMES:
        example = [EXAMPLES / name / f"{side}.tar.xz" for side in ("base", "new")]
        yield measure(browser, name, example, folder)
    for results, runs in ((60, 20), (500, 5)):
        sides = [
            write_table(folder / f"{side}.csv", results, runs, is_new=side == "new")
            for side in ("base", "new")
        ]
        yield measure(browser, f"{results} results x {runs} runs", sides, folder)


def main() -> None:
    """Print one line per report.

    :raises SystemExit: Chromium is not installed, or a report cannot be built or opened
    """
    name = "chromium-headless-shell"
    chromium = shutil.which(name) or sys.exit(f"no Chromium; apt-get install {name}")
    arguments = ["--disable-gpu"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
    print(f"reports: median of {ROUNDS} builds and {VISITS} visits")
    print(
        f"  {'report':<22} {'compare':>9} {'with page':>10} {'size':>9} {'nodes':>7}"
        f" {'screens':>7} {'words':>6} {'pictures':>8} {'loaded':>8} {'readable':>9} {'ready':>9}"
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=arguments)
        for one in measure_all(browser, Path(folder)):
            print(
                f"  {one.name:<22} {one.compare_s:7.2f} s {one.html_s:8.2f} s"
                f" {one.megabytes:6.2f} MB {one.counts['nodes']:7.0f}"
                f" {one.counts['screens']:7.1f} {one.counts['words']:6.0f}"
                f" {one.counts['pictures']:8.0f} {one.counts['parsed']:5.0f} ms"
                f" {one.paint_ms:6.0f} ms {one.ready_ms:6.0f} ms"
            )
        browser.close()


if __name__ == "__main__":
    main()
