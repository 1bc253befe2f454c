# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a job of a night: one benchmark, as the recorder takes it."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from schedperf.model.errors import InputError
from schedperf_collectors.contract import format_template, point_key
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.captures import choose
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders

Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")]
Word = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,4096}\Z")]
Runs = Annotated[int, Meta(ge=1, le=10_000)]

# Keys in the file that are not the names of the fields: "with" is a keyword of Python.
_KEYS = {"collectors": "with", "left_out": "without"}


class Job(Struct, frozen=True, kw_only=True, rename=_KEYS):
    """A benchmark.

    :param run: the command, one word per item, with placeholders for points: ``{groups}``
    :param points: values of each placeholder
    :param runs: clean runs per boot, kernel and point
    :param instrumented: further runs per boot, kernel and point with intrusive collectors
    :param warmup: warm-up runs per boot and point
    :param collectors: as for ``ab --with``; the key in the file is ``with``
    :param left_out: as for ``ab --without``; the key in the file is ``without``
    :param metric: rules that read numbers from the output, as for ``ab --metric``
    """

    name: Name
    run: Annotated[tuple[Word, ...], Meta(min_length=1)]
    points: dict[Name, tuple[Word | int | float, ...]] = {}
    runs: Runs = 2
    instrumented: Annotated[int, Meta(ge=0, le=10_000)] = 0
    warmup: Annotated[int, Meta(ge=0, le=10_000)] = 1
    collectors: tuple[Word, ...] = ("default",)
    left_out: tuple[Word, ...] = ()
    metric: tuple[Word, ...] = ()

    @property
    def workload(self) -> str:
        """Return the name that bundles give the workload: the command with its placeholders."""
        return format_template(self.run)

    def command_of(self, point: str) -> tuple[str, ...] | None:
        """Return the command of a point; None if the job has no such point.

        :param point: as bundles name it: ``fds=20,groups=4``
        """
        for values in product(*self.points.values()):
            named = {name: str(value) for name, value in zip(self.points, values, strict=True)}
            if point_key(named) == point:
                return tuple(_insert(word, named) for word in self.run)
        return None


def _insert(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def run_options(job: Job) -> list[str]:
    """Return the options of ``ab`` for a job, without those for points."""
    words = ["-n", str(job.runs), "--instrumented", str(job.instrumented)]
    words += ["--warmup", str(job.warmup), "--with", ",".join(job.collectors)]
    if job.left_out:
        words += ["--without", ",".join(job.left_out)]
    return [*words, *(f"--metric={rule}" for rule in job.metric)]


def recording_options(job: Job) -> list[str]:
    """Return the options of ``ab`` for a job: runs, collectors, metrics and points."""
    points = (f"--point={name}={','.join(map(str, job.points[name]))}" for name in job.points)
    return [*run_options(job), *points]


def jobs_file(jobs: Sequence[Job]) -> bytes:
    """Return the file of ``ab --jobs`` as JSON: the jobs in their order."""
    return json.dumps({"job": [to_builtins(job) for job in jobs]}).encode()


def check_job(job: Job, where: str) -> None:
    """Check that the recorder will not reject a job after the kernel was built.

    :param where: file and table, for messages
    :raises InputError: a value of a point has a comma, or the recorder rejects an option
    """
    for name, values in job.points.items():
        if joined := next((value for value in values if "," in str(value)), None):
            raise InputError(
                f"{where}.points.{name}: invalid value {joined!r} (expected no comma); edit the "
                "file"
            )
    try:
        options = make_parser("ab", "schedperf").parse_args(["-o", "x/", *recording_options(job)])
        choose(options.collectors, without=options.left_out)
        check_placeholders(job.run, [*job.points])
    except RecordError as error:
        raise InputError(f"{where}: {error}") from error
