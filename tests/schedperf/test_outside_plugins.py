# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugins of other packages are found by their entry points, and their errors name the package."""

import importlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import schedperf.inputs.benchmarks
from schedperf.extension_points import GROUPS
from schedperf_collectors import registry as registries
from schedperf_collectors.registry import PluginError

RunCli = Callable[..., subprocess.CompletedProcess[str]]
MakeBundle = Callable[..., Path]
# Writes a package: install("parser.py" text, its name, name of the entry point's module).
Install = Callable[..., None]

BENCHMARKS = "schedperf.inputs.benchmarks"
ALL = [registry for group in registries.registries.values() for registry in group]
PARSER = '''\
"""Parse the output of toybench."""

from schedperf.inputs.benchmarks import BadLine, Metric, measure, parser

SCORE = Metric(name="toybench score", unit="1/s", better="higher", family="primary")


@parser("toybench", claims=lambda text: "toy score: " in text)
def parse_toybench(lines, label):
    """Yield the score of each line that contains one."""
    for number, line in enumerate(lines, 1):
        if line.startswith("toy score: "):
            yield measure(SCORE, line.split()[2], where=(label, number, line))
'''
# A parser that yields the number of a line as its value, with one field replaced.
NONSENSE = """\
from schedperf.inputs.benchmarks import Measurement, Metric, parser

FIELDS = dict(name="x", unit="s", better="lower", family="primary")
ITEM = dict(value=1.0, resolution=None, line_number=1, line="toy")


@parser("toybench", claims=lambda text: "toy" in text)
def parse_toybench(lines, label):
    {body}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages into directories of their own, on the path until the test ends."""
    monkeypatch.setattr(registries, "_loaded", {})
    for registry in ALL:
        monkeypatch.setattr(registry, "_plugins", {**registry.all()})
    monkeypatch.setattr(registries, "_loaded", {})
    modules: set[str] = set()

    def install(
        text: str, name: str = "toy_bench", entry: str | None = None, group: str = BENCHMARKS
    ) -> None:
        site = tmp_path / "site-packages" / name
        site.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(site))
        (site / f"{name}.py").write_text(text)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        package = name.replace("_", "-")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\ntoy = {entry or name}\n")
        importlib.invalidate_caches()
        modules.add(name)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def parse_toy() -> None:
    parser = schedperf.inputs.benchmarks.all_parsers()["toybench"]
    if parser.claims("toy"):
        list(parser.read(["toy"], "stdout"))


def error_of_parsing() -> str:
    with pytest.raises(PluginError) as caught:
        parse_toy()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("plugin 'toy' of the package toy-bench 1.0: ")
    assert message.endswith("; fix or uninstall this package")
    return message


def test_a_parser_of_another_package_gives_results(
    install: Install, run_cli: RunCli, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    install(PARSER)
    files = [
        make_bundle(
            tmp_path / f"{label}.tar",
            label=label,
            runs=[{"stdout": f"toy score: {score + run}\n"} for run in range(5)],
        )
        for label, score in (("base", 1000), ("new", 500))
    ]
    done = run_cli("compare", *files, "--format", "csv")
    assert done.stderr == ""
    assert "toybench score,1/s,higher,primary,5,5" in done.stdout
    assert done.returncode == 1


def test_the_extension_points_are_all_groups_of_entry_points() -> None:
    groups = GROUPS.keys()
    assert groups == registries.registries.keys() - {"plugins_of_this_test"}
    text = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    assert not [group for group in groups if f"`{group}`" not in text]


FORMAT = '''\
from schedperf_reports.formats import output_format


@output_format("toy")
def toy(comparison, options):
    """Print the verdict."""
    {body}
'''


@pytest.mark.parametrize(
    ("body", "err"),
    [
        ("return comparison.overall.verdict", ""),
        ("return 7", "render returns 7 (expected a text)"),
        ("raise KeyError(7)", "render fails (KeyError: 7)"),
    ],
)
def test_a_format_of_another_package(
    install: Install,
    run_cli: RunCli,
    make_bundle: MakeBundle,
    tmp_path: Path,
    *,
    body: str,
    err: str,
) -> None:
    install(FORMAT.format(body=body), group="schedperf_reports.formats")
    path = make_bundle(tmp_path / "base.tar")
    done = run_cli("compare", path, path, "--format", "toy")
    assert err in done.stderr
    assert done.stderr.count("\n") == bool(err)
    assert done.stdout == ("" if err else "no-change"), done.stderr


def test_a_format_whose_entry_point_has_another_name(
    install: Install, run_cli: RunCli, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    text = FORMAT.format(body="return ''").replace('"toy"', '"other"')
    install(text, group="schedperf_reports.formats")
    path = make_bundle(tmp_path / "base.tar")
    done = run_cli("compare", path, path, "--format", "toy")
    assert "registers no output format of the name of its entry point" in done.stderr


EVIDENCE = """\
from typing import ClassVar

from schedperf.evidence import finding, section
from schedperf.model.sections import SectionData


class Toys(SectionData, frozen=True, kw_only=True):
    section: ClassVar[str] = "toys"
    version: ClassVar[int] = 1

    count: int


@section(Toys)
def toys(sides):
    return Toys(count=len(sides))
"""
DESCRIBED = '''\
from schedperf_reports.blocks import Text
from schedperf_reports.sections import report_section


@report_section("toys", title="Toys", chapter="scheduler", order=7, is_analysis=True)
def toys(comparison):
    """Show the number."""
    yield Text(text=f"{{comparison.sections['toys'].data.count}} toys")
    {then}
'''


@pytest.mark.parametrize(
    ("then", "shown"), [("pass", "2 toys"), ("raise KeyError(7)", "toys fails (KeyError: 7)")]
)
def test_evidence_and_its_section_of_other_packages(
    install: Install,
    run_cli: RunCli,
    make_bundle: MakeBundle,
    tmp_path: Path,
    *,
    then: str,
    shown: str,
) -> None:
    install(EVIDENCE, group="schedperf.evidence")
    install(DESCRIBED.format(then=then), name="toy_report", group="schedperf_reports.evidence")
    path = make_bundle(tmp_path / "base.tar")
    done = run_cli("compare", path, path, "--all")
    assert shown in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


COLLECTOR = '''\
from schedperf_collectors.plugin import collector


@collector(scope="boot", cost="one file")
def toy(capture):
    """Write a file."""
    (capture.folder / "toy").write_text("toy")
'''


@pytest.mark.system
def test_a_collector_of_another_package(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(COLLECTOR, name="toy_collector", group="schedperf_collectors")
    path = os.pathsep.join([str(tmp_path / "site-packages" / "toy_collector"), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)
    bundle = tmp_path / "base.tar"
    command = ["record", "-q", "-o", str(bundle), "-n", "1", "--warmup", "0", "--with", "toy"]
    subprocess.run(
        [sys.executable, "-m", "schedperf_collectors", *command, "--", "true"], check=True
    )
    with tarfile.open(bundle) as tar:
        assert "boots/0/toy/toy" in tar.getnames()


def test_without_such_packages_there_are_only_our_own() -> None:
    assert schedperf.inputs.benchmarks.all_parsers() == schedperf.inputs.benchmarks.registry.all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{PARSER[:-1]}\nparser('x', claims=str, programs=[7])(parse_toybench)\n",
            "invalid programs [7] (expected a tuple of texts)",
        ),
        (
            PARSER.replace('"toybench", ', '"toybench", class_=["tiny"], '),
            "invalid class_ ['tiny'] (expected micro or semi or application)",
        ),
        ("import no_such_module\n", "cannot be imported (ModuleNotFoundError: No module named"),
        ("raise ValueError('a\\nb')\n", "cannot be imported (ValueError: a b)"),
        ("raise SystemExit(3)\n", "cannot be imported (SystemExit)"),
        ("x = (\n", "cannot be imported (SyntaxError: "),
        ("x = 1\n", "registers no benchmark parser (expected at least one)"),
        (PARSER.replace('"toybench"', '"hackbench"'), "two benchmark parsers have the name"),
        (PARSER.replace('parser("toybench"', "parser(7"), "invalid name 7 (expected a text)"),
        ("raise ValueError('m' * 1_000_000)\n", "cannot be imported (ValueError: mmm"),
    ],
)
def test_a_package_that_cannot_be_used(install: Install, text: str, message: str) -> None:
    install(text)
    assert message in error_of_parsing()
    assert len(error_of_parsing()) < 400


def test_an_entry_point_that_names_nothing(install: Install) -> None:
    install(PARSER, entry="toy_bench:nothing")
    assert "cannot be imported (AttributeError: " in error_of_parsing()


def test_two_packages_with_one_name(install: Install) -> None:
    install(PARSER)
    install(PARSER, name="toy_two")
    with pytest.raises(PluginError, match="two benchmark parsers have the name 'toybench'"):
        schedperf.inputs.benchmarks.all_parsers()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError(label)", "parse fails (KeyError: 'stdout')"),
        ("return 7", "parse fails (TypeError: 'int' object is not iterable)"),
        ("yield 7", "parse yields 7 (expected a Measurement or a BadLine)"),
        ("yield Measurement(metric=1, **ITEM)", "a measurement of 1 (expected a Metric)"),
        (
            "yield Measurement(metric=Metric(**FIELDS | {'better': 'more'}), **ITEM)",
            "an invalid better 'more'",
        ),
        ("yield Measurement(metric=Metric(**FIELDS | {'name': ' '}), **ITEM)", "invalid name ' '"),
        (
            "yield Measurement(metric=Metric(**FIELDS), **ITEM | {'value': float('nan')})",
            "an invalid value nan",
        ),
        (
            "yield Measurement(metric=Metric(**FIELDS), **ITEM | {'value': '1'})",
            "an invalid value '1'",
        ),
    ],
)
def test_a_parser_that_raises_or_returns_nonsense(
    install: Install, body: str, message: str
) -> None:
    install(NONSENSE.format(body=body))
    assert message in error_of_parsing()


@pytest.mark.parametrize(
    ("claims", "message"),
    [("1 / 0", "claims fails (ZeroDivisionError: "), ("None", "claims returns None (expected")],
)
def test_a_parser_whose_claims_fail(install: Install, claims: str, message: str) -> None:
    install(PARSER.replace('"toy score: " in text', claims))
    assert message in error_of_parsing()


def test_the_command_prints_one_line(
    install: Install, run_cli: RunCli, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    install("raise ValueError('broken')\n")
    path = make_bundle(tmp_path / "base.tar", runs=[{"time_s": 0.61}, {"time_s": 0.64}])
    done = run_cli("compare", path, path)
    assert done.returncode == 2
    assert done.stderr == (
        "schedperf: error: plugin 'toy' of the package toy-bench 1.0: cannot be imported "
        "(ValueError: broken); fix or uninstall this package\n"
    )


IMPORTER = '''\
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer


@importer("toy", summary="results of toy")
def import_toy(tree):
    """Import one run."""
    run = dict(workload="hackbench", command=("hackbench",), point={{}}, text=b"Time: 1.25\\n")
    {body}
'''
IMPORTED = (
    "Imported(label='x', originals=('log',), boots=(ImportedBoot(host={{}}, "
    "runs=(ImportedRun(**run),) * 3),))"
).replace("{{}}", "{}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"return {IMPORTED}", ""),
        ("return 7", "read returns 7 (expected an Imported)"),
        ("raise OSError('gone')", "read fails (OSError: gone)"),
        ("run['text'] = 5; return " + IMPORTED, "read returns an invalid Imported (Validation"),
        ("run['point'] = object(); return " + IMPORTED, "read returns an invalid Imported (TypeE"),
    ],
)
def test_an_importer_of_another_package(
    install: Install, run_cli: RunCli, tmp_path: Path, body: str, message: str
) -> None:
    install(IMPORTER.format(body=body), group="schedperf.inputs.importers")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "log").write_text("Time: 1.25\n")
    done = run_cli("compare", f"toy:{tmp_path}/results", f"toy:{tmp_path}/results")
    assert (done.returncode == 0) == (message == ""), done.stderr
    if message:
        assert done.stderr.count("\n") == 1
        assert f"plugin 'toy' of the package toy-bench 1.0: {message}" in done.stderr


@pytest.mark.slow
def test_a_package_that_pip_installs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="pip builds the package with hatchling")
    project = tmp_path / "toy-bench"
    (project / "toy_bench").mkdir(parents=True)
    (project / "toy_bench" / "__init__.py").write_text(PARSER)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "toy-bench"\nversion = "1.0"\n'
        f'[project.entry-points."{BENCHMARKS}"]\ntoy = "toy_bench"\n'
    )
    target = tmp_path / "target"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", target)
    subprocess.run([sys.executable, "-m", "pip", "install", *options, project], check=True)
    program = (
        "from schedperf.inputs.benchmarks import all_parsers; print('toybench' in all_parsers())"
    )
    path = os.pathsep.join([str(target), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
