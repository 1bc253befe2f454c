# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the record itself, in the form of the published JSON Schema."""

from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf_reports.formats import Options, output_format


@output_format("json")
def json(comparison: Comparison, _options: Options) -> str:
    """Return the whole record for programs, as in docs/schema/compare-2.schema.json."""
    return to_json(comparison)
