# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of the examples: one screen of 78 columns, with all that decides."""

import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from schedperf.model.comparison import Comparison
from schedperf_reports.formats import Options, all_formats

# What a window of 48 lines has beside the command and the next prompt.
MOST_LINES = 44
WIDTH = 78
QUOTED = re.compile(r" +'[^']+'( \\)?")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "deep-cgroup",
            (
                "hackbench time +21.1% [+9.2%, +34.3%] (n = 8 pairs, lower is better)",
                "one boot per side",
                "comparable: yes",
            ),
        ),
        (
            "deep-cgroup-arm64",
            (
                "+53.9% [+13.8%, +107.9%] 5 inconclusive",
                "timings come from an emulator and do not predict real hardware",
                "one boot per side",
                "comparable: yes",
            ),
        ),
        (
            "cluster-percpu",
            (
                "hackbench time s 7.787 8.023 +3.0% too wide inconclusive",
                "lower is better (higher for sched/pipe operations)",
                "too wide: ends of the CI differ by more than a factor of 100",
                "n 2+2",
                "2 boots per side of each workload",
                "timings come from an emulator and do not predict real hardware",
                "background load of 20% of the busy time",
                "comparable: yes",
            ),
        ),
    ],
)
def test_the_first_screen_of_an_example_is_one_screen_with_what_decides(
    name: str, told: tuple[str, ...], compared_example: Callable[[str], Comparison]
) -> None:
    options = Options(width=WIDTH, colour=False)
    lines = all_formats()["text"].render(compared_example(name), options).splitlines()
    assert len(lines) <= MOST_LINES
    # A quoted word of a command stays whole, since a shell reads it as it stands.
    assert [one for one in lines if cell_len(one) > WIDTH and not QUOTED.fullmatch(one)] == []
    text = " ".join(" ".join(lines).split())
    assert [one for one in told if one not in text] == []
