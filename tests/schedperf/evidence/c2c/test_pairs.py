# SPDX-License-Identifier: GPL-2.0-or-later
"""Which function reads what which other one writes, from samples of both."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.c2c.model import Functions
from schedperf.evidence.c2c.pairs import MOST_FUNCTIONS, OTHERS, attribute_loads
from schedperf.inputs.perf_data.recording import NO_CPU

# Copy, CPU, function, number of contended loads, whether it writes.
Row = tuple[int, int, int, int, bool]
NAMES = ("peek", "poke", "push")


def pairs(rows: Sequence[Row], names: Sequence[str] = NAMES) -> dict[Functions, float]:
    copy, cpu, function, slow, writes = (np.array(column) for column in zip(*rows, strict=True))
    part = {"copy": copy, "cpu": cpu, "function": function, "slow": slow, "writes": writes}
    return attribute_loads(part, names)


def test_a_load_is_divided_among_the_writes_of_other_cpus() -> None:
    read: Row = (0, 1, 0, 1, False)
    rows: list[Row] = [*[read] * 8, (0, 2, 1, 0, True), *[(0, 3, 2, 0, True)] * 3]
    assert pairs(rows) == {("peek", "poke"): pytest.approx(2), ("peek", "push"): pytest.approx(6)}


def test_what_its_own_cpu_writes_does_not_slow_a_load() -> None:
    rows: list[Row] = [(0, 1, 0, 1, False), *[(0, 1, 2, 0, True)] * 9, (0, 2, 1, 0, True)]
    assert pairs(rows) == {("peek", "poke"): 1.0}


def test_a_write_to_the_copy_of_another_cpu_is_not_to_this_line() -> None:
    assert pairs([(0, 1, 0, 1, False), (1, 2, 1, 0, True)]) == {}


def test_a_locked_load_reads_and_writes() -> None:
    locked = [(0, cpu, 1, 1, True) for cpu in (1, 2)]
    assert pairs(locked) == {("poke", "poke"): 2.0}


def test_without_a_write_by_another_cpu_nothing_is_attributed() -> None:
    assert pairs([(0, 1, 0, 5, False)]) == {}
    assert pairs([(0, NO_CPU, 0, 5, False), (0, 2, 1, 0, True)]) == {}
    assert pairs([(0, 1, 0, 5, False), (0, NO_CPU, 1, 0, True)]) == {}


def test_of_a_million_functions_those_with_most_samples_are_told_apart() -> None:
    functions = 100_000
    names = [f"function_{number}" for number in range(functions)]
    rows: list[Row] = [(0, 1, number, 1, False) for number in range(functions)]
    rows += [(0, 2, number, 0, True) for number in range(functions)]
    rows += [(0, 1, 7, 2, False), (0, 2, 9, 0, True)]
    found = pairs(rows, names)
    assert len(found) == (MOST_FUNCTIONS + 1) ** 2
    assert sum(found.values()) == pytest.approx(functions + 2)
    assert found["function_7", OTHERS] == max(  # type: ignore[index] # a plain tuple
        loads for pair, loads in found.items() if pair.reader != OTHERS
    )


ROWS = st.tuples(
    st.integers(0, 1), st.integers(-1, 3), st.integers(0, 2), st.integers(0, 3), st.booleans()
)


@pytest.mark.property
@given(st.lists(ROWS, min_size=1, max_size=30))
def test_what_is_attributed_are_the_loads_with_a_write_by_another_cpu(rows: list[Row]) -> None:
    def has_writer(row: Row) -> bool:
        return any(
            other[0] == row[0] and other[4] and other[1] not in (row[1], NO_CPU) for other in rows
        )

    expected = sum(row[3] for row in rows if row[1] != NO_CPU and has_writer(row))
    assert sum(pairs(rows).values()) == pytest.approx(expected)
