"""The subcommands: each public module holds one, as ``command``, called like the module.

::

    @click.command()
    @click.argument("path", type=click.Path(path_type=Path))
    def command(path: Path) -> int | None:
        \"\"\"Do one thing.\"\"\"

A command returns its exit status, None being 0, and raises
:class:`~schedperf.model.errors.SchedperfError` for what the user must mend. Modules
import nothing heavy at their top: ``schedperf --help`` imports all of them.
"""
