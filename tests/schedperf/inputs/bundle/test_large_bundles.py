# SPDX-License-Identifier: GPL-2.0-or-later
"""Bundles of the largest real recordings are opened: bounds on their JSON grow with the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle import json as bundle_json
from schedperf.inputs.bundle import members as bundle_files
from schedperf.inputs.bundle.json import count_values
from schedperf.inputs.bundle.open import open_bundle
from tests.conftest import bundle_members, write_tar

# As the manifest of 5,000 runs with every collector.
CAPTURES = {
    "collector": "pelt",
    "path": "boots/0/runs/000/pelt/pelt.json",
    "status": "skipped",
    "reason": "not supported",
}


@pytest.mark.parametrize(
    "chosen",
    [
        {"runs": 10_200, "treatment": [f"boots/0/settings/{number}" for number in range(120)]},
        {"runs": 2_000, "captures": [CAPTURES] * 140_000},
    ],
    ids=["10,200 runs", "2,000 runs with every collector"],
)
def test_a_large_recording_is_opened(chosen: Mapping[str, Any], tmp_path: Path) -> None:
    members = bundle_members(**chosen)
    path = write_tar(tmp_path / "base.tar", members.items())
    values = [count_values(text) for name, text in members.items() if name.endswith(".json")]
    # A small bundle may not have so many.
    assert (
        sum(values) > bundle_files.MOST_BUNDLE_VALUES or max(values) > bundle_json.MOST_JSON_VALUES
    )
    assert len(open_bundle(path).runs) == chosen["runs"]
