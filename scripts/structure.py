# SPDX-License-Identifier: GPL-2.0-or-later
"""Print how many packages the repository has, their layers, and the imports between them.

A package of ``schedperf`` counts as one, as does a lone module, and each other package of the
repository. Imports between two packages count once; a layer is a step of the longest chain.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

# Number of parts in the names of the packages that are counted, by top-level package.
ROOTS = {
    "schedperf": 2,
    "schedperf_collectors": 1,
    "schedperf_generators": 1,
    "schedperf_reports": 1,
    "schedperf_templates": 1,
}


def packages() -> Mapping[str, set[str]]:
    """Return the packages that each package imports, by name."""
    graph = grimp.build_graph(*ROOTS, cache_dir=None)
    imports: dict[str, set[str]] = {}
    for module in graph.modules:
        name = _package_of(module)
        imported = {_package_of(each) for each in graph.find_modules_directly_imported_by(module)}
        imports.setdefault(name, set()).update(imported - {name})
    return imports


def _package_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[: ROOTS[parts[0]]])


def count_layers(imports: Mapping[str, set[str]]) -> int:
    """Return the number of packages in the longest chain of imports.

    :param imports: the packages that each package imports, by name
    :raises SystemExit: imports form a cycle
    """
    depth: dict[str, int] = {}

    def depth_of(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise SystemExit(f"imports form a cycle: {' -> '.join([*above, name])}")
        if name not in depth:
            below = (depth_of(each, (*above, name)) for each in imports[name])
            depth[name] = 1 + max(below, default=0)
        return depth[name]

    return max(map(depth_of, imports))


def main() -> None:
    """Print the three numbers."""
    imports = packages()
    print(f"{len(imports)} packages, {count_layers(imports)} layers,", end=" ")
    print(f"{sum(map(len, imports.values()))} imports between packages")


if __name__ == "__main__":
    main()
