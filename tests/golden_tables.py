# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the tables that the golden cases are about, always the same bytes."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.golden_inputs import DATA, NOISE


def write_table(
    path: Path,
    rows: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    in_blocks: bool = False,
) -> None:
    """Write a table of runs, one metric for each entry.

    :param in_blocks: base was recorded wholly before new; else they took turns
    """
    lines = ["side,workload,metric,unit,better,order,value"]
    for metric, (base, new) in rows.items():
        for number, values in enumerate(zip(base, new, strict=True)):
            for second, value in enumerate(values):
                order = second * len(base) + number if in_blocks else 2 * number + second
                lines.append(f"{('base', 'new')[second]},made,{metric},s,lower,{order},{value:.6g}")
    path.write_text("\n".join(lines) + "\n")


def wandering(folder: Path) -> None:
    """Write runs of which each resembles the one before."""
    waves = tuple(
        [mean + 0.02 * math.sin(number / 2.0) for number in range(16)] for mean in (1.0, 1.03)
    )
    write_table(folder / "wandering.csv", {"time": (waves[0], waves[1])}, in_blocks=True)


def shapes(folder: Path) -> None:
    """Write metrics each of which is noisy in a way of its own."""
    noise = NOISE[:16]

    def near(mean: float, spread: float = 1.0, shift: int = 0) -> list[float]:
        return [
            mean * (1.0 + spread * (noise[(number + shift) % 16] - 1.0)) for number in range(16)
        ]

    fast_or_slow = [1.0, 1.5]
    slow_of_base, slow_of_new = (2, 7), (0, 1, 3, 4, 6, 8, 9, 11, 12, 13)
    write_table(
        folder / "shapes.csv",
        {
            "steady": (near(1.0), near(1.0, shift=5)),
            "slower": (near(1.0), near(1.1, shift=5)),
            "spread": (near(1.0), near(1.0, 12.0, shift=5)),
            "modes": tuple(
                [
                    value * fast_or_slow[number in slow]
                    for number, value in enumerate(near(1.0, shift=shift))
                ]
                for slow, shift in ((slow_of_base, 0), (slow_of_new, 5))
            ),  # type: ignore[dict-item] # two sides
            "drifting": (
                [value * (1.0 + 0.01 * number) for number, value in enumerate(near(1.0))],
                [value * (1.0 + 0.01 * number) for number, value in enumerate(near(1.02, 1.0, 5))],
            ),
            "outliers": ([*near(1.0)[:15], 9.0], [*near(1.02, 1.0, 5)[:15], 1.02]),
        },
    )
    # As some editors and cut files have it.
    path = folder / "shapes.csv"
    path.write_text(path.read_text().rstrip("\n"))


def seed(name: str) -> Any:
    def write(folder: Path) -> None:
        (folder / name).write_bytes((DATA / "seeds" / name).read_bytes())

    return write


def claims(folder: Path) -> None:
    """Write a published table whose claims do not follow from its numbers."""
    (folder / "claims.csv").write_text(
        "side,workload,point,metric,unit,better,value,claimed,claimed_mean\n"
        + "".join(
            f"{side},tbench,threads={threads},throughput,MB/s,higher,{value},{claimed},{mean}\n"
            for threads in (1, 2)
            for side, values, claimed, mean in (
                ("tip", (100, 101, 102), "", "101"),
                ("patched", (110, 111, 112), "+2.0%" if threads == 1 else "+9.9%", "115"),
            )
            for value in values
        )
    )
