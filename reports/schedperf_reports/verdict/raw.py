# SPDX-License-Identifier: GPL-2.0-or-later
"""Report raw data: the record for downloading, commands that reproduce it, and its inputs."""

import shlex
from collections.abc import Iterator
from functools import partial

from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf_reports.blocks import Block, Cell, Column, Table
from schedperf_reports.graphics.download import Download
from schedperf_reports.sections import report_section
from schedperf_reports.words.rows import count_of

RECORD = "compare.json"
REPORT = "report.html"


@report_section("raw", title="Raw data", chapter="raw", order=10)
def raw(comparison: Comparison) -> Iterator[Block]:
    """Yield the record for downloading, the commands, and the digests of the inputs."""
    again = comparison.command or ("schedperf", "compare", *(s.path for s in comparison.sides))
    as_json = shlex.join((*again, "--json", RECORD))
    yield Download(
        caption=f"full record as JSON ({comparison.schema}): "
        f"{count_of(len(comparison.rows), 'result')} with the values of all runs",
        name=RECORD,
        media="application/json",
        write=partial(to_json, comparison),
        otherwise=f"this command writes the record: {as_json}",
    )
    yield _commands(shlex.join((*again, "--html", REPORT)), as_json)
    yield _digests(comparison)


def _commands(as_report: str, as_json: str) -> Table:
    return Table(
        caption="commands that reproduce this report and its record",
        columns=(Column(title="output"), Column(title="command", code=True)),
        rows=(
            (Cell(text="this report"), Cell(text=as_report)),
            (Cell(text="the record"), Cell(text=as_json)),
        ),
        limit=0,
    )


def _digests(comparison: Comparison) -> Table:
    return Table(
        caption=f"SHA-256 of the captured files of {count_of(len(comparison.sides), 'side')}",
        columns=(
            Column(title="side"),
            Column(title="file", code=True),
            Column(title="SHA-256", code=True),
            Column(title="recorded"),
        ),
        rows=tuple(
            (
                Cell(text=side.name),
                Cell(text=side.path),
                Cell(text=side.digest),
                Cell(text=side.created or "not recorded"),
            )
            for side in comparison.sides
        ),
        limit=0,
    )
