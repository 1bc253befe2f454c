# SPDX-License-Identifier: GPL-2.0-or-later
"""The report names the load that runs were made beside, and its results with their direction."""

from collections.abc import Callable
from pathlib import Path

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Table, Text
from schedperf_reports.evidence.load import load
from tests.schedperf.evidence.load.conftest import COMMAND, beside_load, load_files
from tests.schedperf.evidence.realtime.conftest import tail_runs

RATES = (400.0, 402.0, 398.0, 401.0)


def compared(
    folder: Path, make_bundle: Callable[..., Path], *rates: tuple[float, ...]
) -> Comparison:
    paths = [
        make_bundle(folder / f"{number}.tar", runs=beside_load(each), manifest={"load": COMMAND})
        for number, each in enumerate(rates)
    ]
    return compare_bundles([open_bundle(path) for path in paths], drawings=False)


def test_results_stand_below_the_load(tmp_path: Path, make_bundle: Callable[..., Path]) -> None:
    slower = tuple(rate / 2 for rate in RATES)
    text, table, *_ = load(compared(tmp_path, make_bundle, RATES, slower))
    assert isinstance(text, Text)
    assert text.brief
    assert f"beside `{COMMAND}`" in text.text
    assert isinstance(table, Table)
    assert f"{COMMAND} beside the workload: " in table.caption
    names = [row[0].text for row in table.rows]
    row = table.rows[names.index("stress-ng cpu bogo ops per real time")]
    assert any("-50.0%" in cell.text for cell in row)
    assert row[-1].text == "higher"


def test_why_few_maxima_of_the_load_have_no_ci_is_said(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    command = "cyclictest -q -h 400"
    paths = []
    for side in ("base", "new"):
        runs = [
            {"files": {**load_files("", command=command.split()), "load/stdout": run["stdout"]}}
            for run in tail_runs((3, 5, 4, 2))
        ]
        manifest = {"load": command}
        paths.append(make_bundle(tmp_path / f"{side}.tar", runs=runs, manifest=manifest))
    comparison = compare_bundles([open_bundle(path) for path in paths], drawings=False)
    blocks = list(load(comparison))
    [table] = [block for block in blocks if isinstance(block, Table)]
    [details] = [
        details
        for row, details in zip(table.rows, table.details, strict=True)
        if row[0].text == "cyclictest latency max"
    ]
    for each in (blocks, details):
        said = [block.text for block in each if isinstance(block, Text)]
        assert any(text.startswith("no CI of maxima: ") for text in said)


def test_without_a_load_the_section_says_so(make_comparison: Callable[..., Comparison]) -> None:
    [text] = load(make_comparison(sections={}))
    assert isinstance(text, Text)
    assert text.text == "not analysed"
