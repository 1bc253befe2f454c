"""What ``schedperf layout`` was asked for, and the kernels that it reads for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedperf import __version__
from schedperf.evidence.layout.analysis import KINDS, analyse_kernels
from schedperf.evidence.layout.maps import map_kernel
from schedperf.evidence.layout.model import Kernel, UnitKind
from schedperf.evidence.layout.sources import SCHEDULER_STRUCTS, load_kernel
from schedperf.model.errors import InputError
from schedperf_reports.standalone import Head, HeadSide

# Of the JSON: a comparison of two or more kernels, and the map of one.
COMPARISON_SCHEMA = "schedperf/layout/1"
MAP_SCHEMA = "schedperf/layout-map/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is to be looked at.

    :param structs: names of those to read
    :param whole: names of those that one kernel alone shows whole
    :param line_bytes: None: what the kernels say
    """

    paths: tuple[Path, ...]
    kinds: tuple[UnitKind, ...]
    structs: tuple[str, ...]
    whole: tuple[str, ...]
    hot: tuple[str, ...]
    line_bytes: int | None

    def analyse(self) -> dict[str, Any]:
        """Read the kernels and compare them; of one kernel return its map.

        :raises InputError: a source cannot be read, or has nothing of what is wanted
        """
        kernels = [load_kernel(path, structs=self.structs) for path in self.paths]
        labelled = _tell_apart(kernels, self.paths)
        asked: Mapping[str, Any] = {
            "line_bytes": self.line_bytes,
            "kinds": self.kinds,
            "hot": self.hot,
        }
        if len(kernels) == 1:
            found = map_kernel(labelled[0], whole=self.whole, **asked)
            return {"schema": MAP_SCHEMA, "tool_version": __version__, **found}
        found = analyse_kernels(labelled, **asked)
        return {"schema": COMPARISON_SCHEMA, "tool_version": __version__, **found}

    def head(self, data: Mapping[str, Any]) -> Head:
        """Return what stands above the page of a result."""
        sides = tuple(
            HeadSide(name=one["side"], label=one["label"], path=str(path))
            for one, path in zip(data["kernels"], self.paths, strict=True)
        )
        others = ", ".join(side.label for side in sides[1:])
        against = f"{others}, against {sides[0].label}" if others else sides[0].label
        return Head(
            title=f"cache lines: {against}",
            sides=sides,
            tool_version=data["tool_version"],
            schema=data["schema"],
        )


def make_request(
    paths: Sequence[Path],
    kinds: Sequence[UnitKind],
    structs: Sequence[str],
    hot: Sequence[str],
    line_bytes: int | None,
) -> Request:
    """Return what the options of the command ask for.

    :param kinds: of units; empty: all, and the scheduler's structs beside the named ones
    :param structs: as named
    :param hot: names, or several of them with commas between
    :raises InputError: ``hot`` has commas alone
    """
    names = tuple(name.strip() for text in hot for name in text.split(",") if name.strip())
    if hot and not names:
        raise InputError("--hot: has no name; name variables, and fields as rq.nr_running")
    return Request(
        paths=tuple(paths),
        kinds=tuple(kinds) or KINDS,
        structs=tuple(dict.fromkeys(structs if kinds else (*structs, *SCHEDULER_STRUCTS))),
        whole=tuple(structs),
        hot=names,
        line_bytes=line_bytes,
    )


def _tell_apart(kernels: Sequence[Kernel], paths: Sequence[Path]) -> list[Kernel]:
    # Two files called System.map are told apart by their folders.
    labels = [kernel.label for kernel in kernels]
    if len(set(labels)) == len(labels):
        return list(kernels)
    return [replace(kernel, label=str(path)) for kernel, path in zip(kernels, paths, strict=True)]
