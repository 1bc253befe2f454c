# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernels a night boots."""

import pytest

from schedperf.lab.night.kernels import choose_kernels, choose_older, is_fixed
from schedperf.lab.night.lab import Tree
from schedperf.lab.night.machine import Installed
from schedperf.lab.night.state import NightError

INSTALLED = [
    Installed(release=release, installed_s=seconds)
    for release, seconds in (
        ("6.9.0", 1),
        ("6.18.0", 2),
        ("6.19.0-rc1", 3),
        ("6.19.0-rc2-00010-g0123456789ab", 4),
        ("6.19.0-rc2-00044-g89abcdef0123", 5),
    )
]


def _chosen(kernel: Tree, installed: list[Installed] = INSTALLED) -> list[str]:
    return [each.release for each in choose_kernels(kernel, installed)]


def test_last_release_and_todays_kernel() -> None:
    assert _chosen(Tree()) == ["6.18.0", "6.19.0-rc2-00044-g89abcdef0123"]


def test_yesterdays_kernel_only_if_the_tree_says_so() -> None:
    chosen = choose_kernels(Tree(yesterday=True), INSTALLED)
    assert [each.name for each in chosen] == ["base", "new", "yesterday"]
    assert chosen[-1].release == "6.19.0-rc2-00010-g0123456789ab"


def test_patterns() -> None:
    assert _chosen(Tree(reference="6.9.*", new="*rc1")) == ["6.9.0", "6.19.0-rc1"]


def test_named_kernels_are_not_looked_for() -> None:
    kernel = Tree(reference="6.1.0-47-amd64", new="6.1.0-50-amd64")
    assert is_fixed(kernel)
    assert _chosen(kernel, []) == ["6.1.0-47-amd64", "6.1.0-50-amd64"]


@pytest.mark.parametrize(
    ("kernel", "installed", "said"),
    [
        (Tree(), [], "tree.new: no installed kernel fits the default (installed: none)"),
        (Tree(), INSTALLED[:1], "tree.reference: no installed kernel"),
        (Tree(new="7.*"), INSTALLED, "no installed kernel fits 7.*"),
        (Tree(reference="6.18.0", new="6.18.0"), INSTALLED, "chosen for both base and new"),
        (Tree(yesterday=True), INSTALLED[:2], "tree.yesterday: no installed kernel"),
    ],
)
def test_too_few_kernels(kernel: Tree, installed: list[Installed], said: str) -> None:
    with pytest.raises(NightError) as error:
        choose_kernels(kernel, installed)
    assert said in str(error.value)


def test_kernels_of_other_trees_are_not_new() -> None:
    chosen = choose_kernels(Tree(), INSTALLED, {"6.19.0-rc1", "6.9.0"})
    assert [each.release for each in chosen] == ["6.18.0", "6.19.0-rc1"]


def test_older_reference() -> None:
    assert choose_older(Tree(), INSTALLED, "6.18.0") is None
    older = choose_older(Tree(older="6.*"), INSTALLED, "6.18.0")
    assert older is not None
    assert older.release == "6.9.0"
    assert choose_older(Tree(older="5.*"), INSTALLED, "6.18.0") is None
