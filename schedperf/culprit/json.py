# SPDX-License-Identifier: GPL-2.0-or-later
"""Write and parse the record about a first bad commit as JSON.

Its published schema is that of ``python -m schedperf.model.schema
schedperf.culprit.record:Culprit``.
"""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from schedperf.bundle.json import DAMAGED, convert, parse_json, show_value
from schedperf.bundle.records import from_plain
from schedperf.culprit.record import MESSAGE_ID, Culprit
from schedperf.model.errors import BundleError
from schedperf.model.json_text import to_json
from schedperf.model.schema import to_plain

# A bisection of 20,000 commits, step by step, has 3 MB.
MOST_BYTES = 8 << 20
MOST_CHARACTERS = 1000


class _Header(Struct, frozen=True, kw_only=True):
    """What is checked before the rest is parsed."""

    schema: Literal["schedperf/culprit/1"]


def write_culprit(culprit: Culprit) -> bytes:
    """Return the record as JSON; the same bytes for the same record."""
    return to_json(culprit).encode()


def read_culprit(content: bytes, name: str) -> Culprit:
    """Parse what :func:`write_culprit` wrote. Unknown fields are ignored.

    :param name: file, for messages
    :raises BundleError: it is too large, damaged, contradicts itself, or is of another version
    """
    if len(content) > MOST_BYTES:
        raise BundleError(
            f"{name}: {len(content)} bytes (expected a record of at most {MOST_BYTES} bytes)"
        )
    value = parse_json(content, name)
    convert(value, _Header, name)
    culprit = from_plain(value, Culprit, name)
    for problem in problems_of(culprit):
        raise BundleError(f"{name}: {problem}", DAMAGED)
    return culprit


def problems_of(culprit: Culprit) -> Iterator[str]:
    """Yield why :func:`read_culprit` refuses a record, by its fields."""
    yield from _invalid_texts(to_plain(culprit), "$")
    yield from _invalid_links(culprit)
    yield from _contradictions(culprit)


def _invalid_texts(value: object, path: str) -> Iterator[str]:
    """Yield texts that would break a line of a mail or a page, or hide a part of it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _invalid_texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _invalid_texts(item, f"{path}[{index}]")
    elif isinstance(value, str) and len(value) > MOST_CHARACTERS:
        yield f"{path} has {len(value)} characters (expected at most {MOST_CHARACTERS})"
    elif isinstance(value, str) and not value.isprintable():
        yield f"{path} is {show_value(value)} (expected one line without control characters)"


def _invalid_links(culprit: Culprit) -> Iterator[str]:
    """Yield links that are not what mails and pages take them for."""
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
    """Yield references to a comparison that is not listed, and a commit that is its own parent."""
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
