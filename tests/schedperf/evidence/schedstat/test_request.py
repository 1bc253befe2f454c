# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.commands._schedstat_request: what of a source is looked at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._schedstat_request import Wanted, describe
from schedperf.model.errors import InputError


def test_a_source_without_points_says_so(
    tmp_path: Path,
    make_bundle: Callable[..., Path],
    stat_runs: Callable[..., list[dict[str, Any]]],
) -> None:
    base = make_bundle(tmp_path / "base.tar", runs=stat_runs((9000, 9100)))
    with pytest.raises(
        InputError,
        match="no counts with parameters 'groups=9' "
        "\\(the runs have no parameters; leave --point out\\)$",
    ):
        describe([str(base)], Wanted(cpus=None, hz=None, point="groups=9"))
