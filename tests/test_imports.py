# SPDX-License-Identifier: GPL-2.0-or-later
"""What import-linter's contracts cannot say: private modules stay within their package."""

import functools

import grimp
import pytest

PACKAGES = ("schedperf", "schedperf_collectors", "schedperf_reports")


@functools.cache
def imports() -> grimp.ImportGraph:
    """Return who imports whom."""
    return grimp.build_graph(*PACKAGES, cache_dir=None)


@pytest.mark.parametrize("package", PACKAGES)
def test_private_modules_are_imported_within_their_package_only(package: str) -> None:
    graph = imports()
    private = [
        module
        for module in graph.find_descendants(package)
        if module.rpartition(".")[2].startswith("_") and not module.endswith("__main__")
    ]
    foreign = {
        (importer, module)
        for module in private
        for importer in graph.find_modules_that_directly_import(module)
        if not f"{importer}.".startswith(f"{module.rpartition('.')[0]}.")
    }
    assert private
    assert not foreign
