# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from a bundle what the database holds about it: a pure function of bundle and parsers."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from schedperf.compare.machine_class import environment_of, machine_class
from schedperf.inputs.bundle.open import Boot, Bundle, Run
from schedperf.inputs.side import name_sides
from schedperf.model.rows import digest_of
from schedperf.model.text import clean_line
from schedperf.runs.values import RunValues, read_run_values
from schedperf_collectors import __version__
from schedperf_collectors.contract import format_template

# Version of what parses the numbers.
PARSER = __version__
_PROGRAM_DIGITS = 12


class Result(Struct, frozen=True, order=True):
    """What was measured: the same on all machines of a class."""

    workload: str
    point: str
    metric: str
    unit: str
    better: str
    family: str


class Number(Struct, frozen=True):
    """A value of a run.

    :param result: index into :attr:`Reading.results`
    """

    result: int
    boot: int
    run: int
    value: float


class RunRow(Struct, frozen=True, kw_only=True):
    """A clean run.

    :param identity: SHA-256 of its run.json, which a copy in another bundle has, too
    :param status: "ok", "failed" or "discarded"
    """

    boot: int
    run: int
    identity: str
    workload: str
    point: str
    run_order: int
    round: int | None
    started: str | None
    status: str
    reason: str | None


class BootRow(Struct, frozen=True, kw_only=True):
    """A boot.

    :param environment: hash of the settings that may differ; None without host.json
    """

    boot: int
    boot_id: str | None
    kernel: str | None
    build_id: str | None
    environment: str | None
    emulated: bool | None


class Reading(Struct, frozen=True, kw_only=True):
    """What the database holds about a bundle.

    :param digest: of its data; equal for equal data
    :param side: name of its side in an ``ab`` recording; None if it was recorded alone
    :param facts: stated at the recording
    :param program: hash of the programs of the workload; None if not recorded. Of several
        workloads, JSON
    :param is_retest: whether a retest decided the number of boots
    :param problem: first thing that could not be read; None if there is none
    """

    digest: str
    label: str
    created: str | None
    complete: bool
    recorder: str | None
    imported: str | None
    side: str | None
    machine: str | None
    machine_class: str | None
    kernel: str | None
    tree: str | None
    ref: str | None
    commit_hash: str | None
    subject: str | None
    committed: str | None
    facts: Mapping[str, str]
    program: str | None
    is_retest: bool
    problem: str | None
    boots: tuple[BootRow, ...]
    runs: tuple[RunRow, ...]
    results: tuple[Result, ...]
    numbers: tuple[Number, ...]


def read_rows(bundle: Bundle) -> Reading:
    """Return what the database holds about a bundle.

    :raises InputError: a member is damaged
    """
    source = bundle.source
    values = read_run_values(name_sides([bundle]))
    results, numbers = _numbers(values)
    return Reading(
        digest=bundle.digest,
        label=_stored(bundle.label),
        created=bundle.created,
        complete=bundle.complete,
        recorder=None if bundle.imported else bundle.tool_version,
        imported=bundle.imported.format if bundle.imported else None,
        side=next((run.side for run in bundle.runs if run.side is not None), None),
        machine=bundle.machine,
        machine_class=machine_class(bundle, bundle.treatment, ()),
        kernel=bundle.boots[0].host.kernel.release if bundle.boots else None,
        tree=source.tree if source else None,
        ref=source.ref if source else None,
        commit_hash=source.commit if source else None,
        subject=source.subject if source else None,
        committed=source.committed if source else None,
        facts=bundle.facts,
        program=_program(bundle),
        is_retest=bundle.retest is not None,
        problem=_problem(values),
        boots=tuple(_boot(boot) for boot in bundle.boots),
        runs=tuple(_run(bundle, run) for run in bundle.runs_by_point if run.kind == "clean"),
        results=results,
        numbers=numbers,
    )


def _numbers(values: RunValues) -> tuple[tuple[Result, ...], tuple[Number, ...]]:
    indexes: dict[Result, int] = {}
    numbers = []
    for row in values.table.records():
        if row["kind"] != "clean" or row["status"] != "ok" or row["value"] is None:
            continue
        index = indexes.setdefault(_result(row), len(indexes))
        numbers.append(Number(index, row["boot"], row["run"], row["value"]))
    return tuple(indexes), tuple(numbers)


def _result(row: Mapping[str, Any]) -> Result:
    return Result(
        _stored(row["workload"]),
        _stored(row["point"]),
        _stored(row["metric"]),
        _stored(row["unit"]),
        row["better"],
        row["family"],
    )


def _boot(boot: Boot) -> BootRow:
    kernel = boot.host.kernel
    ids = (run.boot_id for run in boot.runs if run.boot_id is not None)
    return BootRow(
        boot=boot.number,
        boot_id=next(ids, None),
        kernel=kernel.release,
        build_id=kernel.build_id,
        environment=environment_of(boot.host_fields),
        emulated=boot.host.virtualisation.emulated,
    )


def identify(bundle: Bundle, run: Run) -> str:
    """Return the SHA-256 of a run's run.json, which a copy in another bundle has, too."""
    return bundle.sha256(f"{run.folder}/run.json")


def _run(bundle: Bundle, run: Run) -> RunRow:
    return RunRow(
        boot=run.boot,
        run=run.run,
        identity=identify(bundle, run),
        workload=_stored(run.workload),
        point=_stored(run.point_key),
        run_order=run.order,
        round=run.round,
        started=run.start,
        status="discarded" if run.discarded else "ok" if run.succeeded else "failed",
        reason=run.discarded or run.failure,
    )


def _program(bundle: Bundle) -> str | None:
    """Return the hash of the programs of all workloads.

    Of several workloads, return a JSON object with the hash of each, so that an update of one
    program does not end the baseline periods of the others; see :func:`program_of`.
    """
    hashes: dict[str, set[str]] = {}
    for entry in bundle.recordings:
        workload = entry.command[[*entry.command, "--"].index("--") + 1 :]
        own = hashes.setdefault(_stored(format_template(workload)), set())
        own |= {each.sha256 for each in entry.programs}
    digests = {
        name: digest_of(sorted(each))[:_PROGRAM_DIGITS] for name, each in hashes.items() if each
    }
    if len(hashes) > 1:
        return json.dumps(digests, sort_keys=True)
    return next(iter(digests.values()), None)


def program_of(stored: str | None, workload: str) -> str | None:
    """Return the hash of the programs of a workload; None if not recorded.

    :param stored: :attr:`Reading.program` of the bundle
    """
    if stored is None or not stored.startswith("{"):
        return stored
    digests: Mapping[str, str] = json.loads(stored)
    return digests.get(workload)


def _problem(values: RunValues) -> str | None:
    weak = [each.text for each in values.caveats if each.code in {"bad-lines", "no-number"}]
    return clean_line(weak[0]) if weak else None


def _stored(text: str) -> str:
    # PostgreSQL stores no NUL.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
