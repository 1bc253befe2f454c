"""The house keeps its promises: plugins by discovery, one new file each."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import schedperf.benchmarks
import schedperf.evidence
import schedperf_reports.formats
import schedperf_reports.sections
from schedperf_collectors.plugin import registry as collectors
from schedperf_collectors.registry import Registry, public_modules

REPOSITORY = Path(__file__).parent.parent
SOURCE_ROOTS = (".", "collectors", "reports", "templates")
REGISTRIES: dict[str, Registry[object]] = {
    "collectors": collectors,  # type: ignore[dict-item] # any plugin will do
    "benchmarks": schedperf.benchmarks.registry,  # type: ignore[dict-item]
    "sections": schedperf.evidence.sections,  # type: ignore[dict-item]
    "findings": schedperf.evidence.rules,  # type: ignore[dict-item]
    "report sections": schedperf_reports.sections.registry,  # type: ignore[dict-item]
    "formats": schedperf_reports.formats.registry,  # type: ignore[dict-item]
}

COLLECTOR = '''"""How many tasks there are, around each run."""

from pathlib import Path

from schedperf_collectors.plugin import collector


@collector(scope="run", cost="nothing")
def task_count(capture):
    """Count the tasks of /proc."""
    yield
    count = sum(1 for entry in Path("/proc").iterdir() if entry.name.isdigit())
    (capture.folder / "count").write_text(f"{count}\\n")
'''

PARSER = '''"""A benchmark that nobody has written yet."""

from schedperf.benchmarks import Measurement, Metric, parser

SCORE = Metric(name="score", unit="count", better="higher", family="primary")


@parser("throwaway", claims=lambda text: text.startswith("throwaway score"))
def parse_throwaway(lines, label):
    for number, line in enumerate(lines, 1):
        value = float(line.split()[-1])
        yield Measurement(metric=SCORE, value=value, resolution=None, line_number=number, line=line)
'''

REPORT_SECTION = '''"""One sentence at the end of each report."""

from schedperf_reports.blocks import Text
from schedperf_reports.sections import report_section


@report_section("throwaway", title="Throwaway", chapter="raw", order=99)
def throwaway(comparison):
    yield Text(text="a section of one file says hello")
'''


@pytest.mark.parametrize("name", REGISTRIES)
def test_every_public_module_of_a_plugin_package_is_imported(name: str) -> None:
    registry = REGISTRIES[name]
    assert registry.all(), "a registry without plugins"
    for package in registry.packages:
        assert set(public_modules(package)) <= set(sys.modules)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Give a copy of the source tree that a test may add files to."""
    copy = tmp_path / "house"
    for source_root in ("schedperf", "collectors", "reports", "templates"):
        shutil.copytree(REPOSITORY / source_root, copy / source_root)
    return copy


def run_in_house(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's own schedperf, not the installed one."""
    path = os.pathsep.join(str(house / root) for root in SOURCE_ROOTS)
    return subprocess.run(
        [sys.executable, "-m", "schedperf", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd=house.parent,
        capture_output=True,
        text=True,
    )


@pytest.mark.system
def test_a_collector_a_parser_and_a_report_section_are_one_new_file_each(house: Path) -> None:
    (house / "collectors/schedperf_collectors/task_count.py").write_text(COLLECTOR)
    (house / "schedperf/benchmarks/throwaway.py").write_text(PARSER)
    (house / "reports/schedperf_reports/sections/throwaway.py").write_text(REPORT_SECTION)

    recorded = run_in_house(
        house, "record", "-o", "t.tar", "-n", "2", "--", "echo", "throwaway score 12"
    )
    assert recorded.returncode == 0, recorded.stderr
    with tarfile.open(house.parent / "t.tar") as bundle:
        assert "boots/0/runs/000/task_count/count" in bundle.getnames()

    compared = run_in_house(house, "compare", "--all", "t.tar", "t.tar")
    assert compared.returncode == 0, compared.stderr
    assert "score" in compared.stdout
    assert "a section of one file says hello" in compared.stdout


@pytest.mark.system
def test_two_plugins_of_one_name_are_refused(house: Path) -> None:
    parser = house / "schedperf/benchmarks/throwaway.py"
    parser.write_text(PARSER)
    shutil.copy(parser, parser.with_name("throwaway_again.py"))
    script = "import schedperf.benchmarks as b; b.all_parsers()"
    path = os.pathsep.join(str(house / root) for root in SOURCE_ROOTS)
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path},
        cwd=house.parent,
        capture_output=True,
        text=True,
    )
    assert "two benchmark parsers are called 'throwaway'" in found.stderr
