# SPDX-License-Identifier: GPL-2.0-or-later
"""Print ``schedperf/__init__.pyi``: what ``import schedperf`` offers, for type checkers.

    python scripts/public_api.py > schedperf/__init__.pyi

The records of evidence are found, not listed, so that a new kind needs no edit here.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from schedperf import evidence
from schedperf.model.sections import SectionData

# By module, relative to the package.
PUBLIC = {
    "api": (
        "figure",
        "open_bundle",
        "open_history",
        "read_bisection",
        "read_comparison",
        "read_culprit",
        "read_table",
    ),
    "compare.bundles": ("compare_bundles",),
    "compare.options": ("CompareOptions",),
    "history.questions.history": ("History",),
    "lab.bisect.document": ("BisectDocument",),
    "publish.culprit.record": ("Culprit",),
    "model.comparison": ("Comparison",),
    "model.errors": ("InputError",),
    "stats": ("compare_runs",),
}
HEADER = """\
# SPDX-License-Identifier: GPL-2.0-or-later
# Written by scripts/public_api.py; schedperf/__init__.py reads it."""


def records() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each module with records of sections, relative to the package, and their names."""
    for info in pkgutil.walk_packages(evidence.__path__, f"{evidence.__name__}."):
        if not info.name.endswith("record"):
            continue
        module = importlib.import_module(info.name)
        found = [
            each
            for each, kind in inspect.getmembers(module, inspect.isclass)
            if issubclass(kind, SectionData) and kind.__module__ == module.__name__
        ]
        yield info.name.removeprefix("schedperf."), tuple(found)


def stub() -> str:
    """Return the text of ``schedperf/__init__.pyi``."""
    lines = [
        f"from .{module} import {name} as {name}"
        for module, names in sorted({**PUBLIC, **dict(records())}.items())
        for name in sorted(names)
    ]
    return "\n".join([HEADER, "", *lines, "", "__version__: str"]) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
