# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and replace private strings by the rules of ``allowed.toml``."""

from collections.abc import Iterable, Mapping

from schedperf.publish.pages.allowed import read_allowed
from schedperf_collectors.redaction import private


class PrivateStrings(private.PrivateStrings):
    """The private strings of one record; ``allowed.toml`` lists what is public."""

    def __init__(
        self,
        names: Iterable[str],
        paths: Mapping[str, str] | None = None,
        public: Iterable[str] = (),
    ) -> None:
        super().__init__(names, read_allowed().rules, paths, public)

    def with_names(self, names: Iterable[str]) -> "PrivateStrings":
        """Return private strings with further names and the same public names, without paths."""
        return PrivateStrings({*self.names, *names}, public=self._public)


def find_places(text: str) -> list[str]:
    """Return the addresses and paths of a text that must be replaced before publishing."""
    return private.find_places(text, read_allowed().rules)
