# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons and a culprit to publish."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.publish.culprit.record import Commit, Culprit, Measured, Retest, Tree
from tests.golden_inputs import clean
from tests.schedperf.publish.pages.canaries import HOST_NAME, PARAMETER

GOOD, BAD = "a" * 40, "0123456789abcdef0123456789abcdef01234567"
PRIVATE_HOST: dict[str, Any] = {
    "system": {"hostname": HOST_NAME, "distro": "Debian"},
    "kernel": {"release": "6.12.0", "cmdline": f"nohz=off {PARAMETER}"},
    "cpu": {"model": "AMD EPYC", "count_online": 8},
}
MakeBundle = Callable[..., Path]


def compare(make_bundle: MakeBundle, folder: Path, new_s: float, seed: int = 0) -> Comparison:
    """Return a comparison of runs of 0.6 s with runs of ``new_s``, full of private strings."""
    folder.mkdir()
    setup = {"host": PRIVATE_HOST, "label": f"{HOST_NAME}-kernel"}
    base = make_bundle(folder / "base.tar", runs=clean(0.6, shift=seed), **setup)
    new = make_bundle(folder / "new.tar", runs=clean(new_s, shift=seed + 5), **setup)
    return compare_bundles([open_bundle(base), open_bundle(new)])


@pytest.fixture
def found(make_bundle: MakeBundle, tmp_path: Path) -> Comparison:
    """Return a comparison that finds a regression."""
    return compare(make_bundle, tmp_path / "found", 0.75)


@pytest.fixture
def retested(make_bundle: MakeBundle, tmp_path: Path) -> Comparison:
    """Return a second comparison that finds the same regression."""
    return compare(make_bundle, tmp_path / "retested", 0.76, seed=2)


@pytest.fixture
def culprit(found: Comparison, retested: Comparison) -> Culprit:
    """Return the first bad commit, confirmed."""
    return Culprit(
        good=Commit(commit=GOOD, subject="sched: Good"),
        bad=Commit(
            commit=BAD,
            subject="sched/fair: Bad <script>alert(1)</script>",
            author="Bob <bob@example.com>",
        ),
        is_range=False,
        benchmark="hackbench",
        tree=Tree(name="tip/sched/core"),
        main=Measured(comparison=found.id),
        comparisons=(found.id, retested.id),
        retest=Retest(result=Measured(comparison=retested.id), found=found.id),
    )


def unretested(culprit: Culprit) -> Culprit:
    """Return the culprit without its retest."""
    return replace(culprit, retest=None)
