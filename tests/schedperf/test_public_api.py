# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``import schedperf`` offers: all of it is there, and costs nothing until it is used."""

import subprocess
import sys

import schedperf
from schedperf.evidence import all_sections
from schedperf.model.comparison import SectionData


def test_every_name_is_there() -> None:
    for name in schedperf.__all__:
        assert getattr(schedperf, name) is not None
    assert dir(schedperf) == schedperf.__all__


def test_the_records_are_those_of_sections() -> None:
    # A plugin's record is imported from the plugin: it needs no edit here.
    offered = {getattr(schedperf, name) for name in schedperf.__all__}
    records = {one for one in offered if isinstance(one, type) and issubclass(one, SectionData)}
    assert records
    assert records <= {plugin.record for plugin in all_sections().values()}


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
