# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact host.json by the rules of ``allowed.toml``."""

from collections import Counter
from collections.abc import Iterator, Mapping

from schedperf.publish.pages.allowed import read_allowed
from schedperf_collectors.redaction import host as redaction
from schedperf_collectors.redaction.host import Clean


def redact_host(
    host: Mapping[str, object], clean: Clean, left_out: Counter[str]
) -> dict[str, object]:
    """Return the allowed fields of a host.json; groups without one are left out.

    :param clean: function that removes private strings from a value
    :param left_out: number of omitted strings by kind, which is updated
    """
    return redaction.redact_host(host, read_allowed().rules, clean, left_out)


def redact_command_line(text: str, left_out: Counter[str]) -> str:
    """Return a kernel command line with only its allowed parameters.

    :param left_out: number of omitted strings by kind, which is updated
    """
    return redaction.redact_command_line(text, read_allowed().rules, left_out)


def private_values(host: Mapping[str, object]) -> Iterator[str]:
    """Yield the private strings of a host.json, which must not be published anywhere."""
    return redaction.private_values(host, read_allowed().rules)
