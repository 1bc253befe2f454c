# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact the texts of a history before pages are drawn from them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from markupsafe import Markup, escape
from msgspec import Struct

from schedperf.publish.pages.private import PrivateStrings
from schedperf_collectors.redaction.private import REPLACEMENT
from schedperf_reports.words.clean import clean

Record = TypeVar("Record", bound=Struct)

# Digests, which name nothing.
_DIGESTS = {"key", "step_id"}
_LONGEST = 2000


class Shown:
    """The texts of a store as pages show them.

    :param private: the private strings; None if nothing is private
    :ivar left_out: the texts in which something was replaced
    """

    def __init__(self, private: PrivateStrings | None) -> None:
        self._private = private
        self._texts: dict[str, str] = {}
        self._html: dict[str, Markup] = {}
        self.left_out: set[str] = set()

    @property
    def is_private(self) -> bool:
        """Return whether everything is shown, for the lab's own eyes."""
        return self._private is None

    def text(self, text: str) -> str:
        """Return one line without private strings and control characters."""
        shown = self._texts.get(text)
        if shown is None:
            shown = clean(text, limit=_LONGEST)
            if self._private is not None:
                removed = self._private.remove(shown)
                if removed != shown:
                    self.left_out.add(text)
                shown = removed
            self._texts[text] = shown
        return shown

    def html(self, text: str) -> Markup:
        """Return a text without private strings, escaped."""
        shown = self._html.get(text)
        if shown is None:
            shown = self._html[text] = escape(self.text(text))
        return shown

    def person(self, name: str) -> str:
        """Return who decided: names of people are private."""
        return name if self._private is None else REPLACEMENT

    def record(self, record: Record) -> Record:
        """Return a record of the same type, all of whose texts are redacted."""
        fields = {
            name: getattr(record, name) if name in _DIGESTS else self._value(getattr(record, name))
            for name in record.__struct_fields__
        }
        return type(record)(**fields)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Struct):
            return self.record(value)
        if isinstance(value, Mapping):
            return {self._value(key): self._value(item) for key, item in value.items()}
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(self._value, value))
        return value
