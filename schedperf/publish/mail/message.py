# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Message`, a rendered mail and what the outbox knows about it."""

from typing import Annotated, Literal

from msgspec import Struct

from schedperf.publish.culprit.record import Check

Kind = Literal["report", "fixed", "again", "bisected", "digest"]


class Metadata(Struct, frozen=True, kw_only=True):
    """The data that is stored beside a mail from its draft on."""

    kind: Kind
    subject: str
    message_id: Annotated[str, "with angle brackets"]
    to: tuple[str, ...]
    cc: tuple[str, ...]
    public: Annotated[bool, "true if a recipient is a public list"]
    culprit: Annotated[str | None, "key of the culprit's record; null for a digest"]
    commit: Annotated[str | None, "first bad commit, 12 digits; null for a digest"]
    fingerprint: Annotated[
        str | None, "hash of the commit's subject and of the evidence; equal for the same report"
    ]
    rendered: Annotated[str, "when, ISO 8601"]
    checks: tuple[Check, ...]
    benchmark_class: Annotated[
        str | None, "micro, semi or application; null if unknown, or for a digest"
    ] = None
    is_range: Annotated[bool, "true if the first bad commit was unknown"] = False
    steps: Annotated[tuple[str, ...], "steps of the history that the record is about"] = ()
    reported: Annotated[
        str | None, "commit of the report that is answered: another one if that is about a range"
    ] = None

    @property
    def thread(self) -> str:
        """Return the key of the thread, which one reply can silence.

        It is the commit of the report that the mail answers, else its own commit, else its kind.
        """
        return self.reported or self.commit or self.kind

    @property
    def id(self) -> str:
        """Return the local part of the Message-ID, which names the files in the outbox."""
        return self.message_id.removeprefix("<").partition("@")[0]


class Message(Struct, frozen=True, kw_only=True):
    """A rendered mail; its bytes never change."""

    metadata: Metadata
    content: bytes
