# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks downloaded from a page: the weights are those of the data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.profile.flame_record import FlameTree

pytestmark = pytest.mark.browser

# What conftest.py opens.
Visit = Any
MakeTrees = Callable[..., tuple[FlameTree, ...]]


def download(opened: Visit, name: str) -> str:
    with opened.page.expect_download() as begun:
        opened.page.get_by_role("button", name=name).click()
    return Path(begun.value.path()).read_text(encoding="utf-8")


def test_folded_stacks_of_the_page_have_the_weights_of_the_data(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees()
    opened = visit_flames([tree])
    lines = download(opened, "folded").splitlines()
    assert lines == sorted(lines)
    weights = {line.rsplit(" ", 2)[0]: list(map(int, line.split(" ")[-2:])) for line in lines}
    own: Any = tree.measures[0].self_
    totals: Any = tree.totals
    expected = [
        round(shares[3] / 100 * total)
        for shares, total in zip((own.base, own.new), totals, strict=True)
    ]
    assert weights["main;write;update_cfs_group"] == expected
    assert "main;read;[smaller frames]" in weights
    assert weights["main;read;old_lock"][1] == 0
    assert opened.complaints == []


def test_the_speedscope_file_of_the_page_fits_its_folded_one(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees(names=["main", "write", "update;cfs", "read", "old"]))
    folded = download(opened, "folded")
    found = json.loads(download(opened, "for speedscope"))
    names = [frame["name"].replace(";", ":") for frame in found["shared"]["frames"]]
    for side, profile in enumerate(found["profiles"]):
        stacks = {
            ";".join(names[number] for number in sample): weight
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
        }
        expected = {
            line.rsplit(" ", 2)[0]: int(line.split(" ")[-2 + side])
            for line in folded.splitlines()
            if line.split(" ")[-2 + side] != "0"
        }
        assert stacks == expected
        assert profile["endValue"] == sum(profile["weights"])
