# SPDX-License-Identifier: GPL-2.0-or-later
"""The runs of a maintainer who bisected by hand, and the commit that he named."""

import csv

import numpy as np

from schedperf.commands._bisect_text import format_document
from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import Searched, make_document
from schedperf.lab.bisect.rule import SURE, Bisection
from tests.shared_data import shared

# Index 175 is v6.9, and 0 the newest tree.
OLDEST = 175
CLAIMED = OLDEST - 152


def test_the_commit_that_he_named_is_the_most_probable_but_it_lacks_fresh_boots() -> None:
    with shared("data/bisect/schbench-v6.11.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 40
    bisection = Bisection(np.ones(OLDEST + 1))
    for run in runs:
        bisection.add(OLDEST - int(run["index"]), float(run["rps"]))
    probabilities = bisection.probabilities()
    assert probabilities is not None
    assert 1 + probabilities.argmax() == CLAIMED
    assert probabilities.max() >= SURE
    assert bisection.steps == []
    groups = [(Commit(hash=f"{OLDEST - index:040}", subject=""),) for index in range(OLDEST + 1)]
    search = Searched(groups=groups, bisection=bisection)
    document = make_document([search], [], [], reasons={}, is_final=True)
    assert document.status == "withheld"
    assert document.candidates[0].commits == groups[CLAIMED]
    printed = format_document(document).splitlines()[0]
    assert printed.startswith("withheld          000000000000 ")
    assert printed.endswith("but no fresh boots of it and its parent")
