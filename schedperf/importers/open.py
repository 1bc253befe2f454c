# SPDX-License-Identifier: GPL-2.0-or-later
"""Open results of other tools where commands take bundles: ``mmtests:work/log/BASE``."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Self

from msgspec.structs import replace

from schedperf.bundle.open import Bundle, open_bundle
from schedperf.importers import Imported, all_importers
from schedperf.importers._tree import Tree
from schedperf.importers.write import leave_out_invalid, write_bundle
from schedperf.model.comparison import Better
from schedperf.model.errors import InputError


def read_results(kind: str, path: Path) -> tuple[Imported, Tree]:
    """Read a directory or file in a format; return the tree, too.

    :raises InputError: the format is unknown, or the results cannot be read
    """
    importers = all_importers()
    if kind not in importers:
        raise _unknown_format(kind)
    tree = Tree(path)
    return importers[kind].read(tree), tree


def _unknown_format(kind: str) -> InputError:
    return InputError(
        f"unknown format {kind!r} (expected one of {', '.join(all_importers())}); see `schedperf "
        "import --help`"
    )


def import_results(
    kind: str,
    path: Path,
    output: Path,
    *,
    better: Mapping[str, Better],
    label: str | None = None,
    force: bool = False,
) -> tuple[Path, Imported]:
    """Write results as a bundle; return its path and what was read.

    :param better: directions of metrics, beside those that the format states
    :raises InputError: as :func:`read_results`, or the bundle cannot be written
    """
    imported, tree = read_results(kind, path)
    imported = replace(
        leave_out_invalid(imported),
        label=label or imported.label,
        better={**imported.better, **better},
    )
    return write_bundle(imported, tree, kind, output, force=force), imported


def split_format(path: Path) -> tuple[str, Path] | None:
    """Return the format and the path of ``FORMAT:PATH``; None if it is the path of a file."""
    kind, colon, rest = str(path).partition(":")
    if not colon or path.exists():
        return None
    if kind not in all_importers():
        if rest and Path(rest).exists():
            raise _unknown_format(kind)
        return None
    if not rest:
        raise InputError(f"{kind}: no path (expected FORMAT:PATH, e.g. mmtests:work/log/base)")
    return kind, Path(rest)


class Opener:
    """Opens bundles, and results of other tools as bundles.

    ::

        with Opener() as opener:
            bundle = opener.open(Path("mmtests:work/log/base"))

    Bundles are readable until the block ends, because imported ones are temporary files.
    """

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._count = 0
        # Bundles are opened in threads; importers are not made for them.
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def open(self, path: Path, *, salvage: bool = False) -> Bundle:
        """Open a bundle or ``FORMAT:PATH``.

        :param salvage: as of :func:`~schedperf.bundle.open.open_bundle`
        :raises InputError: it cannot be read
        """
        found = split_format(path)
        if found is None and path.is_dir():
            raise InputError(
                f"{path}: a directory (expected a bundle, e.g. base.tar); put the format before "
                f"results of other tools, e.g. mmtests:{path}"
            )
        if found is None:
            return open_bundle(path, salvage=salvage)
        with self._lock:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="schedperf-import-")
            self._count += 1
            output = Path(self._folder.name) / f"{self._count}.tar"
            bundle = open_bundle(import_results(*found, output, better={})[0])
        # Reports print what the user gave.
        bundle.path = path
        return bundle
