# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the jobs of ``ab --kernel --jobs`` that record the workloads of a bundle again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from schedperf.commands._rerun_words import KEPT, OF_BOOTS, Given
from schedperf_collectors.recorder.boot_options import NAME
from schedperf_collectors.recorder.options import make_parser

# Options that each job has for itself, by their names in the parser's result.
OF_JOBS = frozenset({
    "runs", "instrumented", "warmup", "point", "collectors", "left_out", "metric",
})  # fmt: skip
_LISTS = {"collectors": "with", "left_out": "without"}


def in_same_boots(given: Sequence[Given]) -> list[Given]:
    """Return those commands that can be recorded in the boots of the first one.

    The others boot other kernels, have other options for all jobs, or record the same again.
    """
    common = {*OF_BOOTS, *KEPT} - OF_JOBS
    first = given[0].words(common)
    seen: set[tuple[str, tuple[str, ...]]] = set()
    kept = []
    for each in given:
        result = each.name, tuple(each.values("point"))
        if each.program == "boots" and each.words(common) == first and result not in seen:
            kept.append(each)
        seen.add(result)
    return kept


def write_jobs(works: Sequence[tuple[Given, Sequence[str]]]) -> str:
    """Return the jobs as JSON, in their order.

    :param works: of each job, its command, and the words of its own options
    """
    jobs = [
        _job(given, words, _name(given, number)) for number, (given, words) in enumerate(works, 1)
    ]
    return json.dumps({"job": jobs})


def _name(given: Given, number: int) -> str:
    # Bundles do not store the names of jobs.
    name = f"{PurePath(given.workload[0]).name[:48]}-{number}"
    return name if NAME.match(name) else f"job-{number}"


def _job(given: Given, words: Sequence[str], name: str) -> Mapping[str, object]:
    parser = make_parser("ab", "schedperf", is_untrusted=True)
    options = parser.parse_args(["-o", "again/", *words])
    job: dict[str, object] = {"name": name, "run": list(given.workload)}
    if options.point:
        job["points"] = {name: list(values) for name, values in options.point}
    given_ones = {word.partition("=")[0] for word in words}
    for dest in ("runs", "instrumented", "warmup"):
        value = getattr(options, dest)
        if value is not None and (dest == "runs" or f"--{dest}" in given_ones):
            job[dest] = value
    for dest, key in _LISTS.items():
        if f"--{key}" in given_ones:
            job[key] = getattr(options, dest)
    if options.metric:
        job["metric"] = list(_rules(options.metric))
    return job


def _rules(metrics: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for rule in metrics:
        yield f"{rule['name']}[{rule['unit']},{rule['better']}]={rule['regex']}"
