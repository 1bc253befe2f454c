# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history add|check|decide|rebuild|serviced|watch``: change and verify a store."""

from pathlib import Path

import click

from schedperf.commands._history_options import JSON, STORE_DIRECTORY, say
from schedperf.history.states import STATES, StepState
from schedperf.model.errors import InputError

_ADD_EPILOG = """\b
Examples:
  schedperf history add base.tar new.tar
  schedperf history add nights --fact rack=b12
  schedperf history add mmtests:work/log/6.12 --night 2026-11-30
"""
_FAILED = 2


@click.command(epilog=_ADD_EPILOG)
@STORE_DIRECTORY
@click.option("--no-keep", is_flag=True,
              help="Keep no copies; rebuild and check need the files where they are.")  # fmt: skip
@click.option("--night", metavar="DATE",
              help="Assign the runs to this night.  "
                   "[default: date of each recording, UTC]")  # fmt: skip
@click.option("--reference", "references", metavar="NAME", multiple=True,
              help="Take sides or bundles with this name as the reference kernel.  "
                   "[default: base of each ab recording]")  # fmt: skip
@click.option("--chain", "is_chain", is_flag=True,
              help="Take the runs as those of a chain night: the reference kernel (base) beside "
                   "the next one (new).")  # fmt: skip
@click.option("--fact", "facts", metavar="KEY=VALUE", multiple=True,
              help="Store a fact about what is added; it becomes a column of queries.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS",
              help="Read by the workers of this Dask scheduler, e.g. tcp://controller:8786.  "
                   "[default: processes of this machine]")  # fmt: skip
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def add(
    *,
    store: Path,
    no_keep: bool,
    night: str | None,
    references: tuple[str, ...],
    is_chain: bool,
    facts: tuple[str, ...],
    scheduler: str | None,
    paths: tuple[str, ...],
) -> int:
    """Add bundles, nights, tables, and results of other tools.

    PATH is a bundle, a directory of bundles, the nights of schedperf night, FORMAT:PATH as for
    compare, or a CSV file with the columns series, value, and time or order; or a URL of a bundle,
    or of a directory if it ends with a slash (s3, http, https). What the store has already is
    skipped. The store is created if there is none.

    Exit status: 2 if something could not be added.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.history.store.add import Options  # noqa: PLC0415
    from schedperf.history.store.add import add as add_to  # noqa: PLC0415
    from schedperf.history.store.directory import open_or_create  # noqa: PLC0415
    from schedperf.history.store.inputs import find_sources  # noqa: PLC0415

    options = Options(
        keep=not no_keep,
        night=_parse_night(night),
        references=references,
        is_chain=is_chain,
        facts=dict(map(_parse_fact, facts)),
        scheduler=scheduler,
    )
    found = find_sources(paths)
    directory, is_new = open_or_create(store)
    if is_new:
        say(f"created the store {store}")
    for note in found.notes:
        say(note)
    counts = add_to(directory, found, options, say)
    parts = [f"{counts.added} added", f"{counts.known} already in the store"]
    parts += [f"{counts.nights} outcomes of nights"] if counts.nights else []
    parts += [f"{counts.failed} not added"] if counts.failed else []
    click.echo(f"{store}: {', '.join(parts)}")
    return _FAILED if counts.failed else 0


@click.command()
@STORE_DIRECTORY
def rebuild(*, store: Path) -> None:
    """Make the database again from bundles and decisions.

    Until it is complete, questions are answered from the old database.
    """
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415 # as above
    from schedperf.history.store.writer import rebuild as make_again  # noqa: PLC0415

    number = make_again(open_directory(store), say)
    click.echo(f"{store}: made the database again from {number} decisions")


@click.command()
@STORE_DIRECTORY
def check(*, store: Path) -> int:
    """Verify the digests of all files, and the database row by row.

    Exit status: 1 if the store has a problem.
    """
    from schedperf.history.store.check import check as find_problems  # noqa: PLC0415 # as above
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415
    from schedperf.model.text import clean_line  # noqa: PLC0415

    is_intact = True
    for problem in find_problems(open_directory(store), say):
        is_intact = False
        click.echo(clean_line(problem))
    if is_intact:
        click.echo(f"{store}: no problem found")
    return 0 if is_intact else 1


@click.command()
@STORE_DIRECTORY
@click.option("--suspect", "suspects", metavar="FILE", multiple=True,
              type=click.Path(path_type=Path),
              help="Also suspect what the comparison of a night found (a file of compare --json), "
                   "in series of fewer than 30 nights, which the watch cannot judge.")  # fmt: skip
@click.option("--act-on-emulated", "acts_on_emulated", is_flag=True,
              help="With --suspect: also results from an emulator, which have no verdict, by their "
                   "CIs.")  # fmt: skip
@JSON
def watch(*, store: Path, suspects: tuple[Path, ...], acts_on_emulated: bool, as_json: bool) -> int:
    """Find lasting changes of all series, and request the runs that steps need.

    A suspected step needs a retest, a reproduced one a bisection, and one whose first bad commit is
    known its revert. A step that is still present in later nights is not printed again. A step that
    was reported, and about which nothing was decided for 90 days, becomes stale. Nothing is sent to
    anyone. Exit status: 1 if a step is new, else 0.
    """
    from schedperf.commands._outputs import dump_json  # noqa: PLC0415 # as above
    from schedperf.compare.json import MOST_BYTES, read_comparison  # noqa: PLC0415
    from schedperf.history.nightly import watch_store  # noqa: PLC0415
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415
    from schedperf.inputs.bundle.files import read_regular  # noqa: PLC0415

    comparisons = [
        read_comparison(read_regular(path, MOST_BYTES, "a comparison (compare --json)"), str(path))
        for path in suspects
    ]
    found = watch_store(open_directory(store), say, comparisons, acts_on_emulated=acts_on_emulated)
    if as_json:
        click.echo(dump_json(found), nl=False)
        return 1 if found.new else 0
    if found.new or found.stale:
        from schedperf.commands._history_text import describe_found  # noqa: PLC0415 # as above

        click.echo(describe_found(found), nl=False)
    if not found.new:
        click.echo(f"{store}: no new step")
    return 1 if found.new else 0


_REASON = click.option("--reason", metavar="WHY", required=True, help="State why, in one line.")


@click.command()
@STORE_DIRECTORY
@_REASON
@click.option("--by", metavar="NAME", default="a person", show_default=True,
              help="State who decides.")  # fmt: skip
@click.argument("step", metavar="STEP")
@click.argument("state", metavar="STATE", type=click.Choice(STATES))
def decide(*, store: Path, reason: str, by: str, step: str, state: StepState) -> None:
    """Change the state of a step, e.g. to accepted or invalid.

    STATE is one of suspected, not reproduced, reproduced, range known, first bad known, reported,
    answered, fixed, accepted, stale and invalid, and must be able to follow the one before.
    """
    from schedperf.history.decide import decide_step  # noqa: PLC0415 # as above
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415

    decide_step(open_directory(store), step, state, reason=reason, by=by, say=say)


@click.command()
@STORE_DIRECTORY
@_REASON
@click.option("--since", metavar="DATE", required=True,
              help="Name the first night after the service.")  # fmt: skip
@click.argument("machine", metavar="MACHINE")
def serviced(*, store: Path, reason: str, since: str, machine: str) -> None:
    """State that a machine was serviced: earlier and later nights are not compared.

    MACHINE is its class, or the name of record --machine.
    """
    from schedperf.history.decide import service_machine  # noqa: PLC0415 # as above
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415

    service_machine(open_directory(store), machine, since, reason=reason, say=say)


def _parse_night(text: str | None) -> str | None:
    from schedperf.history.store.nights import position_of  # noqa: PLC0415 # as above

    if text is not None:
        try:
            position_of(text)
        except ValueError:
            raise InputError(f"--night: invalid {text!r} (expected e.g. 2026-11-30)") from None
    return text


def _parse_fact(text: str) -> tuple[str, str]:
    from schedperf.history.store.decisions import is_fact  # noqa: PLC0415 # as above

    key, _, value = text.partition("=")
    if not is_fact(key, value):
        raise InputError(
            f"--fact: invalid {text!r} (expected KEY=VALUE, e.g. rack=b12; a key has small "
            "letters, digits and _)"
        )
    return key, value


COMMANDS = {
    "add": add,
    "check": check,
    "decide": decide,
    "rebuild": rebuild,
    "serviced": serviced,
    "watch": watch,
}
