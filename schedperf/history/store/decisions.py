# SPDX-License-Identifier: GPL-2.0-or-later
"""Append decisions to the log of a store, and read them: what was added, requested and decided.

Each decision is a line of JSON, e.g.::

    {"at": "2026-11-30T08:00:00Z", "decided": {"decision": "serviced", "machine": "2x48", …}}
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.json import encode

from schedperf.history.states import StepState
from schedperf.inputs.bundle.durable import append_lines, explain
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.bundle.manifest import Digest, Facts
from schedperf.model.errors import BundleError, InputError

LOG = "decisions.jsonl"
_LONGEST_LINE = 4 << 20
# Enough to recognise which log a database was made from.
_TAIL_BYTES = 4096

Text = Annotated[str, Meta(max_length=4096)]
Night = Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,3})?\Z")]
Role = Literal["reference", "new", "yesterday"]
# "chain": the reference kernel and its successor, compared in one night.
Purpose = Literal["night", "retest", "chain"]
InputKind = Literal["bundle", "table"]
# Who decides if no person does.
PROGRAM = "schedperf"
Direction = Literal["worse", "better", "higher", "lower"]
RequestKind = Literal["night", "retest", "bisect", "revert", "fixed"]
RequestEnd = Literal["done", "failed", "cancelled"]


class Decision(Struct, frozen=True, kw_only=True, tag_field="decision"):
    """One thing that changed the history."""


class Added(Decision, frozen=True, kw_only=True, tag="added"):
    """A bundle or a table was added.

    :param digest: of its data: equal for equal data, whatever the compression
    :param sha256: of the file
    :param format: format that it was imported from: "mmtests"; None if it was not
    :param path: where it was
    :param kept: whether ``objects/`` has a copy
    :param night: night that the runs belong to; None for a table
    :param role: kernel of the runs; None for a table
    """

    kind: InputKind
    digest: Digest
    sha256: Digest
    bytes: Count
    format: Text | None = None
    path: Text
    kept: bool
    night: Night | None = None
    role: Role | None = None
    purpose: Purpose = "night"
    facts: Facts = field(default_factory=dict)


class NightEnded(Decision, frozen=True, kw_only=True, tag="night-ended"):
    """A night of ``schedperf night`` has ended, with a result or without.

    :param outcome: how it ended, one line
    :param failed: whether it has no result
    """

    machine: Text
    job: Text
    night: Night
    outcome: Text
    failed: bool
    verdict: Text | None = None
    retest: Text | None = None


class Serviced(Decision, frozen=True, kw_only=True, tag="serviced"):
    """A machine was serviced: results before and after a night are not comparable.

    :param machine: its class, or the name that the site gives it
    :param night: the first night after the service
    """

    machine: Text
    night: Night
    reason: Text


class StepChanged(Decision, frozen=True, kw_only=True, tag="step-changed"):
    """A step was found, or its state changed.

    :param step: identity of the step, which is one object over all nights
    :param series: key of its series
    :param position: the first night after the change, as ``night.position``
    :param change: of new / reference or of the value, as a fraction; None if unknown
    :param reason: why, one line
    :param numbers: what the decision is based on, by name
    :param by: who decided; "schedperf" for the watch
    """

    step: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z")]
    series: Text
    position: int
    night: Text
    direction: Direction
    state: StepState
    change: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: Text
    numbers: Mapping[str, float] = field(default_factory=dict)
    by: Text = PROGRAM


class Requested(Decision, frozen=True, kw_only=True, tag="requested"):
    """Runs are requested.

    :param request: identity
    :param machine: machine class or name that shall do it
    :param step: the step that they are for; None for another reason
    """

    request: Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    kind: RequestKind
    machine: Text
    reference: Text | None = None
    new: Text | None = None
    job: Text
    step: Text | None = None
    boots: Annotated[int, Meta(ge=1, le=10_000)]
    why: Text


class RequestEnded(Decision, frozen=True, kw_only=True, tag="request-ended"):
    """A request was carried out, failed or was cancelled."""

    request: Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    state: RequestEnd
    boots: Count
    reason: Text


AnyDecision = Added | NightEnded | Serviced | StepChanged | Requested | RequestEnded


class Line(Struct, frozen=True, kw_only=True):
    """A line of the log.

    :param at: when it was written, ISO 8601, UTC; clocks may jump, so nothing is ordered by it
    """

    at: Text
    decided: AnyDecision


class Logged(NamedTuple):
    """A line, and the offset of its end in the log, in bytes."""

    line: Line
    end: int


class Log:
    """The decisions of a store.

    :param folder: directory of the store
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def append(self, decisions: Sequence[AnyDecision]) -> int:
        """Append decisions, and sync them to disk; the caller has locked the store.

        :return: size of an incomplete last line that was removed, in bytes; 0 if there was none
        :raises InputError: the file cannot be written
        """
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines = [encode(Line(at=at, decided=each)) + b"\n" for each in decisions]
        try:
            return append_lines(self.path, b"".join(lines))
        except OSError as error:
            raise InputError(
                f"{self.path}: {explain(error)}; free space there, and repeat the command"
            ) from None

    def read(self, start: int = 0) -> Iterator[Logged]:
        """Yield the decisions from an offset; an incomplete last line is left out.

        :param start: end of a line, in bytes
        :raises InputError: the file cannot be read, or a line is damaged
        """
        end = start
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                while (line := file.readline(_LONGEST_LINE)).endswith(b"\n"):
                    end += len(line)
                    yield Logged(self._decode(line, end), end)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path}: {explain(error)}; check the file") from None
        if len(line) == _LONGEST_LINE:
            raise InputError(
                f"{self.path}: a line at byte {end} is longer than {_LONGEST_LINE} bytes; restore "
                "the file from a backup"
            )

    def mark(self, end: int) -> bytes:
        """Return the last bytes before an offset; shorter if the log is.

        :raises InputError: the file cannot be read
        """
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, end - _TAIL_BYTES))
                return file.read(min(end, _TAIL_BYTES))
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(f"{self.path}: {explain(error)}; check the file") from None

    def _decode(self, line: bytes, end: int) -> Line:
        where = f"{self.path}: the line that ends at byte {end}"
        try:
            return decode(line, Line, where)
        except BundleError as error:
            raise InputError(f"{error.problem}; restore the file from a backup") from None


def is_fact(key: str, value: str) -> bool:
    """Return whether a fact can be stored."""
    try:
        convert({key: value}, Facts)
    except ValidationError:
        return False
    return value.isprintable()
