# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact a bundle: keep the clean (not instrumented) runs with their output, and host.json.

The redacted bundle has the results of the original, but no profile, symbols, counters or logs.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from schedperf.inputs.bundle.json import convert, parse_json
from schedperf.inputs.bundle.open import Bundle, Run, open_bundle
from schedperf.model.errors import InputError
from schedperf.model.sides import SideSummary
from schedperf.publish.pages.host import private_values
from schedperf.publish.pages.private import PrivateStrings
from schedperf_collectors.contract import MANIFEST
from schedperf_collectors.redaction.bundle import (
    OUTPUTS,
    Member,
    archive,
    host_member,
    run_member,
)
from schedperf_collectors.redaction.private import name_users


def find_bundle(side: SideSummary, beside: Path) -> Bundle:
    """Return the bundle of a side of a comparison.

    :param beside: the JSON file of the comparison, in whose directory the bundle must be
    :raises InputError: it is not found, cannot be opened, or has other data than were compared
    """
    # Paths from the comparison are never opened.
    found = beside.parent / Path(side.path).name
    if not found.is_file():
        raise InputError(
            f"{beside}: bundle {found.name} of side {side.name} not found (expected beside the "
            "JSON file); copy it there, or leave out --bundles"
        )
    bundle = open_bundle(found)
    if bundle.digest != side.digest:
        raise InputError(
            f"{found}: not the bundle of side {side.name} (other data than {beside} compared); "
            "replace it, or leave out --bundles"
        )
    return bundle


def redact_bundle(bundle: Bundle, known: PrivateStrings) -> bytes:
    """Return a bundle without private strings, as a tar archive.

    :param known: private strings of the comparison
    :raises InputError: the output or the parameters of a run contain a private string, or the
        bundle is imported or damaged
    """
    names = {name for boot in bundle.boots for name in private_values(boot.host_fields)}
    for member in (MANIFEST, *(f"{run.folder}/run.json" for run in _published_runs(bundle))):
        names |= name_users(bundle.read(member).decode(errors="replace"))
    private = known.with_names(names)
    return archive([*_members(bundle, private)], _record(bundle, MANIFEST), private)


def _members(bundle: Bundle, private: PrivateStrings) -> Iterator[Member]:
    for boot in bundle.boots:
        if boot.host_fields:
            yield host_member(boot.folder, boot.host_fields, private, Counter())
        for run in boot.runs:
            if run.imported is not None:
                raise InputError(
                    f"{bundle.path}: imported from {run.imported}, so it contains files of other "
                    "tools (expected a recorded bundle); leave out --bundles"
                )
            if run.kind == "clean":
                yield from _run_members(bundle, run, private)


def _published_runs(bundle: Bundle) -> Iterator[Run]:
    return (run for boot in bundle.boots for run in boot.runs if run.kind == "clean")


def _run_members(bundle: Bundle, run: Run, private: PrivateStrings) -> Iterator[Member]:
    outputs = [
        Member(name, "workload", _output(bundle, name, private))
        for name in (f"{run.folder}/{output}" for output in OUTPUTS)
        if bundle.size(name) is not None
    ]
    yield from outputs
    for text in (*run.point, *run.point.values()):
        if private.remove(text) != text:
            raise InputError(
                f"{bundle.path}: the parameters of {run.folder} contain a private string; leave "
                "out --bundles"
            )
    name = f"{run.folder}/run.json"
    yield run_member(name, _record(bundle, name), outputs, private)


def _output(bundle: Bundle, name: str, private: PrivateStrings) -> bytes:
    content = bundle.read(name)
    text = content.decode(errors="replace")
    if private.remove(text) != text:
        raise InputError(
            f"{bundle.path}: {name} contains a private string, an address or a path (expected only "
            "results); leave out --bundles"
        )
    return content


def _record(bundle: Bundle, name: str) -> dict[str, object]:
    return convert(parse_json(bundle.read(name), name), dict[str, object], name)
