# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``import schedperf`` offers is there, is typed, and costs nothing until it is used."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

import schedperf
from schedperf.evidence import all_sections
from scripts import public_api

REPOSITORY = Path(__file__).parents[2]


def test_the_stub_is_up_to_date() -> None:
    written = (REPOSITORY / "schedperf" / "__init__.pyi").read_text()
    assert written == public_api.stub(), "python scripts/public_api.py > schedperf/__init__.pyi"


def test_every_name_is_there() -> None:
    names = dir(schedperf)
    assert "compare_bundles" in names
    assert all(getattr(schedperf, name) is not None for name in names)


def test_the_record_of_every_section_is_there() -> None:
    offered = [getattr(schedperf, name) for name in dir(schedperf)]
    assert all(plugin.record in offered for plugin in all_sections().values())


def test_the_import_alone_loads_nothing() -> None:
    program = (
        "import sys, schedperf; print(sorted({'pandas', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(schedperf, "compare_bundle")


def test_paths_may_be_text_and_errors_are_public(tmp_path: Path) -> None:
    for read in (
        schedperf.open_bundle,
        schedperf.read_comparison,
        schedperf.read_culprit,
        schedperf.read_table,
    ):
        with pytest.raises(schedperf.InputError, match="missing"):
            read(str(tmp_path / "missing.json"))


@pytest.mark.system
def test_the_code_of_the_document_passes_mypy_strict(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "python.md").read_text()
    code = tmp_path / "document.py"
    code.write_text("".join(each.source for each in doctest.DocTestParser().get_examples(text)))
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n")
    output, _, status = api.run(["--config-file", str(config), str(code)])
    assert status == 0, output
