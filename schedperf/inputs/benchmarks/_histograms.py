# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute statistics of all threads or CPUs from their printed histograms and summaries.

>>> list(percentiles({5: 900, 7: 98, 40: 2}, above=0))
[('50', 5), ('90', 5), ('99', 7), ('99.9', 40)]
>>> list(percentiles({5: 90}, above=10))
[('50', 5), ('90', 5), ('99', None)]
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from schedperf.inputs.benchmarks import (
    MAXIMUM_END,
    BadLine,
    Item,
    Latencies,
    Measurement,
    Metric,
    Where,
    measure,
)

# In hundredths of a percent.
_WHOLE = 10_000
_PERCENTS = {"50": 5_000, "90": 9_000, "99": 9_900, "99.9": 9_990, "99.99": 9_999}


def percentiles(counts: Mapping[int, int], *, above: int) -> Iterator[tuple[str, int | None]]:
    """Yield each percentile and its bin: the first one at which the cumulative count reaches it.

    A percentile is left out if the share above it is less than one sample: p99.99 of 5000 samples
    would be their maximum.

    :param counts: number of samples by bin
    :param above: number of samples above the last bin; a percentile among them is None
    """
    bins = sorted(counts)
    total = sum(counts.values()) + above
    index, counted = -1, 0
    for name, part in _PERCENTS.items():
        if total * (_WHOLE - part) < _WHOLE:
            return
        while counted * _WHOLE < total * part and index + 1 < len(bins):
            index += 1
            counted += counts[bins[index]]
        yield name, bins[index] if counted * _WHOLE >= total * part else None


def measure_percentiles(
    metric_of: Callable[[str], Metric],
    counts: Mapping[int, int],
    lines: Mapping[int, Where],
    *,
    above: int,
    scale: float,
    resolution: float | None,
) -> Iterator[Item]:
    """Yield the percentiles of a histogram, and one ``BadLine`` if some lie above its last bin.

    :param metric_of: returns the metric of a percentile, e.g. "99.9"
    :param counts: number of samples by bin
    :param lines: line of each bin; without lines no ``BadLine`` is yielded
    :param above: number of samples above the last bin
    :param scale: factor from bins to the metric's unit
    :param resolution: width of a bin in the metric's unit; None if unknown
    """
    for percent, index in percentiles(counts, above=above):
        metric = metric_of(percent)
        if index is None:
            if lines:
                label, line_number, _ = lines[max(lines)]
                yield BadLine(
                    problem=f"{label}:{line_number}: {metric.name} lies above the histogram, which "
                    f"lacks {above} samples; record a histogram with more bins"
                )
            return
        item = measure(metric, str(index), where=lines[index], scale=scale)
        yield replace(item, resolution=resolution) if isinstance(item, Measurement) else item


def measure_maximum(
    items: Iterable[Item],
    *,
    samples: int,
    unit_s: float,
    counts: Mapping[int, int] | None = None,
    width: int | None = None,
    above: int = 0,
) -> Iterator[Item | Latencies]:
    """Yield the largest of the maxima and a :class:`Latencies` with it, or the first ``BadLine``.

    Yield nothing without items. The other parameters are the fields of :class:`Latencies`.

    :param items: maximum of each thread or CPU; the metric's name ends with " max"
    """
    numbers: list[Measurement] = []
    for item in items:
        if isinstance(item, BadLine):
            yield item
            return
        numbers.append(item)
    if not numbers:
        return
    longest = max(numbers, key=lambda item: item.value)
    yield longest
    yield Latencies(
        name=longest.metric.name.removesuffix(MAXIMUM_END),
        samples=samples,
        maximum_s=longest.value,
        unit_s=unit_s,
        counts=counts,
        width=width,
        above=above,
    )


def without_latencies(items: Iterable[object]) -> Iterator[Item]:
    """Yield the items of a parser without latencies."""
    return (item for item in items if isinstance(item, Measurement | BadLine))


def only_latencies(items: Iterable[object]) -> Iterator[Latencies]:
    """Yield the latencies among the items of a parser."""
    return (item for item in items if isinstance(item, Latencies))
