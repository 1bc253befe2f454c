# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the example in the source tree that contains the data an input lacks."""

from collections.abc import Mapping

from schedperf.model.errors import InputError

# By collector: see the table in examples/README.md.
_EXAMPLES: Mapping[str, str] = {
    "perf_profile": "examples/deep-cgroup",
    "schedstat": "examples/deep-cgroup-arm64",
    "perf_c2c": "examples/contended-lines",
}


def lacks(path: object, why: str, collector: str) -> InputError:
    """Return the error for an input without the data of a collector.

    :param why: why the data are missing
    :param collector: a collector with an example: perf_profile, schedstat or perf_c2c
    """
    return InputError(
        f"{path}: {why}; record with --with {collector}, or use {_EXAMPLES[collector]} of the "
        "source tree as an example"
    )
