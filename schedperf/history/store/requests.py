# SPDX-License-Identifier: GPL-2.0-or-later
"""Request runs, and let any number of runners take the requests.

A request and its end are decisions. A runner takes a request with a lease; if it dies, the lease
ends, and another runner takes the request. Leases are the only rows that no decision makes.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, delete, insert, or_, select, update

from schedperf.history.store.database import Database
from schedperf.history.store.decisions import Requested, RequestEnd, RequestEnded, RequestKind
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.tables import LEASE, REQUEST
from schedperf.history.store.writer import writing
from schedperf.model.errors import InputError

# A lease that ends later was given by a clock that was set back since.
LONGEST_LEASE_S = 86_400.0
# For runners that renew their leases: a request of one that died is free after so long.
LEASE_S = 1800.0
OPEN = "open"


class Request(Struct, frozen=True, kw_only=True):
    """A request for runs.

    :param machine: machine class or name that shall do it
    :param boots: boots of each kernel
    :param step_id: the step that they are for; None for another reason
    """

    id: str
    kind: str
    machine: str
    reference: str | None
    new: str | None
    job: str
    step_id: str | None
    boots: int
    why: str
    state: str


def make_request(
    directory: Directory,
    kind: RequestKind,
    *,
    machine: str,
    job: str,
    boots: int,
    why: str,
    say: Say,
    reference: str | None = None,
    new: str | None = None,
    step: str | None = None,
) -> str:
    """Request runs; return the identity of the request.

    :raises InputError: the store cannot be written
    """
    request = Requested(
        request=secrets.token_hex(6),
        kind=kind,
        machine=machine,
        reference=reference,
        new=new,
        job=job,
        step=step,
        boots=boots,
        why=why,
    )
    with writing(directory, say) as writer:
        writer.commit([(request, None)])
    return request.request


def end_request(
    directory: Directory, request: str, state: RequestEnd, *, boots: int, reason: str, say: Say
) -> None:
    """Store how a request ended, and end its lease.

    :param boots: boots that were made of each kernel
    :raises InputError: the store cannot be written
    """
    ended = RequestEnded(request=request, state=state, boots=boots, reason=reason)
    with writing(directory, say) as writer:
        writer.commit([(ended, None)])


def find_open(database: Database, kind: RequestKind, step: str) -> str | None:
    """Return the identity of the oldest open request for a step; None if there is none.

    :raises InputError: the database cannot be read
    """
    query = (
        select(REQUEST.c.id)
        .where(REQUEST.c.kind == kind, REQUEST.c.step_id == step, REQUEST.c.state == OPEN)
        .order_by(REQUEST.c.number)
        .limit(1)
    )
    with database.transaction() as connection:
        return connection.execute(query).scalar()


class Waiting(Struct, frozen=True, kw_only=True):
    """An open request, and who has it.

    :param owner: name of the runner; None if no runner has it
    """

    request: Request
    owner: str | None


def open_requests(
    database: Database, clock: Callable[[], float] = time.time
) -> tuple[Waiting, ...]:
    """Return all open requests, oldest first.

    :raises InputError: the database cannot be read
    """
    query = (
        select(REQUEST, LEASE.c.owner, LEASE.c.until)
        .outerjoin(LEASE, LEASE.c.request_id == REQUEST.c.id)
        .where(REQUEST.c.state == OPEN)
        .order_by(REQUEST.c.number)
    )
    with database.transaction() as connection:
        rows = connection.execute(query).all()
    now = clock()
    return tuple(
        Waiting(
            request=_request_of(row),
            owner=row.owner if row.until and now < row.until <= now + LONGEST_LEASE_S else None,
        )
        for row in rows
    )


def ended_request(database: Database, kind: RequestKind, step: str) -> str | None:
    """Return the identity of the last request for a step that was carried out; None without one.

    :raises InputError: the database cannot be read
    """
    query = (
        select(REQUEST.c.id)
        .where(REQUEST.c.kind == kind, REQUEST.c.step_id == step, REQUEST.c.state == "done")
        .order_by(REQUEST.c.number.desc())
        .limit(1)
    )
    with database.transaction() as connection:
        return connection.execute(query).scalar()


def is_requested(database: Database, request: str) -> bool:
    """Return whether a request was made, whether or not it has ended.

    :raises InputError: the database cannot be read
    """
    with database.transaction() as connection:
        return (
            connection.execute(select(REQUEST.c.id).where(REQUEST.c.id == request)).first()
            is not None
        )


def is_open_request(database: Database, request: str) -> bool:
    """Return whether a request is there and has not ended.

    :raises InputError: the database cannot be read
    """
    query = select(REQUEST.c.state).where(REQUEST.c.id == request)
    with database.transaction() as connection:
        return connection.execute(query).scalar() == OPEN


def _request_of(row: Row[Any]) -> Request:
    return Request(**{name: getattr(row, name) for name in Request.__struct_fields__})


class Queue:
    """The open requests of a history, and their leases.

    :param database: opened for writing
    :param clock: returns the time in s since 1970
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def take(self, machine: str, owner: str, lease_s: float) -> Request | None:
        """Take the oldest open request for a machine that no runner has; None if there is none.

        :param owner: name of the runner
        :param lease_s: how long it is taken, at most a day
        :raises InputError: the database cannot be written
        """
        return self._take(REQUEST.c.machine == machine, owner, lease_s)

    def take_request(self, request: str, owner: str, lease_s: float) -> bool:
        """Take a request, or keep it for longer; return whether this runner has it.

        It is false if another runner has it, or if it has ended. The other arguments are those of
        :meth:`take`.

        :raises InputError: the database cannot be written
        """
        self.release(request, owner)
        return self._take(REQUEST.c.id == request, owner, lease_s) is not None

    def holds(self, request: str, owner: str) -> bool:
        """Return whether a runner has a request, and its lease has not ended.

        :raises InputError: the database cannot be read
        """
        query = select(LEASE.c.until).where(LEASE.c.request_id == request, LEASE.c.owner == owner)
        with self._database.transaction() as connection:
            until = connection.execute(query).scalar()
        return until is not None and self._clock() < until

    def _take(self, which: ColumnElement[bool], owner: str, lease_s: float) -> Request | None:
        now = self._clock()
        is_free = or_(
            LEASE.c.until.is_(None),
            LEASE.c.until <= now,
            LEASE.c.until > now + LONGEST_LEASE_S,
        )
        query = (
            select(REQUEST)
            .outerjoin(LEASE, LEASE.c.request_id == REQUEST.c.id)
            .where(REQUEST.c.state == OPEN, which, is_free)
            .order_by(REQUEST.c.number)
            .limit(1)
            .with_for_update(skip_locked=True, of=REQUEST)
        )
        with self._database.transaction() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            connection.execute(delete(LEASE).where(LEASE.c.request_id == row.id))
            until = now + min(lease_s, LONGEST_LEASE_S)
            connection.execute(insert(LEASE).values(request_id=row.id, owner=owner, until=until))
        return _request_of(row)

    def renew(self, request: str, owner: str, lease_s: float) -> None:
        """Take a request for longer.

        :raises InputError: another runner has it, or it has ended
        """
        until = self._clock() + min(lease_s, LONGEST_LEASE_S)
        with self._database.transaction() as connection:
            renewed = connection.execute(
                update(LEASE)
                .where(LEASE.c.request_id == request, LEASE.c.owner == owner)
                .values(until=until)
            )
        if not renewed.rowcount:
            raise InputError(
                f"request {request}: not taken by {owner} any more (its lease ended, or the "
                "request did); stop its runs"
            )

    def release(self, request: str, owner: str) -> None:
        """Give a request back, so that another runner takes it.

        :raises InputError: the database cannot be written
        """
        with self._database.transaction() as connection:
            connection.execute(
                delete(LEASE).where(LEASE.c.request_id == request, LEASE.c.owner == owner)
            )
