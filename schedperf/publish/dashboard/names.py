# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the private names of a store: hosts and accounts, from its bundles, paths and decisions.

Host names are in the bundles only. Those of a machine are read from its first and last bundles,
since a lab has tens of thousands.
"""

import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Row, func, select

from schedperf.history.questions.history import History
from schedperf.history.store.decisions import PROGRAM
from schedperf.history.store.directory import Directory
from schedperf.history.store.tables import INPUT, STEP_CHANGE
from schedperf.inputs.bundle.json import parse_json
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.pages.host import private_values
from schedperf.publish.pages.private import PrivateStrings
from schedperf_collectors.redaction.private import name_users

_HOST = re.compile(r"\Aboots/[0-9]+/host\.json\Z")
_LARGEST_HOST = 4 << 20
# It is among the first members; those before it are small.
_MOST_MEMBERS = 64
# Bundles of a class whose machines have no names may be of many machines.
_MOST_UNNAMED = 30
# In paths of recordings, this directory is followed by the name of an account.
_PERSON = re.compile(r"[\w.@-]{3,60}")


def find_private(
    history: History, directory: Directory | None, public: Collection[str]
) -> PrivateStrings:
    """Return the private strings of a store.

    :param directory: of the store; None if only its database is known
    :param public: names that are not private
    :raises InputError: a machine has no bundle in the store, so that its host name is unknown
    """
    with history.database.transaction() as connection:
        paths = [*connection.execute(select(INPUT.c.path).distinct()).scalars()]
        people = [*connection.execute(select(STEP_CHANGE.c.decided_by).distinct()).scalars()]
        counted = func.count().over(partition_by=(INPUT.c.machine, INPUT.c.machine_class))
        rows = connection.execute(
            select(INPUT.c.machine, INPUT.c.machine_class, INPUT.c.sha256, INPUT.c.kept, counted)
            .where(INPUT.c.kind == "bundle", INPUT.c.machine_class.is_not(None))
            .order_by(INPUT.c.id)
        ).all()
    names = {user for path in paths for user in name_users(path)}
    names |= {each for each in people if each != PROGRAM and _PERSON.fullmatch(each)}
    return PrivateStrings(names | {*_host_names(rows, directory)}, public=public)


def _host_names(rows: Iterable[Row[Any]], directory: Directory | None) -> Iterator[str]:
    by_machine: dict[tuple[str | None, str], list[str]] = {}
    for row in rows:
        kept = by_machine.setdefault((row.machine, row.machine_class), [])
        if row.kept:
            kept.append(row.sha256)
    for (name, machine_class), kept in by_machine.items():
        if directory is None or not kept:
            raise InputError(
                f"machine {clean_line(name or machine_class)}: no bundle of it in the store "
                "(expected one, which has the host name to leave out); add bundles without "
                "--no-keep and name the directory of the store, or publish with --private"
            )
        chosen = kept[-_MOST_UNNAMED:] if name is None else dict.fromkeys((kept[0], kept[-1]))
        for sha256 in chosen:
            yield from private_values(_read_host(directory.objects.path(sha256, "bundle")))


def _read_host(path: Path) -> Mapping[str, object]:
    """Return the host.json of the first boot of a bundle; {} if there is none.

    :raises InputError: the bundle cannot be read
    """
    try:
        with tarfile.open(path, "r|*") as archive:
            for number, member in enumerate(archive):
                if number >= _MOST_MEMBERS:
                    break
                if _HOST.match(member.name) and member.size <= _LARGEST_HOST:
                    content = archive.extractfile(member)
                    if content is not None:
                        value = parse_json(content.read(_LARGEST_HOST), f"{path}: {member.name}")
                        return value if isinstance(value, dict) else {}
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(
            f"{path}: cannot be read ({clean_line(str(error))}); check the store by `schedperf "
            "history check`"
        ) from None
    return {}
