# SPDX-License-Identifier: GPL-2.0-or-later
"""The subcommands: each public module defines one, named like the module, as ``command``.

::

    @click.command()
    @click.argument("path", type=click.Path(path_type=Path))
    def command(path: Path) -> int | None:
        \"\"\"Do one thing.\"\"\"

A command returns its exit status, None being 0, and raises
:class:`~schedperf.model.errors.SchedperfError` for what the user must fix. The docstring of its
module begins with its name and its summary, which ``schedperf --help`` prints without importing
it::

    \"\"\"``schedperf NAME``: do one thing.\"\"\"

Modules import nothing heavy at their top: ``schedperf NAME --help`` shall be fast.
"""

# The script of ``schedperf completion`` sets it to ask for completions.
COMPLETE = "_SCHEDPERF_COMPLETE"
