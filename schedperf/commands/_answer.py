# SPDX-License-Identifier: GPL-2.0-or-later
"""An answer to a question of a recorder."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.model.text import clean_line


class Answer(Struct, frozen=True, kw_only=True):
    """An answer, as :mod:`schedperf_collectors.recorder.analysis` names it.

    :param kind: continue, stop, lost or refuse
    :param text: for the user; "" if there is nothing to say
    :param more: further members of the JSON object
    """

    kind: str
    text: str
    warnings: Sequence[str] = ()
    more: Mapping[str, object] = {}

    def to_json(self) -> Mapping[str, object]:
        """Return the JSON object that the recorder reads."""
        # Answers are printed on a terminal, and names in the bundle are untrusted.
        warnings = [*map(clean_line, self.warnings)]
        return {
            "answer": self.kind,
            "text": clean_line(self.text),
            "warnings": warnings,
            **self.more,
        }
