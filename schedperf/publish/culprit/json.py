# SPDX-License-Identifier: GPL-2.0-or-later
"""Write and parse the record about a first bad commit as JSON.

``python -m schedperf.model.schema schedperf.publish.culprit.record:Culprit`` prints its schema.
"""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from schedperf.inputs.bundle.json import DAMAGED, convert, parse_json, show_value
from schedperf.model.errors import BundleError
from schedperf.model.json_text import to_json
from schedperf.model.schema import to_plain
from schedperf.publish.culprit.record import MESSAGE_ID, Culprit

# The record of a bisection of 20,000 commits, step by step, is 3 MB.
MOST_BYTES = 8 << 20
MOST_CHARACTERS = 1000


class _Header(Struct, frozen=True, kw_only=True):
    """The fields that are checked before the rest is parsed."""

    schema: Literal["schedperf/culprit/1"]


def write_culprit(culprit: Culprit) -> bytes:
    """Return the record as JSON; the output is deterministic."""
    return to_json(culprit).encode()


def read_culprit(content: bytes, name: str) -> Culprit:
    """Parse the output of :func:`write_culprit`; ignore unknown fields.

    :param name: file, for messages
    :raises BundleError: it is too large, damaged, contradicts itself, or is of another version
    """
    if len(content) > MOST_BYTES:
        raise BundleError(
            f"{name}: {len(content)} bytes (expected a record of at most {MOST_BYTES} bytes)"
        )
    value = parse_json(content, name)
    convert(value, _Header, name)
    culprit = convert(value, Culprit, name)
    for problem in problems_of(culprit):
        raise BundleError(f"{name}: {problem}", DAMAGED)
    return culprit


def problems_of(culprit: Culprit) -> Iterator[str]:
    """Yield one line per problem for which :func:`read_culprit` rejects a record.

    Each line names the field, e.g. ``$.bad.commit``.
    """
    yield from invalid_texts(to_plain(culprit), "$")
    yield from _invalid_links(culprit)
    yield from _contradictions(culprit)


def invalid_texts(value: object, path: str) -> Iterator[str]:
    """Yield a problem per text that is too long, or has control characters or line breaks.

    These would break a line of a mail or a page, or hide a part of it.

    :param value: a record as JSON values, or a part of one
    :param path: position of the value in the record, for messages
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from invalid_texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from invalid_texts(item, f"{path}[{index}]")
    elif isinstance(value, str) and len(value) > MOST_CHARACTERS:
        yield f"{path} has {len(value)} characters (expected at most {MOST_CHARACTERS})"
    elif isinstance(value, str) and not value.isprintable():
        yield f"{path} is {show_value(value)} (expected one line without control characters)"


def _invalid_links(culprit: Culprit) -> Iterator[str]:
    """Yield a problem per link that is not a Message-ID, or not a page of the record."""
    page = f"r/{culprit.key}/"
    for name, pattern, expected in (
        ("posted", MESSAGE_ID, "a Message-ID"),
        ("report", MESSAGE_ID, "a Message-ID"),
        ("page", f"{page}(?:[0-9]{{1,9}}/)?", page),
    ):
        link = getattr(culprit.links, name)
        if link is not None and not re.fullmatch(pattern, link):
            yield f"$.links.{name} is {show_value(link)} (expected {expected})"


def _contradictions(culprit: Culprit) -> Iterator[str]:
    """Yield a problem per contradiction between fields.

    Good and bad must differ. The comparisons must begin with the main one, and list each
    comparison that is referred to once. A retest must repeat another comparison.
    """
    if culprit.good.commit == culprit.bad.commit:
        yield f'$.bad.commit is "{culprit.bad.commit}" (expected another commit than $.good)'
    if culprit.comparisons[:1] != (culprit.main.comparison,):
        yield "$.comparisons does not begin with $.main.comparison"
    if len({*culprit.comparisons}) < len(culprit.comparisons):
        yield "$.comparisons lists a comparison twice"
    if culprit.retest is not None and culprit.retest.found == culprit.retest.result.comparison:
        yield "$.retest.found is the retest itself (expected the comparison that it repeats)"
    used = {each.comparison for each in culprit.measurements}
    if culprit.retest is not None:
        used.add(culprit.retest.found)
    for unlisted in sorted(used - {*culprit.comparisons}):
        yield f"$.comparisons does not list {unlisted}, which is referred to"
