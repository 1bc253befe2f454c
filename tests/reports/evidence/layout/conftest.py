# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines of two kernels of which the new one parted a pair."""

import pytest

from schedperf.evidence.layout.record import LayoutAlarm, LayoutWindow
from tests.schedperf.evidence.layout.records import (
    make_alarm,
    make_column,
    make_entry,
    make_window,
)

PAIR = make_alarm("usage", "llc_id", "shared")
PARTED = make_window(
    make_column(
        "base",
        make_entry("usage", 0x208, is_hot=True),
        make_entry("shared", 0x230, is_hot=True),
        make_entry("llc_id", 0x238, 4, is_hot=True),
        make_entry("llc_size", 0x23C, 4),
        make_entry("llc", 0x240),
        lines=(0x200, 0x240),
    ),
    make_column(
        "new",
        make_entry("usage", 0x208, is_hot=True, mark="mates changed"),
        make_entry("shared", 0x230, is_hot=True, mark="mates changed"),
        make_entry("cluster", 0x238, mark="added"),
        make_entry("share_id", 0x240, 4, mark="added"),
        make_entry("llc_id", 0x244, 4, is_hot=True, mark="moved"),
        make_entry("llc_size", 0x248, 4, mark="moved"),
        make_entry("llc", 0x250),
        lines=(0x200, 0x240),
    ),
    alarms=(PAIR.row,),
    inserted=("cluster", "share_id"),
)


@pytest.fixture(scope="session")
def parted() -> LayoutWindow:
    """Return two kernels of which the new one puts ``llc_id`` on the next line."""
    return PARTED


@pytest.fixture(scope="session")
def pair() -> LayoutAlarm:
    """Return the alarm on ``usage`` and ``llc_id``, which parted."""
    return PAIR
