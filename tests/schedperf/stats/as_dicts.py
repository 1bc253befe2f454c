# SPDX-License-Identifier: GPL-2.0-or-later
"""Judged rows as dicts and as a table, as tests of numbers need them."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from msgspec.structs import asdict

from schedperf.stats import JudgedRow


def as_dicts(rows: Iterable[JudgedRow]) -> list[dict[str, Any]]:
    """Return the fields of each row; the reason is its text."""
    return [{**asdict(row), "caveats": row.caveats, "reason": row.reason.text} for row in rows]


def df_rows(rows: Iterable[JudgedRow]) -> pd.DataFrame:
    """Return the same as a table."""
    return pd.DataFrame(as_dicts(rows))
