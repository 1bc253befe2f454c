# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands on damaged inputs, from the reader to what is printed: a result or one line.

The readers alone are tried with far more inputs in test_damaged_inputs.py. Here each damaged input
is compared with a whole one and with itself, since what is drawn depends on both sides.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf.cli import main
from tests.schedperf.test_damaged_inputs import FORMATS, SEED, damage

Capture = pytest.CaptureFixture[str]

# The command, the format of its inputs and the name of a file.
COMMANDS: Sequence[tuple[Sequence[str], str, str]] = (
    (["c2c"], "c2c text", "c2c.txt"),
    (["c2c"], "perf.data", "perf.data"),
    (["profile"], "perf.data", "perf.data"),
    (["layout"], "System.map, two sides", "System.map"),
    (["layout"], "BTF, two sides", "btf"),
    (["compare"], "table", "table.csv"),
    (["compare"], "bundle", "bundle.tar"),
)
TRIES = 100
# Of a result, of a usage or input error, and of sides that are not comparable.
STATUSES = {0, 1, 2, 4}


@pytest.mark.property
@pytest.mark.parametrize("share", [50, pytest.param(1, marks=pytest.mark.repeats)])
@pytest.mark.parametrize(
    ("command", "form", "name"), COMMANDS, ids=[f"{c[0]} {form}" for c, form, _ in COMMANDS]
)
def test_a_damaged_input_is_a_result_or_one_line(
    *,
    command: Sequence[str],
    form: str,
    name: str,
    share: int,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    whole = FORMATS[form].make()
    chance = random.Random(SEED)  # noqa: S311 # damage, not a secret
    base, new, twin = (tmp_path / f"{side}-{name}" for side in ("base", "new", "twin"))
    base.write_bytes(whole)
    for number in range(TRIES // share):
        # Every other one is only cut.
        data = damage(chance, whole) if number % 2 else whole[: chance.randrange(1, len(whole))]
        new.write_bytes(data)
        twin.write_bytes(data)
        for sides in ((base, new), (new, base), (new, twin)):
            status = main([*command, *map(str, sides)])
            printed = capsys.readouterr()
            assert "internal error" not in printed.err, (number, printed.err)
            assert status in STATUSES
            assert status != 2 or printed.err.count("schedperf: error: ") == 1, printed.err
