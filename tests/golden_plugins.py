# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugins that the golden files hold: those that existed when they were last blessed.

A plugin that was added since, for example by a recipe of docs/extending.md, changes no golden file.
It joins them with ``make bless``, and from then on the golden cases must reach it.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import schedperf.evidence
import schedperf.inputs.benchmarks
import schedperf_reports.formats
import schedperf_reports.sections
from schedperf.compare.why.find import all_rules
from schedperf_collectors.registry import Registry
from tests.golden_files import check_json, is_blessing

PATH = Path(__file__).parent / "data" / "golden" / "plugins.json"
REGISTRIES: Mapping[str, Registry[object]] = {
    "benchmark parsers": schedperf.inputs.benchmarks.registry,  # type: ignore[dict-item] # any plugin
    "sections": schedperf.evidence.sections,  # type: ignore[dict-item]
    "finding rules": schedperf.evidence.rules,  # type: ignore[dict-item]
    "report sections": schedperf_reports.sections.registry,  # type: ignore[dict-item]
    "output formats": schedperf_reports.formats.registry,  # type: ignore[dict-item]
}


def use_golden_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the plugins that the golden files do not hold; none while the files are blessed."""
    # It also imports the rules that no package of evidence holds.
    all_rules()
    if is_blessing():
        return
    held = json.loads(PATH.read_text())
    for kind, registry in REGISTRIES.items():
        plugins = {name: plugin for name, plugin in registry.all().items() if name in held[kind]}
        monkeypatch.setattr(registry, "_plugins", plugins)
    # Names of formats are those of modules, which are not imported for it.
    names = sorted(held["output formats"])
    monkeypatch.setattr(schedperf_reports.formats, "format_names", lambda: names)


def check_golden_plugins() -> None:
    """Fail if a plugin that the golden files hold no longer exists."""
    check_json(PATH, {kind: [*registry.all()] for kind, registry in REGISTRIES.items()})
