# SPDX-License-Identifier: GPL-2.0-or-later
"""The record itself, as the published JSON Schema describes it."""

from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf_reports.formats import Options, output_format


@output_format("json")
def json(comparison: Comparison, _options: Options) -> str:
    """Everything, for programs: docs/schema/compare-2.schema.json."""
    return to_json(comparison)
