# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the untrusted JSON of ``schedperf bisect --json``."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import DAMAGED, convert, parse_json
from schedperf.lab.bisect.document import BisectDocument
from schedperf.model.errors import BundleError
from schedperf.model.schema import to_plain
from schedperf.publish.culprit.json import invalid_texts

# The record of 20,000 commits that cannot be tested is 2 MB.
MOST_BYTES = 8 << 20


class _Header(Struct, frozen=True, kw_only=True):
    """The field that is checked before the rest is parsed."""

    schema: Literal["schedperf/bisect/1"]


def load_bisection(path: Path) -> BisectDocument:
    """Read the record of a bisection.

    :raises InputError: the file cannot be read, is damaged, or is of another version
    """
    content = read_regular(path, MOST_BYTES, "the JSON of schedperf bisect")
    return convert_bisection(parse_json(content, str(path)), str(path))


def convert_bisection(value: object, where: str) -> BisectDocument:
    """Convert parsed JSON to the record of a bisection; ignore unknown fields.

    :param where: file, for messages
    :raises BundleError: it is not such a record, is of another version, or has texts that are too
        long or contain control characters
    """
    convert(value, _Header, where)
    document = convert(value, BisectDocument, where)
    for problem in invalid_texts(to_plain(document), "$"):
        raise BundleError(f"{where}: {problem}", DAMAGED)
    return document
