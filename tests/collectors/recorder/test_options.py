# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recorder's commands say of their options."""

import pytest

from schedperf_collectors.recorder.options import COMMANDS, make_parser

# Of a terminal that nobody has widened, less the indent that click gives to examples.
COLUMNS = 80
INDENT = 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = make_parser(name, "schedperf").format_help().splitlines()
    assert [line for line in lines if len(line) > COLUMNS - INDENT] == []
