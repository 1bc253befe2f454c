# SPDX-License-Identifier: GPL-2.0-or-later
"""The recipes of docs/extending.md work as written: new files, no edit elsewhere, all checks pass.

Each recipe is read from the document's own text and written into a copy of the tree.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

REPOSITORY = Path(__file__).parent.parent
DOCUMENT = REPOSITORY / "docs" / "extending.md"
SOURCE_ROOTS = (".", "collectors", "generators", "reports", "templates")
# A line that begins with a file's name, and the block below it, which is the whole file.
FILE = re.compile(r"(?ms)^`([\w.-]+(?:/[\w.-]+)+)`[^\n]*:\n\n```\w+\n(.*?)^```$")
COLLECTOR, PARSER, EVIDENCE, DRAWING, FORMAT = (
    "A collector", "A benchmark parser", "A kind of evidence", "A drawing", "An output format",
)  # fmt: skip
RECIPES = (COLLECTOR, PARSER, EVIDENCE, DRAWING, FORMAT)
# Tests that look at every plugin, document or source file, and those of the golden files.
TESTS_OF_ALL_PLUGINS = (
    "tests/test_architecture.py", "tests/test_docs.py", "tests/test_docstrings.py",
    "tests/test_golden.py", "tests/test_packaging.py", "tests/collectors/test_package.py",
    "tests/schedperf/inputs/benchmarks/test_definitions.py",
    "tests/schedperf/inputs/benchmarks/test_hostile_text.py",
    "tests/schedperf/compare/test_json.py",
    "tests/schedperf/compare/test_tables.py", "tests/reports/test_sections.py",
    "tests/reports/page/test_html_safety.py", "tests/reports/text/test_report.py",
)  # fmt: skip
GOLDEN_CASES = tuple(
    f"prints_what_it_printed_before[{name}]"
    for name in ("regression", "nothing-known", "refused", "counters")
)
# What needs minutes and has no part in recipes: commands, other golden cases, and other parsers.
NOT_OF_PLUGINS = (
    "test_commands_of_the_documents",
    "test_examples_of_help",
    "test_hostile_text and not mybench",
    f"test_a_case_prints and not ({' or '.join(GOLDEN_CASES)})",
)
# More than all other tasks of a machine that runs tests may vary.
EXTRA_TASKS = 1000


# One worker makes the copy and records.
pytestmark = pytest.mark.xdist_group("extending")


def recipe(title: str) -> dict[str, str]:
    """Return the files of one recipe by name, as the document has them."""
    _, _, below = DOCUMENT.read_text().partition(f"\n## {title}\n")
    return dict(FILE.findall(re.split(r"^## ", below, flags=re.MULTILINE)[0]))


class Copy:
    """A copy of the tree with the files of some recipes, and nothing else changed."""

    def __init__(self, folder: Path, *titles: str) -> None:
        self.folder = folder
        ignored = (REPOSITORY / ".gitignore").read_text().replace("/\n", "\n").split("\n")
        names = [name.strip("/") for name in ignored if name]
        shutil.copytree(
            REPOSITORY, folder, symlinks=True, ignore=shutil.ignore_patterns(".git", *names)
        )
        for title in titles:
            for name, text in recipe(title).items():
                path = folder / name
                assert not path.exists(), f"{name} is not a new file"
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command with the packages of the copy; return its output, or fail with it."""
        done = self.start(*command, cwd=cwd)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(
        self, *command: str | Path, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the packages of the copy."""
        path = os.pathsep.join(str(self.folder / root) for root in SOURCE_ROOTS)
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
        )

    def schedperf(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run the command of the copy."""
        return self.run(sys.executable, "-m", "schedperf", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def make_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Copy]]:
    """Make a copy of the tree with recipes: ``make_copy(PARSER)``."""
    made: list[Copy] = []

    def make(*titles: str) -> Copy:
        made.append(Copy(tmp_path_factory.mktemp("tree") / "schedperf", *titles))
        return made[-1]

    yield make
    for copy in made:
        shutil.rmtree(copy.folder)


@pytest.fixture(scope="module")
def tree(make_copy: Callable[..., Copy]) -> Copy:
    """Give a copy with all recipes."""
    return make_copy(*RECIPES)


@contextmanager
def more_tasks(number: int) -> Iterator[None]:
    """Keep tasks asleep."""
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(number)]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def record_sides(copy: Copy, folder: Path) -> None:
    """Record base.tar and new.tar of a benchmark that is slower on a machine with more tasks."""
    benchmark = folder / "mybench"
    benchmark.write_text("#!/bin/sh\ncat score\n")
    benchmark.chmod(0o755)
    for side, tasks, score in (("base", 0, 100.5), ("new", EXTRA_TASKS, 80.5)):
        (folder / "score").write_text(f"mybench score: {score} ops/s\n")
        bundle = f"{side}.tar"
        with more_tasks(tasks):
            copy.schedperf(
                "record", "-o", bundle, "-n", "3", "--with", "task_count", "--", "./mybench",
                cwd=folder,
            )  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tree: Copy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory with two recordings of this machine."""
    folder = tmp_path_factory.mktemp("recorded")
    record_sides(tree, folder)
    return folder


@pytest.fixture(scope="module")
def record(tree: Copy, recorded: Path) -> Any:
    """Give the record of their comparison."""
    return json.loads(tree.schedperf("compare", "--json", "-", "base.tar", "new.tar", cwd=recorded))


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_files(title: str) -> None:
    assert recipe(title)


def test_every_python_block_of_a_module_belongs_to_a_file() -> None:
    # A module begins with the licence and its docstring; other blocks are examples of single lines.
    modules = re.findall(r'^```python\n# SPDX-[^\n]+\n"""', DOCUMENT.read_text(), re.MULTILINE)
    files = [name for title in RECIPES for name in recipe(title) if name.endswith(".py")]
    assert len(modules) == len(files) == len(set(files))


@pytest.mark.system
class TestRecipes:
    def test_the_collector_captures_around_each_run(self, recorded: Path) -> None:
        counts = {}
        for side in ("base", "new"):
            with tarfile.open(recorded / f"{side}.tar") as bundle:
                for when in ("before", "after"):
                    for run in ("000", "001", "002", "003"):
                        member = bundle.extractfile(f"boots/0/runs/{run}/task_count/{when}")
                        assert member is not None
                        counts[side, run, when] = int(member.read().split()[3].partition(b"/")[2])
        base, new = (
            [count for (name, _, _), count in counts.items() if name == side]
            for side in ("base", "new")
        )
        assert max(base) < min(new)

    def test_the_collector_is_one_file(self, make_copy: Callable[..., Copy]) -> None:
        listed = make_copy(COLLECTOR).start(sys.executable, "-m", "schedperf", "doctor").stdout
        assert "task_count" in listed

    def test_the_parser_gives_the_results(self, record: Any) -> None:
        [row] = record["rows"]
        assert (row["metric"], row["unit"], row["better"]) == ("mybench score", "1/s", "higher")
        assert row["base"] == pytest.approx(100.5)
        assert row["new"] == pytest.approx(80.5)
        assert row["definition"].startswith("Operations of all threads")

    def test_the_evidence_is_in_the_record_and_its_schema(self, tree: Copy, record: Any) -> None:
        section = record["sections"]["task_count"]
        assert (section["status"], section["schema"]) == ("ok", "schedperf/section/task_count/1")
        assert [row["what"] for row in section["data"]["rows"]] == ["before", "after"]
        for row in section["data"]["rows"]:
            assert row["new"] - row["base"] > EXTRA_TASKS / 2
        schema = json.loads(tree.run(sys.executable, "-m", "schedperf.compare.json"))
        validator = jsonschema_rs.Draft202012Validator(schema)
        validator.validate(record)
        del section["data"]["rows"][0]["what"]
        assert not validator.is_valid(record)
        section["data"]["rows"][0]["what"] = "before"

    def test_the_evidence_is_in_the_text(self, tree: Copy, recorded: Path) -> None:
        text = tree.schedperf("compare", "--all", "base.tar", "new.tar", cwd=recorded)
        assert "mybench score" in text
        section = text.partition("\nTasks\n")[2].partition("\n\n\n")[0]
        assert re.search(r"^ *before a run +mean +[\d.]+ +[\d.]+ ", section, re.MULTILINE)
        assert re.search(r"^ *after a run +mean +[\d.]+ +[\d.]+ ", section, re.MULTILINE)
        # The drawing in words.
        assert re.search(r"tasks after a run: base [\d.]+, new [\d.]+", section)

    def test_the_page_has_the_evidence_and_its_drawing(self, tree: Copy, recorded: Path) -> None:
        tree.schedperf("compare", "--html", "page.html", "base.tar", "new.tar", cwd=recorded)
        page = (recorded / "page.html").read_text()
        assert 'id="task_count"' in page
        assert page.count('<figure class="taskbars"') == 2
        assert ".taskbars .bar" in page
        assert 'id="task_count-new-0"' in page

    def test_the_finding_explains_a_significant_change(
        self, tree: Copy, make_bundle: Callable[..., Path], tmp_path: Path
    ) -> None:
        for side, tasks in (("base", 400), ("new", 600)):
            runs = [
                {
                    "files": {
                        f"task_count/{when}": f"0.20 0.18 0.12 1/{tasks + run} 11206\n"
                        for when in ("before", "after")
                    }
                }
                for run in range(12)
            ]
            make_bundle(tmp_path / f"{side}.tar", runs=runs, label=side)
        found = json.loads(
            tree.schedperf("compare", "--json", "-", "base.tar", "new.tar", cwd=tmp_path)
        )
        claims = {one["id"]: one["claim"] for one in found["findings"]}
        assert claims["task_count#new-0"].startswith("the machine has 605.5 tasks before a run")
        assert found["findings"][0]["evidence"] == ["task_count#new-0"]

    def test_evidence_that_was_not_captured_is_absent(
        self, tree: Copy, make_bundle: Callable[..., Path], tmp_path: Path
    ) -> None:
        for side in ("base", "new"):
            make_bundle(tmp_path / f"{side}.tar", label=side, runs=3 if side == "base" else 4)
        text = tree.schedperf("compare", "--all", "base.tar", "new.tar", cwd=tmp_path)
        listed = r"; Tasks: no run of base was recorded with [\w, ]*\btask_count\b"
        assert re.search(listed, " ".join(text.split()))

    def test_the_format_prints_one_line_per_result(
        self, tree: Copy, record: Any, recorded: Path
    ) -> None:
        printed = tree.schedperf(
            "compare", "--format", "lines", "base.tar", "new.tar", cwd=recorded
        )
        [row] = record["rows"]
        assert printed.count("\n") == 1
        assert printed.startswith(row["verdict"])
        assert "mybench score" in printed


# They record nothing.
@pytest.mark.slow
@pytest.mark.timeout(1200)
class TestChecks:
    def test_make_lint_passes(self, tree: Copy) -> None:
        # It makes an environment of its own, as in a new clone. What mypy found in the same files,
        # if anything, saves a minute.
        if (REPOSITORY / ".mypy_cache").is_dir():
            shutil.copytree(REPOSITORY / ".mypy_cache", tree.folder / ".mypy_cache")
        tree.run("make", "lint")

    def test_tests_of_all_plugins_pass(self, tree: Copy) -> None:
        chosen = " and ".join(f"not ({one})" for one in NOT_OF_PLUGINS)
        chosen_by_mark = ("-m", "not vm and not browser")
        printed = tree.run(
            sys.executable, "-m", "pytest", "-q", "-rp", *chosen_by_mark, *TESTS_OF_ALL_PLUGINS,
            "-k", chosen,
        )  # fmt: skip
        passed = re.findall(r"^PASSED (.*)", printed, re.MULTILINE)
        for part in (*GOLDEN_CASES, "[mybench"):
            assert any(part in test for test in passed), part
