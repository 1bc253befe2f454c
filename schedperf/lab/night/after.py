# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the steps after a night has its result, however it has ended.

From ``records`` on, they are of the whole lab: whichever machine's night ends does them, one after
the other. Each can be repeated: what is there already is not made again.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from msgspec import Struct

from schedperf.history.questions.causes import Cause, find_causes
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.records import Series, Step
from schedperf.history.states import StepState
from schedperf.history.store.decisions import RequestKind
from schedperf.history.store.requests import ended_request
from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.lab.night.bisection import BISECTION
from schedperf.lab.night.context import Context, Result
from schedperf.lab.night.lab import Tree
from schedperf.lab.night.requests import (
    RETEST_COMPARISON,
    emulated_steps,
    folder_of,
    is_of_class,
    requests,
    tree_of,
    watch,
)
from schedperf.lab.night.state import AfterName, NightError, find_nights
from schedperf.lab.night.steps import COMPARISON
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json
from schedperf.publish.mail.site import read_site
from schedperf_collectors.machine.errors import explain

STEPS = "steps"
_DIGESTS = "digests"
_CULPRIT = "culprit.json"
# Roles in a record, and the comparisons of a search beside that of the commit.
_TRIALS = {"tip": "tip", "revert": "revert", "forced-alignment": "alignment"}
_INPUTS = "inputs.json"
_TIP = "tip.json"
_DATE = 10
# What is published about a step begins with its retest.
_RECORDED: frozenset[StepState] = frozenset(
    ("reproduced", "range known", "first bad known", "reported", "answered", "fixed")
)
_LARGEST_BYTES = 256 << 20
_LARGEST_INPUTS = 1 << 16
_FAILED_CHECK = re.compile(r"  ([a-z-]+): ")
_HELD = re.compile(r".*\.eml: held; ")
_WEEK = timedelta(days=7)


class _Inputs(Struct, frozen=True, kw_only=True):
    """What a record was made from.

    :param state: of its step
    :param last: folder of the last night when the state changed, which has the newest kernel
    :param retest: digest of the comparison of the retest; None without one
    :param bisection: digest of the bisection; None without one
    """

    state: str
    last: str
    retest: str | None
    bisection: str | None


class _Recorded(Struct, frozen=True, kw_only=True):
    """A step that gets a record."""

    step: Step
    series: Series
    tree: Tree
    retest: Path | None
    bisection: Path | None


def history(context: Context) -> Result:
    """Add the night to the store, and watch all series; new steps are in ``watch.log``.

    What the comparison found is suspected in series that are too short for the watch.

    :raises NightError: a command failed
    """
    night, store = context.night, str(context.lab.store)
    context.run("history", ["history", "add", "--store", store, str(context.store.path)])
    path = context.file(COMPARISON)
    may_act = not night.is_emulated or context.lab.plan.act_on_emulated
    suspects = ["--suspect", str(path)] if path.exists() and may_act else []
    suspects += ["--act-on-emulated"] if suspects and night.is_emulated else []
    return Result(text=f"steps: {watch(context, *suspects)}")


def records(context: Context) -> Result:
    """Write the record of each step that was reproduced, when something is known that was not.

    :raises InputError: the store or a file cannot be read
    :raises NightError: a command failed, or a file cannot be written
    """
    with open_history(context.lab.store) as store:
        found = [*_find_recorded(context, store)]
    made = [
        f"step {each.step.id} ({each.step.state})"
        for each in found
        if _write_record(context.of_tree(each.tree), each)
    ]
    return Result(text=", ".join(made) or "none new")


def publish(context: Context) -> Result:
    """Write the pages of the lab: of all series, and of the steps that have a record.

    :raises NightError: the command failed
    """
    lab = context.lab
    options = [f"--public={name}" for name in lab.site.public]
    if lab.is_private:
        options = ["--private"]
    elif context.writes_mails and (base_url := read_site(lab.outbox).site.base_url):
        options += ["--base-url", base_url]
    words = ["publish", "--store", str(lab.store), "--update", *options]
    context.run("publish", [*words, *map(str, _records_of(context)), str(lab.pages)])
    return Result(text=str(lab.pages))


def draft(context: Context) -> Result:
    """Draft the mail of each record, which is held until a person approves it.

    :raises NightError: the command failed
    """
    outbox = str(context.lab.outbox)
    if context.lab.is_private:
        return Result(text="no mail, because the trees are private")
    if not context.writes_mails:
        return Result(text="no mail, because the lab has no table [mail]; see docs/mail.md")
    held = 0
    failed: dict[str, None] = {}
    for path in _records_of(context):
        log = f"draft-{path.parent.name}"
        options = ["--outbox", outbox, "--store", str(context.lab.store)]
        context.run(log, ["mail", "draft", str(path), *options, *_repo(context, path)])
        for line in context.commands.log(log).read_text(errors="replace").splitlines():
            held += _HELD.match(line) is not None
            # The command prints each failed check on an indented line: "  boots: 2 boots ...".
            if match := _FAILED_CHECK.match(line):
                failed[match[1]] = None
    if not held:
        return Result(text="none new")
    return Result(text=f"{held} held in {outbox} by: {', '.join(failed) or 'approval'}")


def digest(context: Context) -> Result:
    """Draft the digest of the last week, once.

    :raises NightError: the command failed, or a file cannot be written
    """
    lab = context.lab
    if lab.is_private or not context.writes_mails:
        return Result(text="none, because no mails are drafted")
    year, week, _ = (date.fromisoformat(context.night.id[:10]) - _WEEK).isocalendar()
    name = f"{year}-W{week:02}"
    marker = lab.out / _DIGESTS / name
    if marker.exists():
        return Result(text=f"{name} was drafted before")
    words = ["mail", "draft", "--digest", "--store", str(lab.store), "--week", name]
    context.run("digest", [*words, "--outbox", str(lab.outbox)])
    _write(marker, b"")
    return Result(text=f"{name} held in {lab.outbox}")


def _find_recorded(context: Context, store: History) -> Iterator[_Recorded]:
    """Yield the steps that get a record: one of each cause."""
    lab = context.lab
    series = {each.key: each for each in store.series()}
    emulated = set() if lab.plan.act_on_emulated else emulated_steps(store)
    chosen = {_choose(lab.out, cause) for cause in find_causes(store)}
    for step in store.steps():
        of_series = series[step.series]
        tree = tree_of(lab, of_series)
        if step.id not in chosen:
            continue
        if step.state not in _RECORDED or step.direction == "better" or step.id in emulated:
            continue
        if tree is None:
            continue
        yield _Recorded(
            step=step,
            series=of_series,
            tree=tree,
            retest=_result_of(context, store, "retest", step.id, RETEST_COMPARISON),
            bisection=_result_of(context, store, "bisect", step.id, BISECTION),
        )


def _choose(out: Path, cause: Cause) -> str | None:
    """Return the step of a cause whose record is kept; None if none of them has a result yet.

    A step that has a record keeps it.
    """
    ready = [
        each.id
        for each in cause.steps
        if each.state in _RECORDED and each.shown.step.direction != "better"
    ]
    recorded = [step for step in ready if (out / STEPS / step / _CULPRIT).exists()]
    return next(iter([*recorded, *ready]), None)


def _result_of(
    context: Context, store: History, kind: RequestKind, step: str, name: str
) -> Path | None:
    """Return the file of a request that was carried out for a step; None without one."""
    request = ended_request(store.database, kind, step)
    if request is None:
        return None
    return next(iter(sorted(folder_of(context.lab, request).glob(f"*/{name}"))), None)


def _write_record(context: Context, recorded: _Recorded) -> bool:
    """Write the record of a step, unless it was made from the same; return whether it was made.

    :param context: of the step's tree
    """
    folder = context.lab.out / STEPS / recorded.step.id
    made_from = _read_inputs(folder)
    nights = _nights_of(context, recorded)
    if not nights:
        context.night.note(f"step {recorded.step.id}: no night has a comparison, so no record")
        return False
    first, last = nights[0], nights[-1]
    if made_from is not None and made_from.state == recorded.step.state:
        last = context.lab.out / made_from.last
    inputs = _Inputs(
        state=recorded.step.state,
        last=str(last.relative_to(context.lab.out)),
        retest=_copy(recorded.retest, folder / RETEST_COMPARISON),
        bisection=_copy(recorded.bisection, folder / BISECTION),
    )
    if inputs == made_from:
        return False
    _copy(first / COMPARISON, folder / COMPARISON)
    words = ["culprit", "new", str(folder / _CULPRIT), "--store", str(context.lab.store)]
    words += ["--step", recorded.step.id]
    words += ["--retest", str(folder / RETEST_COMPARISON)] if inputs.retest else []
    words += ["--bisect", str(folder / BISECTION)] if inputs.bisection else []
    words += ["--repo", context.tree.repo] if context.tree.repo else []
    words += ["--private"] if context.tree.private else []
    if last != first:
        _copy(last / COMPARISON, folder / _TIP)
        words += ["--tip", str(folder / _TIP)]
    words += [str(folder / COMPARISON), *_of_commits(recorded.bisection)]
    context.run(f"record-{recorded.step.id}", words)
    _write(folder / _INPUTS, to_json(inputs).encode())
    return True


def _of_commits(bisection: Path | None) -> Iterator[str]:
    """Yield the words that give a record what a search has measured of the commits that it names.

    :param bisection: document of the search; None without one
    """
    found = sorted(bisection.parent.glob("*/culprits/*/compare.json")) if bisection else []
    yield from map(str, found)
    # Of several commits, the record is about one.
    for role, name in _TRIALS.items() if len(found) == 1 else ():
        if (path := found[0].with_name(f"{name}.json")).exists():
            yield from (f"--{role}", str(path))


def _nights_of(context: Context, recorded: _Recorded) -> list[Path]:
    """Return the folders of the nights since a step that have a comparison, oldest first.

    They are those of its machine class and its tree.
    """
    lab = context.lab
    found = [
        store.path
        for machine in lab.machines
        if is_of_class(recorded.series.machine_class, machine)
        for store in find_nights(lab.folder_of(machine))
        if store.path.name >= recorded.step.night[:_DATE]
        and (store.path / COMPARISON).exists()
        and store.read().tree == recorded.tree.name
    ]
    return sorted(found, key=lambda path: path.name)


def _read_inputs(folder: Path) -> _Inputs | None:
    path = folder / _INPUTS
    if not (path.exists() and (folder / _CULPRIT).exists()):
        return None
    try:
        return decode(read_regular(path, _LARGEST_INPUTS, "inputs of a record"), _Inputs, str(path))
    except InputError:
        # The record is made again.
        return None


def _copy(source: Path | None, target: Path) -> str | None:
    """Copy a file into the folder of a record; return its digest, None without one.

    :raises NightError: it cannot be written
    """
    if source is None:
        return None
    content = read_regular(source, _LARGEST_BYTES, "a result")
    if not (target.exists() and read_regular(target, _LARGEST_BYTES, "a result") == content):
        _write(target, content)
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except OSError as error:
        raise NightError(f"{path}: {explain(error)}; see `df` and the folder's mode") from error


def _records_of(context: Context) -> Sequence[Path]:
    """Return the records of all steps, in the order of their names."""
    return sorted((context.lab.out / STEPS).glob(f"*/{_CULPRIT}"))


def _repo(context: Context, record: Path) -> list[str]:
    """Return the option for the repository of a record's tree."""
    with open_history(context.lab.store) as store:
        step = store.step(record.parent.name)
        series = next(each for each in store.series() if each.key == step.series)
    tree = tree_of(context.lab, series)
    return [] if tree is None or tree.repo is None else ["--repo", tree.repo]


AFTER_STEPS: Mapping[AfterName, Callable[[Context], Result]] = {
    "history": history,
    "requests": requests,
    "records": records,
    "publish": publish,
    "draft": draft,
    "digest": digest,
}
# Steps of one machine, and those of the whole lab, in their order.
OWN: Sequence[AfterName] = ("history", "requests")
SHARED: Sequence[AfterName] = ("records", "publish", "draft", "digest")
