# SPDX-License-Identifier: GPL-2.0-or-later
"""What docstrings show is run: each example answers what stands below it."""

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SOURCE_ROOTS = (".", "collectors", "generators", "reports", "templates")
PROMPT = ">>> "


def modules_with_examples() -> Iterator[str]:
    """Yield the names of the modules of all packages that have an example."""
    for root in SOURCE_ROOTS:
        folder = REPOSITORY / root
        for path in sorted(folder.glob("schedperf*/**/*.py")):
            if PROMPT in path.read_text(encoding="utf-8"):
                inside = path.relative_to(folder).with_suffix("")
                yield ".".join(part for part in inside.parts if part != "__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_of_docstrings_answer_what_they_show(name: str) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(importlib.import_module(name)):
        runner.run(example, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)
