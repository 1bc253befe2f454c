# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare one pair of bundles, in any process of any machine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.bundles import Judged, compare_bundles, judge_bundles
from schedperf.compare.many.pairs import Pair
from schedperf.compare.options import CompareOptions
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.bundle.tar import MAX_TOTAL_BYTES
from schedperf.inputs.importers.open import Opener, split_format
from schedperf.inputs.many.urls import is_url, local_file, local_path, redact
from schedperf.model.errors import SchedperfError, describe
from schedperf.model.json_text import to_json
from schedperf.model.rows import Row, Verdict
from schedperf.model.text import clean_line
from schedperf.model.verdict import deciding_row
from schedperf_collectors.registry import PluginError


class Task(Struct, frozen=True, kw_only=True):
    """What one call does.

    :param files: names of both bundles that mean the same in another working directory
    :param options: without earlier recordings
    :param command: command line that repeats the comparison; None to leave out the comparison, of
        which only the verdict is computed then
    """

    pair: Pair
    files: tuple[str, str]
    options: CompareOptions
    command: tuple[str, ...] | None = None


class PairResult(Struct, frozen=True, kw_only=True):
    """One line of the output.

    :param base: without the secrets of a URL
    :param verdict: of the whole comparison; None if the pair cannot be compared
    :param result: the result that decides, or that represents those that do; None if none does
    :param change: of its value, as a fraction
    :param ci_low: lower bound of the 95% CI of the change
    :param error: why the pair cannot be compared
    """

    name: str
    base: str
    new: str
    verdict: Verdict | None = None
    result: str | None = None
    change: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str | None = None
    error: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What one call returns.

    :param comparison: JSON of the whole comparison; None if it is left out
    """

    result: PairResult
    comparison: str | None = None


def judge_pair(task: Task) -> Answer:
    """Compare a pair; one that cannot be compared gives a result with the error."""
    try:
        return _judge(task)
    except (SchedperfError, PluginError) as error:
        return Answer(result=failed(task.pair, str(error)))
    except Exception as error:  # noqa: BLE001 # one pair must not cost the others
        return Answer(result=failed(task.pair, f"internal error: {describe(error)}"))


def failed(pair: Pair, error: str) -> PairResult:
    """Return the result of a pair that cannot be compared."""
    return PairResult(
        name=pair.name, base=_shown(pair.base), new=_shown(pair.new), error=clean_line(error)
    )


def _judge(task: Task) -> Answer:
    with ExitStack() as stack:
        opener = stack.enter_context(Opener())
        bundles = [stack.enter_context(_opened(file, opener)) for file in task.files]
        for bundle, name in zip(bundles, (task.pair.base, task.pair.new), strict=True):
            bundle.path = Path(_shown(name))
        if task.command is None:
            return Answer(result=_result(task.pair, judge_bundles(bundles, task.options)))
        comparison = compare_bundles(bundles, task.options)
        judged = Judged(rows=comparison.rows, overall=comparison.overall)
        return Answer(
            result=_result(task.pair, judged),
            comparison=to_json(replace(comparison, command=task.command)),
        )


@contextmanager
def _opened(file: str, opener: Opener) -> Iterator[Bundle]:
    with local_file(file, MAX_TOTAL_BYTES) as path:
        yield opener.open(path)


def _result(pair: Pair, judged: Judged) -> PairResult:
    overall = judged.overall
    row = deciding_row(judged.rows, overall.verdict)
    result = PairResult(
        name=pair.name,
        base=_shown(pair.base),
        new=_shown(pair.new),
        verdict=overall.verdict,
        reason=clean_line(overall.reason),
    )
    if row is None:
        return result
    return replace(
        result,
        result=_name(row),
        change=_change(row.ratio),
        ci_low=_change(row.ci_low),
        ci_high=_change(row.ci_high),
    )


def _name(row: Row) -> str:
    point = f" at {row.point}" if row.point else ""
    return clean_line(f"{row.workload} {row.metric}{point}")


def _change(ratio: float | None) -> float | None:
    return None if ratio is None else ratio - 1.0


def _shown(name: str) -> str:
    return redact(name) if is_url(name) else name


def absolute(name: str) -> str:
    """Return a name that means the same file in another working directory.

    A name that cannot be used is returned as it is: opening it reports the error.
    """
    try:
        path = local_path(name)
        if path is None:
            return name
        tree = split_format(path)
    except SchedperfError:
        return name
    return f"{tree[0]}:{tree[1].absolute()}" if tree else str(path.absolute())
