# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugins of other packages are found by their entry points, and their errors name the package."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import schedperf.benchmarks
import schedperf.importers
from schedperf.model import outside_plugins
from schedperf.model.outside_plugins import PluginError

RunCli = Callable[..., subprocess.CompletedProcess[str]]
MakeBundle = Callable[..., Path]
# Writes a package: install("parser.py" text, its name, name of the entry point's module).
Install = Callable[..., None]

BENCHMARKS = "schedperf.benchmarks"
PARSER = '''\
"""Parse the output of toybench."""

from schedperf.benchmarks import BadLine, Metric, measure, parser

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
from schedperf.benchmarks import Measurement, Metric, parser

FIELDS = dict(name="x", unit="s", better="lower", family="primary")
ITEM = dict(value=1.0, resolution=None, line_number=1, line="toy")


@parser("toybench", claims=lambda text: "toy" in text)
def parse_toybench(lines, label):
    {body}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages into a directory of their own, which is on the path until the test ends."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(outside_plugins, "_guarded", {})
    for registry in (schedperf.benchmarks.registry, schedperf.importers.registry):
        monkeypatch.setattr(registry, "_plugins", {**registry.all()})
    modules: set[str] = set()

    def install(
        text: str, name: str = "toy_bench", entry: str | None = None, group: str = BENCHMARKS
    ) -> None:
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
    parser = schedperf.benchmarks.all_parsers()["toybench"]
    if parser.claims("toy"):
        list(parser.parse(["toy"], "stdout"))


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


def test_without_such_packages_there_are_only_our_own() -> None:
    assert schedperf.benchmarks.all_parsers() == schedperf.benchmarks.registry.all()


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
        schedperf.benchmarks.all_parsers()


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
from schedperf.importers import Imported, ImportedBoot, ImportedRun, importer


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
    install(IMPORTER.format(body=body), group="schedperf.importers")
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
    program = "from schedperf.benchmarks import all_parsers; print('toybench' in all_parsers())"
    path = os.pathsep.join([str(target), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
