"""The first screen of the examples: one screen of 78 columns, with all that decides."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

EXAMPLES = Path(__file__).parents[2] / "examples"
# What a window of 48 lines has beside the command and the next prompt.
MOST_LINES = 44
WIDTH = 78
QUOTED = re.compile(r" +'[^']+'( \\)?")


def compare(name: str) -> list[str]:
    sides = [f"examples/{name}/{side}.tar.xz" for side in ("base", "new")]
    command = [sys.executable, "-m", "schedperf", "compare", *sides]
    # Of a pipe nobody says how wide it is.
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=EXAMPLES.parent, env=environment
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "deep-cgroup",
            (
                "hackbench time is 21.8 % longer (95 % interval 16.1 % to 27.9 %, 8 rounds)",
                "one boot a side",
                "comparable: yes",
            ),
        ),
        (
            "deep-cgroup-arm64",
            (
                "-2.7 % -48.4..+83.6 5 inconclusive",
                "measured under emulation: times say nothing about real hardware",
                "one boot a side",
                "interleaved, but both sides may have drifted",
                "comparable: yes",
            ),
        ),
        (
            "cluster-percpu",
            (
                "hackbench time v s 7.787 8.023 +3.0 % too wide inconclusive",
                "too wide: > 100-fold",
                "n 2+2",
                "2 boots a side of each workload; so few say little of it",
                "measured under emulation: times say nothing about real hardware",
                "other commands than the workload had 32 % of the busy time",
                "comparable: yes",
            ),
        ),
    ],
)
def test_the_first_screen_of_an_example_is_one_screen_with_what_decides(
    name: str, told: tuple[str, ...]
) -> None:
    lines = compare(name)
    assert len(lines) <= MOST_LINES
    # A quoted word of a command stays whole, since a shell reads it as it stands.
    assert [one for one in lines if cell_len(one) > WIDTH and not QUOTED.fullmatch(one)] == []
    text = " ".join(" ".join(lines).split())
    assert [one for one in told if one not in text] == []
