# SPDX-License-Identifier: GPL-2.0-or-later
"""Find what the arguments of ``history add`` name: bundles, nights, trees and tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from schedperf.history.store import is_store
from schedperf.history.store.decisions import InputKind, NightEnded, Purpose, Role, Text
from schedperf.history.store.decisions import Night as NightName
from schedperf.history.store.foreign import is_foreign
from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.inputs.importers.open import split_format
from schedperf.inputs.many.urls import list_names, local_path, redact
from schedperf.model.errors import InputError

# `.partial` and other files beside bundles are none.
_BUNDLE = re.compile(r"\.tar(\.(gz|xz|zst))?$")
_HEAD_BYTES = 4096
_STATE = "state.json"
_LARGEST_STATE_BYTES = 1 << 20
# Bundles of a night, by the prefix of their names.
_PURPOSES: Mapping[str, Purpose] = {"night": "night", "retest": "retest", "chain": "chain"}
_ROLES: Mapping[str, Role] = {"base": "reference", "new": "new", "yesterday": "yesterday"}


class Source(Struct, frozen=True, kw_only=True):
    """One file or tree to add.

    :param name: path of a file, FORMAT:PATH, or URL without its secrets
    :param url: the whole URL; None for a path
    :param format: name of the importer; None for a file
    :param night: night that its folder names; None to take it from the recording
    :param role: kernel that its name states; None to take it from the recording
    """

    name: str
    kind: InputKind
    url: str | None = None
    format: str | None = None
    night: str | None = None
    role: Role | None = None
    purpose: Purpose = "night"


class Found(Struct, frozen=True, kw_only=True):
    """What the arguments name.

    :param nights: the nights of ``schedperf night`` that have ended
    :param notes: what is left out, one line each
    """

    sources: tuple[Source, ...]
    nights: tuple[NightEnded, ...]
    notes: tuple[str, ...]


class _NightState(Struct, frozen=True, kw_only=True):
    """The file ``state.json`` of a night."""

    schema: Literal["schedperf/night/1"]
    id: NightName
    machine: Text
    job: Text
    outcome: Text | None = None
    failed: bool = False
    verdict: Text | None = None
    retest: Text | None = None


def find_sources(names: Sequence[str | Path]) -> Found:
    """Return the files, trees and nights that paths and URLs name.

    :raises InputError: a path does not exist, or is a directory without bundles; or a URL is
        invalid, or a directory that cannot be listed
    """
    sources: list[Source] = []
    nights: list[NightEnded] = []
    notes: list[str] = []
    for name in names:
        path = local_path(str(name))
        if path is None:
            sources += _of_url(str(name))
        elif tree := split_format(path):
            whole = f"{tree[0]}:{tree[1].absolute()}"
            sources.append(Source(name=whole, kind="bundle", format=tree[0]))
        elif not path.is_dir():
            sources.append(_file(path.absolute()))
        else:
            for found in _in_folder(path.absolute()):
                sources += found.sources
                nights += found.nights
                notes += found.notes
    return Found(sources=tuple(sources), nights=tuple(nights), notes=tuple(notes))


def _file(path: Path) -> Source:
    is_table = is_foreign(read_head(path, _HEAD_BYTES))
    return Source(name=str(path), kind="table" if is_table else "bundle")


def _of_url(url: str) -> Iterator[Source]:
    """Yield the file of a URL; the bundles of a directory if it ends with a slash.

    :raises InputError: the directory cannot be listed, or has no bundle
    """
    if not url.endswith("/"):
        kind: InputKind = "table" if url.endswith(".csv") else "bundle"
        yield Source(name=redact(url), url=url, kind=kind)
        return
    bundles = [each for each in list_names(url) if _BUNDLE.search(each)]
    if not bundles:
        raise InputError(f"{redact(url)}: no bundles (expected files named *.tar*)")
    for each in bundles:
        yield Source(name=redact(url + each), url=url + each, kind="bundle")


def _in_folder(folder: Path) -> Iterator[Found]:
    """Yield what a directory has.

    :raises InputError: it is a store, or has no bundle
    """
    if is_store(folder):
        raise InputError(
            f"{folder}: a store (expected bundles or nights); check the order of paths"
        )
    states = [path for path in (folder / _STATE, *folder.glob(f"[0-9]*/{_STATE}")) if path.exists()]
    if states:
        for path in sorted(states):
            yield _night(path)
        return
    bundles = sorted(path for path in folder.iterdir() if _BUNDLE.search(path.name))
    if not bundles:
        raise InputError(
            f"{folder}: no bundles and no nights (expected files named *.tar*, or folders with "
            f"{_STATE}); put the format before results of other tools, e.g. mmtests:{folder}"
        )
    yield Found(
        sources=tuple(Source(name=str(path), kind="bundle") for path in bundles),
        nights=(),
        notes=(),
    )


def _night(path: Path) -> Found:
    content = read_regular(path, _LARGEST_STATE_BYTES, "the state of a night")
    state = decode(content, _NightState, str(path))
    if state.outcome is None:
        note = f"{path.parent}: the night is unfinished; add it again when it has ended"
        return Found(sources=(), nights=(), notes=(note,))
    ended = NightEnded(
        machine=state.machine,
        job=state.job,
        night=state.id,
        outcome=state.outcome,
        failed=state.failed,
        verdict=state.verdict,
        retest=state.retest,
    )
    sources = [
        Source(
            name=str(bundle),
            kind="bundle",
            night=state.id,
            role=_ROLES[side],
            purpose=_PURPOSES[recording],
        )
        for bundle in sorted(path.parent.iterdir())
        if _BUNDLE.search(bundle.name)
        for recording, _, side in [bundle.name.partition(".")[0].partition("-")]
        if recording in _PURPOSES and side in _ROLES
    ]
    return Found(sources=tuple(sources), nights=(ended,), notes=())
