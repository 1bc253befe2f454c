# SPDX-License-Identifier: GPL-2.0-or-later
"""The mutants of ``bench/mutants`` still quote the product."""

import csv

import pytest

from bench.mutants.__main__ import FOLDER, ROOT, read_mutants
from bench.mutants.trial import Mutant


@pytest.mark.parametrize("mutant", read_mutants(None), ids=lambda mutant: mutant.id)
def test_a_mutant_changes_its_file(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.apply(text) != text


def test_results_name_the_mutants() -> None:
    with (FOLDER / "results.csv").open(encoding="utf-8", newline="") as file:
        tried = [row["id"] for row in csv.DictReader(file)]
    assert sorted(tried) == sorted(mutant.id for mutant in read_mutants(None))
