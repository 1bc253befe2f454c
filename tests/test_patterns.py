# SPDX-License-Identifier: GPL-2.0-or-later
"""No pattern that looks for lines in a text takes longer than the text is long.

The patterns are found in all modules. One that begins with blanks of any number, of which line ends
are some, tries all that follow from each line: of a mebibyte of empty lines it would take minutes.
"""

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator

import pytest

import schedperf
import schedperf_collectors
import schedperf_reports

MIB = 1 << 20
# A linear search takes milliseconds.
MOST_SECONDS = 5.0


def patterns_of_lines() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Yield every pattern in which ``^`` matches at each line, with its name."""
    for package in (schedperf, schedperf_reports, schedperf_collectors):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.endswith("__main__"):
                continue
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, re.Pattern) and value.flags & re.MULTILINE:
                    yield f"{info.name}.{name}", value


PATTERNS = dict(patterns_of_lines())


def test_patterns_are_found() -> None:
    assert len(PATTERNS) > 40


@pytest.mark.parametrize("blanks", ["\n", " ", "\n ", "\r\n", "\t"], ids=repr)
def test_a_mebibyte_of_blanks_is_searched_in_time(blanks: str) -> None:
    text = blanks * (MIB // len(blanks))
    for name, pattern in PATTERNS.items():
        began_s = time.process_time()
        content = text.encode() if isinstance(pattern.pattern, bytes) else text
        pattern.search(content)  # type: ignore[arg-type] # str or bytes, as the pattern is
        assert time.process_time() - began_s < MOST_SECONDS, name


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_begins_with_any_number_of_lines(name: str) -> None:
    pattern = PATTERNS[name].pattern
    text = pattern.decode() if isinstance(pattern, bytes) else pattern
    assert not re.search(r"\^\\s[*+]", text)
