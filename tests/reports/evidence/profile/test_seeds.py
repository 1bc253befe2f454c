# SPDX-License-Identifier: GPL-2.0-or-later
"""Published profiles, typed again and drawn by the report's own tables: the values are the same."""

import csv
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.record import ProfilePoint, ProfileRow, ProfileTest
from schedperf.model.base_new import BaseNew
from schedperf_reports.blocks import Table
from schedperf_reports.evidence.profile._tables import nodes_table, shares_table
from schedperf_reports.text.terminal import draw_block, write_text
from tests.schedperf.evidence.profile.records import make_point, make_row

SEEDS = Path(__file__).parents[3] / "data" / "seeds" / "profiles"
WITH_NODES = ("tg-load-avg-spr", "tg-load-avg-icelake")
WITHOUT_NODES = "tg-load-avg-cascade-lake"
WIDTH = 78
SIDES = ("base", "new")
UNKNOWN = ProfileTest(base=0.0, new=0.0, change=0.0, ci_low=None, ci_high=None, p=None, q=None)


def read(name: str) -> list[dict[str, str]]:
    lines = (SEEDS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    assert re.match(r"# \w+ [\w ]+, ", lines[0])
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def by_workload(name: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    for workload, rows in groupby(read(name), key=lambda row: row["workload"]):
        yield workload, list(rows)


def draw(table: Table) -> list[str]:
    drawn = draw_block(table, WIDTH, see="--json")
    assert drawn is not None
    return write_text([drawn], WIDTH, colour=False).splitlines()


def row_of_nodes(row: dict[str, str]) -> ProfileRow:
    base, new = ((float(row[f"{side}_low"]), float(row[f"{side}_high"])) for side in SIDES)
    return make_row(
        row["symbol"],
        share=UNKNOWN,
        base_range=base,
        new_range=new,
        base_nodes=dict(enumerate(base)),
        new_nodes=dict(enumerate(new)),
    )


@pytest.mark.parametrize("name", WITH_NODES)
def test_shares_on_nodes_are_printed_as_they_were_published(name: str) -> None:
    tables = 0
    for workload, rows in by_workload(name):
        drawn = draw(nodes_table([row_of_nodes(row) for row in rows], f"{workload}:"))
        assert drawn[0].strip() == f"{workload}:"
        assert max(map(len, drawn)) <= WIDTH
        for row in rows:
            (line,) = [line for line in drawn if line.split()[:1] == [row["symbol"]]]
            printed = re.findall(r"(\d+\.\d\d) -> (\d+\.\d\d)", line)
            published = [
                tuple(f"{float(row[f'{side}_{end}']):.2f}" for side in SIDES)
                for end in ("low", "high")
            ]
            assert printed == published
        tables += 1
    assert tables == 4


def test_the_first_table_reads_like_the_mail() -> None:
    (rows,) = [rows for workload, rows in by_workload(WITH_NODES[0]) if "hackbench" in workload]
    drawn = "\n".join(draw(nodes_table([row_of_nodes(row) for row in rows], "hackbench:")))
    # "e.g. on v6.2.0, the cost of update_cfs_group()% on node0 is about 13% and 20% on node 1; on
    # patched, the cost of update_cfs_group()% on node0 is about 8% and 12% on node 1"
    assert re.search(r"node 0, % +node 1, %", drawn)
    assert re.search(r"update_cfs_group +12\.68 -> 7\.73 +20\.22 -> 13\.15", drawn)
    assert re.search(r"update_load_avg +7\.73 -> 4\.31 +11\.01 -> 6\.91", drawn)


def test_a_machine_whose_nodes_are_not_told_apart_has_one_share_a_side() -> None:
    tables = 0
    for workload, rows in by_workload(WITHOUT_NODES):
        table = shares_table("cycles", point_of(workload, rows))
        drawn = draw(table)
        for row in rows:
            (line,) = [line for line in drawn if line.split()[:1] == [row["symbol"]]]
            base, new = (f"{float(row[side]):.2f}" for side in SIDES)
            change = f"{float(row['new']) - float(row['base']):+.2f}"
            assert line.split()[1:4] == [base, new, change]
        tables += 1
    assert tables == 5


def point_of(workload: str, rows: list[dict[str, str]]) -> ProfilePoint:
    shown = tuple(
        make_row(
            row["symbol"],
            changed=False,
            share=replace(
                UNKNOWN,
                base=float(row["base"]),
                new=float(row["new"]),
                change=float(row["new"]) - float(row["base"]),
            ),
            **{f"{side}_{part}": None for side in SIDES for part in ("range", "cpus")},
            **{f"{side}_nodes": {} for side in SIDES},
        )
        for row in rows
    )
    return make_point(
        workload=workload,
        point="",
        runs=BaseNew(base=1, new=1),
        samples=BaseNew(base=0, new=0),
        rows=shown,
        symbols=len(shown),
    )
