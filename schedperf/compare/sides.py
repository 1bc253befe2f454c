# SPDX-License-Identifier: GPL-2.0-or-later
"""Summarise the sides of a comparison: what was recorded, where and how."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import asdict

from schedperf.compare.machine_class import machine_class
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.side import Side
from schedperf.model.sides import Comparability, GitSource, Program, Recording, SideSummary


def summarise(side: Side, sides: Sequence[Side], comparability: Comparability) -> SideSummary:
    """Return the summary of one side.

    :param sides: all sides of the comparison
    :param comparability: differences between the sides; intended ones do not change the machine
        class
    :raises BundleError: a member does not match its checksum
    """
    bundle = side.bundle
    treatment = [path for each in sides for path in each.bundle.treatment]
    runs = [run for run in bundle.runs if not run.warmup]
    kinds = [run.kind for run in runs if run.succeeded]
    return SideSummary(
        name=side.name,
        label=bundle.label,
        path=str(bundle.path),
        digest=bundle.digest,
        created=bundle.created,
        complete=bundle.complete,
        boots=len(bundle.boots),
        runs_clean=kinds.count("clean"),
        runs_instrumented=kinds.count("instrumented"),
        runs_failed=sum(run.failed for run in runs),
        runs_discarded=sum(run.discarded is not None for run in runs),
        host=bundle.host_fields,
        recorded_by=_recorder(bundle),
        source=None if bundle.source is None else GitSource(**asdict(bundle.source)),
        recordings=tuple(_recordings(bundle)),
        machine_class=machine_class(bundle, treatment, comparability.differences),
        imported=bundle.imported.format if bundle.imported else None,
    )


def _recordings(bundle: Bundle) -> Iterator[Recording]:
    tools = bundle.host_fields.get("tools")
    versions = tools if isinstance(tools, Mapping) else {}
    for entry in bundle.recordings:
        programs = (
            Program(name=each.name, version=_text(versions.get(each.name)), sha256=each.sha256)
            for each in entry.programs
        )
        yield Recording(command=entry.command, minutes=entry.minutes, programs=tuple(programs))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _recorder(bundle: Bundle) -> str | None:
    # An imported bundle has the version of the importer.
    is_known = bundle.tool_version is not None and bundle.imported is None
    return f"schedperf {bundle.tool_version}" if is_known else None
