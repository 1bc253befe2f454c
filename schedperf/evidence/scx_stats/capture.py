# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse ``scx_stats.json``: the samples of a scheduler's statistics, and what its fields are.

The scheduler describes its statistics as structs (crate scx_stats). Nested structs, and structs by
name such as the layers of scx_layered, become fields with a longer name:

>>> meta = {"Metrics": {"top": "true", "fields": {"layers": {"dict": {
...     "key": "string", "datum": {"struct": "Layer"}}}}},
...     "Layer": {"fields": {"total": {"datum": "u64", "desc": "count of sched events"}}}}
>>> found = flatten({"layers": {"batch": {"total": 7}}}, meta)
>>> [(field.name, field.form, field.meaning, value) for field, value in found.items()]
[('layers.batch.total', 'integer', 'count of sched events', 7.0)]
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import (
    MOST_HISTOGRAM_VALUES,
    Count,
    Sentence,
    decode,
)
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

FOLDER = "scx_stats"
FILE = "scx_stats.json"
# The collector stops at 32 MiB of answers, and a last one has up to 4 MiB.
LARGEST_BYTES = 48 << 20
MOST_SAMPLES = 4096
# Fields of one sample: some 60 for each of 16 layers.
MOST_FIELDS = 4096
MOST_BINS = 64
LONGEST_NAME = 80
LONGEST_MEANING = 120

When = Literal["before", "during", "again", "after"]
# "number" is a number without a description; "skipped" is marked by the scheduler (_om_skip);
# "other" is e.g. a text.
Form = Literal["integer", "float", "histogram", "number", "skipped", "other"]

_INTEGERS = ("u64", "i64")
_NUMBERS = (*_INTEGERS, "float")
# The scheduler marks indices, masks and timestamps with this attribute.
_SKIP = "_om_skip"


class Field(NamedTuple):
    """A field of the statistics.

    :param name: path of its names, joined by dots
    :param meaning: what the scheduler's metadata say about it; "" for nothing
    """

    name: str
    form: Form
    meaning: str


# A number, the counts of a histogram, or None.
Value = float | tuple[float, ...] | None


class Sample(NamedTuple):
    """The statistics at one time.

    :param ns: CLOCK_MONOTONIC
    :param when: "again" follows the sample before it without a pause
    """

    ns: int
    when: When
    values: Mapping[Field, Value]


class ScxCapture(Struct, frozen=True, kw_only=True):
    """The samples of one run, the first before it and the last two after it; or none.

    :param left_out: samples during the run that were not taken
    """

    samples: tuple[Sample, ...]
    left_out: int = 0


class _Sample(Struct, frozen=True, kw_only=True):
    ns: Count
    when: When
    stats: dict[str, object]


class _File(Struct, frozen=True, kw_only=True):
    schema: Literal["schedperf/scx_stats/1"]
    meta: dict[str, object] | None
    samples: Annotated[tuple[_Sample, ...], Meta(max_length=MOST_SAMPLES)]
    left_out: Count
    failure: Sentence | None


def read_scx_stats(side: Side, run: Run) -> ScxCapture:
    """Read the samples of a run; none if no scheduler was loaded.

    :raises InputError: the capture is damaged, or the scheduler did not answer
    """
    name = f"{run.folder}/{FOLDER}/{FILE}"
    if side.bundle.size(name) is None:
        return ScxCapture(samples=())
    where = f"{side.bundle.path}: {name}"
    return parse_scx_stats(side.bundle.read_captured(name, LARGEST_BYTES), where)


def parse_scx_stats(content: bytes, where: str) -> ScxCapture:
    """Parse the samples of a run.

    :param where: bundle and member, for messages
    :raises InputError: the file is damaged, or has no sample before and after the run
    """
    file = decode(content, _File, where, MOST_HISTOGRAM_VALUES)
    moments = [sample.when for sample in file.samples]
    if moments[:1] != ["before"] or moments[-2:] != ["after", "again"]:
        reason = clean_line(file.failure or "no sample before and after the run")
        raise InputError(f"{where}: {reason}; look at service.txt of the run, and record again")
    times = [sample.ns for sample in file.samples]
    if any(after <= before for before, after in pairwise(times)):
        raise InputError(f"{where}: samples are not in the order of time; record again")
    samples = []
    for index, sample in enumerate(file.samples):
        values = flatten(sample.stats, file.meta or {}, f"{where}: samples[{index}]")
        samples.append(Sample(sample.ns, sample.when, values))
    return ScxCapture(samples=tuple(samples), left_out=file.left_out)


def flatten(
    stats: Mapping[str, object], meta: Mapping[str, object], where: str = ""
) -> dict[Field, Value]:
    """Return the fields of one sample, with their descriptions.

    :param meta: the scheduler's descriptions of its structs, by name; damaged ones are ignored
    :param where: for messages
    :raises InputError: there are too many fields
    """
    fields: dict[Field, Value] = {}
    for field, value in _walk(stats, {"struct": _top_of(stats, meta)}, "", (), meta):
        fields[field] = value
        if len(fields) > MOST_FIELDS:
            raise InputError(f"{where} has more than {MOST_FIELDS} fields; record again")
    return fields


def _top_of(stats: Mapping[str, object], meta: Mapping[str, object]) -> str:
    # scx_lavd has two structs with "top", but only one has the fields of the answer.
    def score(name: str) -> tuple[int, bool, int]:
        own = _fields_of(name, meta).keys()
        return len(own & stats.keys()), "top" in _dict(meta[name]), -len(own - stats.keys())

    return max(meta, key=score, default="")


def _walk(
    value: object, kind: object, meaning: str, path: tuple[str, ...], meta: Mapping[str, object]
) -> Iterator[tuple[Field, Value]]:
    # ``kind`` is a kind of the metadata: "u64", or {"struct": "Layer"}.
    if not isinstance(value, dict):
        form, number = _leaf(value, kind)
        name = cut(clean_line(".".join(path)), LONGEST_NAME)
        yield Field(name, form, meaning), number
        return
    struct = _dict(kind).get("struct")
    fields = _fields_of(struct, meta) if isinstance(struct, str) else {}
    for name, child in value.items():
        field = _dict(fields.get(name))
        yield from _walk_field(child, field, (*path, name), meta)


def _walk_field(
    value: object, field: Mapping[str, object], path: tuple[str, ...], meta: Mapping[str, object]
) -> Iterator[tuple[Field, Value]]:
    meaning = cut(clean_line(_text(field.get("desc"))), LONGEST_MEANING)
    if _SKIP in _dict(field.get("user")):
        yield from _walk(value, "skipped", meaning, path, meta)
    elif isinstance(value, dict) and "dict" in field:
        datum = _dict(field["dict"]).get("datum")
        for key, child in value.items():
            yield from _walk(child, datum, meaning, (*path, key), meta)
    elif isinstance(value, list):
        is_histogram = field.get("array") in _INTEGERS and _is_histogram(path[-1], meaning)
        yield from _walk(value, "histogram" if is_histogram else None, meaning, path, meta)
    else:
        yield from _walk(value, field.get("datum"), meaning, path, meta)


def _is_histogram(name: str, meaning: str) -> bool:
    return "histogram" in meaning.lower() or "hist" in name.lower().split("_")


def _leaf(value: object, kind: object) -> tuple[Form, Value]:
    if kind == "histogram" and isinstance(value, list):
        counts = tuple(number for each in value if (number := _number(each)) is not None)
        is_whole = len(counts) == len(value) <= MOST_BINS and min(counts, default=0.0) >= 0.0
        return "histogram", counts if is_whole and counts else None
    number = _number(value)
    if kind == "skipped":
        return "skipped", number
    if number is None:
        return "other", None
    if kind not in _NUMBERS:
        return "number", number
    return ("integer" if kind in _INTEGERS else "float"), number


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type] # checked above


def _fields_of(struct: str, meta: Mapping[str, object]) -> Mapping[str, object]:
    return _dict(_dict(meta.get(struct)).get("fields"))


def _dict(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
