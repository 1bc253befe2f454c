# SPDX-License-Identifier: GPL-2.0-or-later
"""Layouts for the comparison: made of places, typed from a mail, and of real kernels."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import UnitKind
from schedperf.evidence.layout.sources import load_kernel
from tests.shared_data import shared_kernel

ROOT = Path(__file__).parents[4]
LAYOUTS = ROOT / "tests" / "data" / "layouts"


def _make_unit(name: str, *places: tuple[str, int, int | None]) -> Unit:
    kinds: dict[str, UnitKind] = {"percpu": "percpu", "globals": "globals"}
    return Unit(
        name=name,
        kind=kinds.get(name, "struct"),
        size=1 << 14,
        alignment=64,
        is_alignment_inferred=False,
        entries=tuple(Entry(name=n, offset=o, size=s) for n, o, s in places),
        groups={},
        sources=("System.map",),
        noise={},
        notes=(),
    )


@pytest.fixture(scope="session")
def make_unit() -> Callable[..., Unit]:
    """Make a unit from names, offsets and sizes: ``make_unit("percpu", ("sd_llc_id", 64, 4))``."""
    return _make_unit


@pytest.fixture(scope="session")
def typed_layout() -> Callable[[str], Unit]:
    """Return the reader of the layouts that were typed from a mail."""

    def read(name: str) -> Unit:
        rows = (line.split() for line in (LAYOUTS / f"{name}.map").read_text().splitlines())
        entries = [
            Entry(name=symbol, offset=int(address, 16), size=None, letter=letter)
            for address, letter, symbol in rows
        ]
        return Unit(
            name="percpu",
            kind="percpu",
            size=None,
            alignment=4096,
            is_alignment_inferred=False,
            entries=tuple(entries),
            groups={},
            sources=("System.map",),
            noise={},
            notes=(),
        )

    return read


@pytest.fixture(scope="session")
def real_section() -> Callable[[str, str], Unit]:
    """Return the reader of a real kernel's per-CPU section; it skips where there is none.

    Its second argument says from what: "System.map", "BTF" or "both".
    """

    def read(kernel: str, source: str) -> Unit:
        folder = shared_kernel(kernel)
        path = {"System.map": folder / "System.map", "BTF": folder / "btf"}.get(source, folder)
        return load_kernel(path, structs=()).units["percpu"]

    return read
