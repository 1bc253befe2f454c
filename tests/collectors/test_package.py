# SPDX-License-Identifier: GPL-2.0-or-later
"""The package travels alone to machines with Python 3.9 and nothing else."""

import ast
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.plugin import all_collectors

PACKAGE = Path(schedperf_collectors.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    allowed = sys.stdlib_module_names | {PACKAGE.name}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(alias.name.partition(".")[0] in allowed for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module is not None
            assert node.module.partition(".")[0] in allowed


@pytest.mark.system
def test_python_3_9_is_enough() -> None:
    vermin = shutil.which("vermin") or shutil.which("vermin", path=str(Path(sys.executable).parent))
    assert vermin is not None, "vermin is missing; pip install vermin"
    command = [vermin, "-t=3.9-", "--no-tips", "--violations", str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_public_module_is_a_collector_of_its_name() -> None:
    public = {
        module.name
        for module in pkgutil.iter_modules([str(PACKAGE)])
        if not module.name.startswith("_") and not module.ispkg
    }
    # These modules register no collector.
    assert public - {"contract", "perf_header", "plugin", "registry"} == set(all_collectors())


def test_every_collector_says_what_it_is_and_costs() -> None:
    for one in all_collectors().values():
        assert one.scope in {"boot", "run", "after", "workload"}
        assert one.summary.endswith(".")
        assert one.cost
        assert bool(one.needs) == bool(one.package)
