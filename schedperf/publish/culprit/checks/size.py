# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``size``: the regression is large enough to be reported.

The kernel's rule (Documentation/admin-guide/reporting-regressions.rst): 5% of a micro-benchmark,
or 1% of an application.
"""

from schedperf.model.rows import Row
from schedperf.model.text import clean_line
from schedperf.publish.culprit.figures import Evidence, name_machine, show_size
from schedperf.publish.culprit.record import Check

LEAST_MICRO = 0.05
LEAST_APPLICATION = 0.01


def check(evidence: Evidence) -> Check:
    """Fail if no result regressed by at least 5%, or by 1% in a benchmark that is an application.

    A regression of any size passes if the record has it on another machine, too.

    :raises InputError: the record has no regression, or its comparison is missing
    """
    row = evidence.headline()
    here = clean_line(name_machine(evidence.main_sides[1]))
    elsewhere = {place.machine for place in evidence.culprit.regressed_on} - {here}
    if elsewhere or any(map(_is_enough, evidence.regressions())):
        return Check.of("size")
    return Check.of(
        "size",
        f"{show_size(row.ratio or 1.0)} (expected {LEAST_MICRO:.0%} of a micro-benchmark, or "
        f"{LEAST_APPLICATION:.0%} of an application): show it on another machine, or with an "
        "application",
    )


def _is_enough(row: Row) -> bool:
    # Benchmarks of unknown class are held to the rule of micro-benchmarks.
    is_application = row.class_ == "application"
    return abs((row.ratio or 1.0) - 1.0) >= (LEAST_APPLICATION if is_application else LEAST_MICRO)
