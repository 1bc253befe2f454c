# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugin discovery, and one reader for one thing.

Every public module of a plugin package registers, a name is registered once, records are read by
attribute, and facts of the machine by one module.
"""

import ast
import functools
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedperf.evidence
import schedperf.inputs.benchmarks
import schedperf_reports.formats
import schedperf_reports.sections
from schedperf_collectors.plugin import registry as collectors
from schedperf_collectors.registry import DuplicatePlugin, Registry, public_modules

REGISTRIES: dict[str, Registry[object]] = {
    "collectors": collectors,  # type: ignore[dict-item] # any plugin will do
    "benchmarks": schedperf.inputs.benchmarks.registry,  # type: ignore[dict-item]
    "sections": schedperf.evidence.sections,  # type: ignore[dict-item]
    "findings": schedperf.evidence.rules,  # type: ignore[dict-item]
    "report sections": schedperf_reports.sections.registry,  # type: ignore[dict-item]
    "formats": schedperf_reports.formats.registry,  # type: ignore[dict-item]
}
PACKAGE = "plugins_of_this_test"
ROOT = Path(__file__).parents[1]
ANALYSIS, REPORTS, COLLECTORS = (
    sorted((ROOT / name).rglob("*.py")) for name in ("schedperf", "reports", "collectors")
)
# What explains a comparison: rules, their merging, next steps.
FINDINGS = [
    path for path in ANALYSIS if path.name == "findings.py" or path.parent.name in {"why", "advice"}
]
RECORDS = [path for path in ANALYSIS if path.name == "record.py" or path.parent.name == "model"]
# Subscripts with a constant text; those that are left are of tables of constants.
MOST_SUBSCRIPTS = 60
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


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a syntax tree, which several tests look at."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def nodes(paths: list[Path]) -> Iterator[tuple[Path, ast.AST]]:
    """Yield all nodes of the syntax trees."""
    for path in paths:
        for node in nodes_of(path):
            yield path, node


def dataclasses(paths: list[Path]) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Yield file, name and annotated fields of each class."""
    for path, node in nodes(paths):
        if isinstance(node, ast.ClassDef):
            fields = {
                field.target.id: ast.unparse(field.annotation)
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            }
            yield path, node.name, fields


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_reports_and_findings_read_records_by_attribute() -> None:
    subscripts = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for path, node in nodes([*REPORTS, *FINDINGS])
        if (isinstance(node, ast.Subscript) and is_text(node.slice))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
            and is_text(node.args[0])
        )
    ]
    assert 0 < len(subscripts) <= MOST_SUBSCRIPTS, subscripts


def test_no_field_of_a_record_and_no_reader_of_one_is_untyped() -> None:
    fields = [
        f"{path}: {name}.{field}"
        for path, name, of_class in dataclasses(RECORDS)
        for field, annotation in of_class.items()
        if "Any" in annotation.replace("[", " ").replace("]", " ").split()
    ]
    readers = {
        path.name
        for path, node in nodes([*REPORTS, *FINDINGS])
        if isinstance(node, ast.Name) and node.id == "Any"
    }
    assert fields == []
    assert readers == set()


def test_no_string_is_a_statement_but_for_docstrings() -> None:
    # A message that is cut in two outside of parentheses: x = "one " and, below it, "two".
    found = [
        f"{path.relative_to(ROOT)}:{after.lineno}"
        for path, node in nodes([*ANALYSIS, *REPORTS, *COLLECTORS])
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
        if isinstance(body, list)
        for after in body[1:]
        if isinstance(after, ast.Expr) and is_string(after.value)
    ]
    assert found == []


def is_string(value: ast.expr) -> bool:
    return isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


def test_the_facts_of_the_machine_have_one_reader() -> None:
    # Groups of host.json; what compares hosts field by field takes no group out of them.
    groups = {"topology", "sched", "virtualisation", "cpufreq", "memory"}
    read = {
        path.relative_to(ROOT).as_posix()
        for path, node in nodes([*ANALYSIS, *REPORTS])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in groups
    }
    assert read == {"schedperf/model/host.py"}


def test_the_name_of_every_temporary_directory_tells_its_process() -> None:
    makers = {"mkdtemp", "TemporaryDirectory"}
    by_hand = [
        f"{path.name}: {ast.unparse(node)}"
        for path, node in nodes([*ANALYSIS, *REPORTS, *COLLECTORS])
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in makers
        and "temporary_prefix()" not in {ast.unparse(each.value) for each in node.keywords}
    ]
    # Inside of another temporary directory.
    assert by_hand == ["captures.py: tempfile.mkdtemp(dir=self.path)"]


def test_no_json_schema_is_written_by_hand() -> None:
    keywords = {"properties", "additionalProperties", "$defs"}
    written = {
        path.relative_to(ROOT).as_posix()
        for path, node in nodes([*ANALYSIS, *REPORTS, *COLLECTORS])
        if isinstance(node, ast.Constant) and node.value in keywords
    }
    # The second puts the derived schemas of the sections together; the third names an XML element.
    assert written == {
        "schedperf/model/schema.py",
        "schedperf/compare/json.py",
        "reports/schedperf_reports/formats/junit.py",
    }
