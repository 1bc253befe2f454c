# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out which fields count and which are levels, and how much of each a run has.

The metadata give the type and a description of a field, but not whether its numbers count since the
previous request (most counters), count since the start of the scheduler, or are a level. Integers
are therefore classified by what they did in the samples of all runs of all sides:

* period: without a pause between two requests (``again``), the second answer is almost 0
* total: it never decreased, and increased often
* level: it never changed; or it decreased, and without a pause the second answer is about the same

Anything else is not compared. Floats are levels if their description says so, e.g. "% of …": they
are computed from counts of a period, which is too short between two such requests.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from schedperf.evidence.scx_stats.capture import Field, Sample, ScxCapture, Value
from schedperf.evidence.scx_stats.record import Kind

NS_PER_S = 1e9
# Largest part of a count that the second of two answers may have.
MOST_OF_PERIOD = 0.1
# Smallest part of a level that it may have; the number of runnable tasks, for instance, varies.
LEAST_OF_LEVEL = 0.5
# Smallest sum of the first answers from which this can be seen, and increases of a total.
LEAST_SUM = 10.0
LEAST_INCREASES = 8

SKIPPED = "the scheduler marks it as no metric (_om_skip)"
UNDESCRIBED = "the scheduler's metadata do not describe it"
NO_NUMBER = "a text or a list"
NO_METRIC = "no metric: a timestamp or sequence number"
_NOT_COMPARED = {"skipped": SKIPPED, "number": UNDESCRIBED, "other": NO_NUMBER}
UNCLEAR = "a level or a count: too few counts to find out"
ALWAYS_0 = "always 0"
UNCLEAR_FLOAT = "the description does not say whether it is a share, a mean or a count"

# Words of scx_layered, scx_rusty, scx_mitosis and scx_lavd.
_LEVEL = re.compile(r"%|\b(fraction|ratio|average|utilization)", re.IGNORECASE)
_NO_METRIC = re.compile(r"\b(timestamp|sequence id)\b", re.IGNORECASE)


class Verdict(NamedTuple):
    """What a field is.

    :param kind: None if it is not compared
    :param reason: why it is not compared; "" if it is
    """

    kind: Kind | None
    reason: str = ""


def classify_all(captures: Sequence[ScxCapture]) -> dict[Field, Verdict]:
    """Return what the fields of all runs are, in the order of their appearance."""
    fields = dict.fromkeys(
        field for each in captures for sample in each.samples for field in sample.values
    )
    return {field: classify(field, [each.samples for each in captures]) for field in fields}


def classify(field: Field, runs: Iterable[Sequence[Sample]]) -> Verdict:
    """Return what a field is, from the samples of all runs."""
    if field.form in _NOT_COMPARED:
        return Verdict(None, _NOT_COMPARED[field.form])
    if _NO_METRIC.search(field.meaning):
        return Verdict(None, NO_METRIC)
    pairs = [pair for run in runs for pair in _pairs(field, run)]
    if pairs and not any(pair.before or pair.after for pair in pairs):
        return Verdict(None, ALWAYS_0)
    if field.form == "float":
        is_level = _LEVEL.search(field.meaning)
        return Verdict("level") if is_level else Verdict(None, UNCLEAR_FLOAT)
    return _classify_integer(pairs, is_histogram=field.form == "histogram")


class _Pair(NamedTuple):
    # Two samples that follow each other, and whether there was no pause between them.
    before: float
    after: float
    is_again: bool


def _pairs(field: Field, samples: Sequence[Sample]) -> list[_Pair]:
    values = ((_size(sample.values.get(field)), sample.when) for sample in samples)
    known = [(value, when) for value, when in values if value is not None]
    return [_Pair(before, after, when == "again") for (before, _), (after, when) in pairwise(known)]


def _size(value: Value) -> float | None:
    return sum(value) if isinstance(value, tuple) else value


def _classify_integer(pairs: Sequence[_Pair], *, is_histogram: bool) -> Verdict:
    increases = sum(pair.after > pair.before for pair in pairs)
    decreases = sum(pair.after < pair.before for pair in pairs)
    first = sum(pair.before for pair in pairs if pair.is_again)
    second = sum(pair.after for pair in pairs if pair.is_again)
    if not increases and not decreases:
        return Verdict("level") if first and not is_histogram else Verdict(None, UNCLEAR)
    if not decreases:
        return Verdict("total") if increases >= LEAST_INCREASES else Verdict(None, UNCLEAR)
    if first >= LEAST_SUM and second <= MOST_OF_PERIOD * first:
        return Verdict("period")
    if first >= LEAST_SUM and second >= LEAST_OF_LEVEL * first and not is_histogram:
        return Verdict("level")
    return Verdict(None, UNCLEAR)


def seconds_of(capture: ScxCapture) -> float:
    """Return the time from the sample before the run to that after it, in s."""
    return (capture.samples[-2].ns - capture.samples[0].ns) / NS_PER_S


def amounts_of(capture: ScxCapture, kinds: Mapping[Field, Kind]) -> dict[Field, float]:
    """Return how much of each field a run has: counts of the run, means of levels over its time.

    A field that a sample lacks, e.g. of a layer that did not exist yet, has no counts in it. A
    total that the first sample lacks is left out.
    """
    amounts = {field: _amount(field, kind, capture.samples) for field, kind in kinds.items()}
    return {field: amount for field, amount in amounts.items() if amount is not None}


def _amount(field: Field, kind: Kind, samples: Sequence[Sample]) -> float | None:
    # The last sample covers time after the run.
    values = [_size(sample.values.get(field)) for sample in samples[:-1]]
    if kind == "total":
        before, after = values[0], values[-1]
        return None if before is None or after is None else after - before
    if kind == "period":
        counted = [value for value in values[1:] if value is not None]
        return sum(counted) if counted else None
    return _mean(field, samples[:-1])


def _mean(field: Field, samples: Sequence[Sample]) -> float | None:
    # Each sample weighs the time since the one before it.
    total = weight = 0.0
    paced = [sample for sample in samples if sample.when != "again"]
    for before, sample in pairwise(paced):
        value = _size(sample.values.get(field))
        if value is not None:
            total += value * (sample.ns - before.ns)
            weight += sample.ns - before.ns
    return total / weight if weight else None


def counts_of(capture: ScxCapture, field: Field, kind: Kind) -> tuple[int, ...] | None:
    """Return the counts of a histogram during the run, by bin; None if it is not known.

    :param kind: "period" or "total"
    """
    bins = [_bins(sample.values.get(field)) for sample in capture.samples[:-1]]
    if kind == "total":
        before, after = bins[0], bins[-1]
        if before is None or after is None or len(before) != len(after):
            return None
        counts = [last - first for first, last in zip(before, after, strict=True)]
        return tuple(map(int, counts)) if min(counts) >= 0.0 else None
    known = [each for each in bins[1:] if each is not None]
    if not known or len(set(map(len, known))) > 1:
        return None
    return tuple(int(sum(column)) for column in zip(*known, strict=True))


def _bins(value: Value) -> tuple[float, ...] | None:
    return value if isinstance(value, tuple) else None
