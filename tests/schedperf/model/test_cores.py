# SPDX-License-Identifier: GPL-2.0-or-later
"""Arm cores that report only numbers have names; everything else stays as it is."""

import pytest

from schedperf.model.cores import name_model


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("implementer 0x41 part 0xd0c", "Neoverse-N1"),
        ("implementer 0x48 part 0xd01", "Kunpeng-920"),
        ("implementer 0xc0 part 0xac3", "Ampere-1"),
        ("implementer 0x41 part 0xfff", "implementer 0x41 part 0xfff"),
        ("implementer 0x41 part 0xd0c1234567", "implementer 0x41 part 0xd0c1234567"),
        ("AMD EPYC 7763", "AMD EPYC 7763"),
        ("", ""),
    ],
)
def test_names_of_models(model: str, name: str) -> None:
    assert name_model(model) == name
