# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.evidence.profile.family: what is tested, and what counts as changed."""

import numpy as np
import pytest

from schedperf.evidence.profile.family import is_hot, is_kernel_code, is_silent
from schedperf.model.place import Place


@pytest.mark.parametrize(
    ("dso", "is_kernel"),
    [("[kernel]", True), ("[nf_tables]", True), ("[bpf]", True), ("[vdso]", False),
     ("[guest kernel]", False), ("hackbench", False)],
)  # fmt: skip
def test_kernel_code_is_told_from_what_only_has_brackets(dso: str, is_kernel: bool) -> None:  # noqa: FBT001 # a parameter of the test
    assert is_kernel_code(Place("x", dso)) is is_kernel


def test_hot_is_what_both_sides_have_together() -> None:
    base, new = np.array([0.1, 0.04, 0.0]), np.array([0.0, 0.05, 0.2])
    assert is_hot(base, new).tolist() == [True, False, True]


def test_what_hidden_time_is_attributed_to_is_silent_where_the_event_may_be_blind() -> None:
    idle, hidden = np.array([True, False, False]), np.array([True, True, False])
    assert is_silent(idle, hidden, sees_kernel=True).tolist() == [True, False, False]
    assert is_silent(idle, hidden, sees_kernel=False).tolist() == [True, True, False]
