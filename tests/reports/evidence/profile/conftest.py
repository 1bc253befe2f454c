# SPDX-License-Identifier: GPL-2.0-or-later
"""What the profile section of a comparison found, for the tests of its drawing."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from schedperf.evidence.profile.record import Profile
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block
from schedperf_reports.evidence.profile.section import profile
from tests.record_schema import check_schema


@pytest.fixture
def describe(
    make_comparison: Callable[..., Comparison], to_blocks: Callable[[Iterable[Block]], Any]
) -> Callable[[Profile], Any]:
    """Return the blocks for the section's record, which must follow its schema."""

    def run(data: Profile) -> Any:
        check_schema(data)
        section = Section.of(data)
        return to_blocks(profile(make_comparison(sections={"profile": section})))

    return run
