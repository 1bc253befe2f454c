# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugin discovery and layering: every public module registers, and a name is registered once."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedperf.benchmarks
import schedperf.evidence
import schedperf_reports.formats
import schedperf_reports.sections
from schedperf_collectors.plugin import registry as collectors
from schedperf_collectors.registry import DuplicatePlugin, Registry, public_modules

REGISTRIES: dict[str, Registry[object]] = {
    "collectors": collectors,  # type: ignore[dict-item] # any plugin will do
    "benchmarks": schedperf.benchmarks.registry,  # type: ignore[dict-item]
    "sections": schedperf.evidence.sections,  # type: ignore[dict-item]
    "findings": schedperf.evidence.rules,  # type: ignore[dict-item]
    "report sections": schedperf_reports.sections.registry,  # type: ignore[dict-item]
    "formats": schedperf_reports.formats.registry,  # type: ignore[dict-item]
}
PACKAGE = "plugins_of_this_test"
# Registers a name for the module, whatever its file is called.
PLUGIN = """import plugins_of_this_test
plugins_of_this_test.registry.add({name!r}, __name__)
"""


@pytest.mark.parametrize("name", REGISTRIES)
def test_every_public_module_of_a_plugin_package_is_imported(name: str) -> None:
    registry = REGISTRIES[name]
    assert registry.all(), "a registry without plugins"
    for package in registry.packages:
        assert set(public_modules(package)) <= set(sys.modules)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the directory of a package whose registry takes text."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from schedperf_collectors.registry import Registry\n"
        f"registry = Registry({PACKAGE!r}, kind='plugin', module='section')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def registered() -> dict[str, str]:
    """Return the modules of the plugins by the names that they registered."""
    registry: Registry[str] = importlib.import_module(PACKAGE).registry
    return registry.all()


def test_public_modules_and_modules_of_one_name_in_packages_register(plugins: Path) -> None:
    (plugins / "task_count.py").write_text(PLUGIN.format(name="task_count"))
    (plugins / "_helpers.py").write_text(PLUGIN.format(name="helpers"))
    inner = plugins / "pelt"
    inner.mkdir()
    for module in ("__init__", "capture", "section", "second_section", "_section"):
        text = "" if module == "__init__" else PLUGIN.format(name=module)
        (inner / f"{module}.py").write_text(text)
    assert registered() == {
        "second_section": f"{PACKAGE}.pelt.second_section",
        "section": f"{PACKAGE}.pelt.section",
        "task_count": f"{PACKAGE}.task_count",
    }


def test_two_plugins_of_one_name_are_refused(plugins: Path) -> None:
    (plugins / "first.py").write_text(PLUGIN.format(name="mybench"))
    (plugins / "second.py").write_text(PLUGIN.format(name="mybench"))
    with pytest.raises(DuplicatePlugin, match="two plugins have the name 'mybench'"):
        registered()
