# SPDX-License-Identifier: GPL-2.0-or-later
"""Open results of other tools wherever a command takes a bundle: ``mmtests:work/log/BASE``."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Self

from msgspec.structs import replace

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.importers import Imported, all_importers
from schedperf.inputs.importers.tree import Tree
from schedperf.inputs.importers.write import leave_out_invalid, write_bundle
from schedperf.model.errors import InputError
from schedperf.model.rows import Better
from schedperf_collectors.contract import temporary_prefix


def read_results(kind: str, path: Path) -> tuple[Imported, Tree]:
    """Read a directory or file in a format; return the results and the tree of files.

    :param kind: name of the format: "mmtests"
    :raises InputError: the format is unknown, or the results cannot be read
    :raises PluginError: an importer of another package cannot be used
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
    """Write results as a bundle; return its path and the imported results.

    :param kind: name of the format: "mmtests"
    :param better: directions by metric name; they take precedence over those that the format states
    :param label: name of the side; None for the one of the results
    :param force: replace an existing file
    :raises InputError: as :func:`read_results` and :func:`write_bundle`
    :raises OSError: as :func:`write_bundle`
    """
    imported, tree = read_results(kind, path)
    imported = replace(
        leave_out_invalid(imported),
        label=label or imported.label,
        better={**imported.better, **better},
    )
    return write_bundle(imported, tree, kind, output, force=force), imported


def split_format(path: Path) -> tuple[str, Path] | None:
    """Return format and path of ``FORMAT:PATH``; None for anything else.

    Return None also if there is a file whose name is the whole text.

    :raises InputError: the format is unknown but PATH exists, or no path follows the colon
    :raises PluginError: an importer of another package cannot be used
    """
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
        # Bundles are opened in threads, but importers are not thread-safe.
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def open(self, path: Path, *, salvage: bool = False) -> Bundle:
        """Open a bundle or ``FORMAT:PATH``.

        :param salvage: as in :func:`~schedperf.inputs.bundle.open.open_bundle`
        :raises InputError: the bundle or the results cannot be read
        :raises OSError: the temporary bundle of the results cannot be written
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
                self._folder = TemporaryDirectory(prefix=temporary_prefix())
            self._count += 1
            output = Path(self._folder.name) / f"{self._count}.tar"
            bundle = open_bundle(import_results(*found, output, better={})[0])
        # Reports print the argument as given by the user.
        bundle.path = path
        return bundle
