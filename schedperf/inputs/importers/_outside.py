# SPDX-License-Identifier: GPL-2.0-or-later
"""Guard against importers of other packages, which may raise or return anything."""

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from schedperf.inputs.importers.tree import Tree
from schedperf.model.errors import SchedperfError, describe
from schedperf_collectors.registry import Origin

if TYPE_CHECKING:
    from schedperf.inputs.importers import Imported, Importer


def guard_importer(importer: "Importer", origin: Origin) -> "Importer":
    """Wrap the importer of another package so that errors in its code name the package.

    Its :class:`SchedperfError` exceptions, which are about the imported files, are unchanged.

    :raises PluginError: its summary is not a text
    """
    summary: object = importer.summary
    if not isinstance(summary, str):
        raise origin.error(f"invalid summary {summary!r} (expected a text)")

    def read(tree: Tree) -> "Imported":
        try:
            imported: object = importer.read(tree)
        except SchedperfError:
            # An error in the results, which the user can fix.
            raise
        except Exception as error:  # noqa: BLE001 # whatever it raises
            raise origin.error(f"read fails ({describe(error)})") from None
        return _check(imported, origin)

    return replace(importer, read=read)


def _check(imported: object, origin: Origin) -> "Imported":
    from schedperf.inputs.importers import Imported  # noqa: PLC0415 # it imports this module

    if not isinstance(imported, Imported):
        raise origin.error(f"read returns {imported!r} (expected an Imported)")
    try:
        # Structs do not check the types of their fields.
        return msgspec.convert(msgspec.to_builtins(imported), Imported)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise origin.error(f"read returns an invalid Imported ({describe(error)})") from None
