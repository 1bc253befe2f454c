# SPDX-License-Identifier: GPL-2.0-or-later
"""The lists of what may be published are those of the package and of each kind of evidence."""

from importlib.resources import files

from schedperf.publish.pages.allowed import read_allowed
from tests.schedperf.publish.pages.canaries import free_texts


def test_a_kind_of_evidence_lists_the_texts_of_its_own_records() -> None:
    assert read_allowed().texts["EnergyRow"] == (
        "unit", "row", "side", "workload", "point", "domain",
    )  # fmt: skip
    energy = {name for kind, name in free_texts() if kind.startswith(("Energy", "MissingCounter"))}
    assert energy == {
        name
        for kind in ("EnergySide", "EnergyRow", "MissingCounter", "Energy")
        for name in read_allowed().texts[kind]
    }


def test_the_lists_of_the_package_stay() -> None:
    text = files("schedperf.publish.pages").joinpath("allowed.toml").read_text()
    assert "Comparison = [" in text
    assert "sections" in read_allowed().texts["Comparison"]
    assert "C2cCommand.command" in read_allowed().private_texts
