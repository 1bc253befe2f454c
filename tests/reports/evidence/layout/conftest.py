"""Cache lines of kernels as their section has them: made here, and two that parted a pair."""

from collections.abc import Callable
from typing import Any

import pytest

Json = dict[str, Any]
Make = Callable[..., Json]


def _entry(name: str, address: int, size: int | None = 8, **changes: Any) -> Json:
    row = {
        "kind": "entry",
        "address": address,
        "letter": "D",
        "type": "u64",
        "name": name,
        "size": size,
        "bits": None,
        "mark": "",
        "is_hot": False,
    }
    return row | changes


def _hole(address: int, size: int) -> Json:
    return _entry("", address, size, kind="hole", type=None, letter="")


def _column(side: str, *rows: Json, lines: tuple[int, ...], **changes: Any) -> Json:
    made = {
        "side": side,
        "label": side,
        "rows": list(rows),
        "lines": list(lines),
        "bytes": None,
        "reason": None,
    }
    return made | changes


def _window(*columns: Json, unit: str = "percpu", **changes: Any) -> Json:
    made = {
        "unit": unit,
        "kind": "percpu",
        "alarms": [],
        "inserted": [],
        "columns": list(columns),
        "uses": [],
    }
    return made | changes


def _alarm(a: str, b: str, **changes: Any) -> Json:
    return {
        "row": "alarm",
        "pairs": [[a, b]],
        "entries": [{"name": a}, {"name": b}],
        "claim": f"{a} and {b} parted",
    } | changes


PARTED = _window(
    _column(
        "base",
        _entry("usage", 0x208, is_hot=True),
        _entry("shared", 0x230, is_hot=True),
        _entry("llc_id", 0x238, 4, is_hot=True),
        _entry("llc_size", 0x23C, 4),
        _entry("llc", 0x240),
        lines=(0x200, 0x240),
    ),
    _column(
        "new",
        _entry("usage", 0x208, is_hot=True, mark="mates changed"),
        _entry("shared", 0x230, is_hot=True, mark="mates changed"),
        _entry("cluster", 0x238, mark="added"),
        _entry("share_id", 0x240, 4, mark="added"),
        _entry("llc_id", 0x244, 4, is_hot=True, mark="moved"),
        _entry("llc_size", 0x248, 4, mark="moved"),
        _entry("llc", 0x250),
        lines=(0x200, 0x240),
    ),
    alarms=["alarm"],
    inserted=["cluster", "share_id"],
)
PAIR = _alarm("usage", "llc_id", entries=[{"name": name} for name in ("usage", "llc_id", "shared")])


@pytest.fixture(scope="session")
def entry() -> Make:
    """Make a row of a name: ``entry("llc_id", 0x238, 4, is_hot=True)``."""
    return _entry


@pytest.fixture(scope="session")
def hole() -> Make:
    """Make a row of bytes between two members."""
    return _hole


@pytest.fixture(scope="session")
def column() -> Make:
    """Make the rows of one side: ``column("base", *rows, lines=(0, 64))``."""
    return _column


@pytest.fixture(scope="session")
def window() -> Make:
    """Put the columns of the sides beside each other."""
    return _window


@pytest.fixture(scope="session")
def parted() -> Json:
    """Return two kernels of which the new one puts ``llc_id`` on the next line."""
    return PARTED


@pytest.fixture(scope="session")
def pair() -> Json:
    """Return the alarm on ``usage`` and ``llc_id``, which parted."""
    return PAIR
