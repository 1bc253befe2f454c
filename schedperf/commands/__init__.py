# SPDX-License-Identifier: GPL-2.0-or-later
"""The subcommands: each public module defines one, named like the module, as ``command``.

::

    @click.command()
    @click.argument("path", type=click.Path(path_type=Path))
    def command(path: Path) -> int | None:
        \"\"\"Do one thing.\"\"\"

A command returns its exit status, None being 0, and raises
:class:`~schedperf.model.errors.SchedperfError` for what the user must fix. Modules
import nothing heavy at their top: ``schedperf --help`` imports all of them.
"""
