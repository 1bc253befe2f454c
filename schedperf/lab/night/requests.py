# SPDX-License-Identifier: GPL-2.0-or-later
"""Carry out the requests of the store that a machine can do in its hours.

A request is taken with a lease that is renewed while it runs, so that another machine of the same
class takes it if this one dies. Its files are in ``requests/REQUEST/MACHINE`` of the directory of
the nights, where the work goes on.
"""

import re
import socket
import time
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.durations import Durations, read_durations
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.records import Series
from schedperf.history.retests import read_suspect
from schedperf.history.store.decisions import Requested, RequestEnd
from schedperf.history.store.directory import Directory, open_directory
from schedperf.history.store.requests import (
    LEASE_S,
    Queue,
    Request,
    end_request,
    ended_request,
    is_open_request,
    is_requested,
    open_requests,
)
from schedperf.history.store.tables import NIGHT, SERIES, STEP
from schedperf.history.store.writer import writing
from schedperf.lab.night.bisection import BISECTION, CannotSearch, search
from schedperf.lab.night.context import Context, Failed, NotNow, Result
from schedperf.lab.night.job import Job
from schedperf.lab.night.kernels import BASE, NEW, choose_older
from schedperf.lab.night.lab import Lab, Machine, Tree
from schedperf.lab.night.recording import Refused, free, read_boots, record_kernels
from schedperf.lab.night.retesting import Missing, choose_retest
from schedperf.lab.night.state import NightError, NightKernel
from schedperf.model.errors import InputError
from schedperf.model.rows import digest_of
from schedperf.model.text import clean_line, cut

REQUESTS = "requests"
RETEST = "retest"
RETEST_COMPARISON = "retest.json"
_CHAIN = "chain"
_RENEW_S = 60.0
_LONGEST_OWNER = 300
_LONGEST_REASON = 1000
_DIGITS = 12
# A search that has time for so many boots gets on.
_FEWEST_BOOTS = 8
_HOUR_S = 3600.0
_SUSPECTED = "suspected: "


class Task(Struct, frozen=True, kw_only=True):
    """A request that a machine can carry out.

    :param jobs: the job of its step; or all
    :param series: that of its step; None if it is for no step
    """

    request: Request
    tree: Tree
    jobs: tuple[Job, ...]
    series: Series | None


class Waits(Struct, frozen=True, kw_only=True):
    """Why a request is not carried out now.

    :param why: one line
    """

    request: Request
    why: str


def requests(context: Context) -> Result:
    """Carry out requests one after the other, as long as they fit the hours of the machine.

    :raises InputError: the store cannot be read or written
    :raises NightError: a runner lost its lease, or a command failed for a reason that may pass
    """
    directory = open_directory(context.lab.store)
    request_older(context, directory)
    _finish_retests(context)
    done: list[str] = []
    waiting: dict[str, str] = {}
    tried: set[str] = set()
    while True:
        for each in find_tasks(context.lab, context.machine, directory):
            name = f"{each.request.kind} {each.request.id}"
            if isinstance(each, Waits):
                waiting.setdefault(name, each.why)
            elif each.request.id not in tried:
                tried.add(each.request.id)
                text, has_ended = _Runner(context, directory, each).run()
                if has_ended:
                    done.append(f"{name}: {text}")
                    waiting.pop(name, None)
                    break
                waiting[name] = text
        else:
            break
        # What was reproduced needs the next request.
        watch(context)
    lines = [*done, *(f"{name} waits: {why}" for name, why in waiting.items())]
    return Result(text="; ".join(lines) or "no request for this machine")


def watch(context: Context, *options: str) -> str:
    """Watch all series of the store; return what is new since the night began, in words.

    :raises NightError: the command failed
    """
    store = str(context.lab.store)
    status = context.commands.schedperf("watch", ["history", "watch", "--store", store, *options])
    if status not in {0, 1}:
        raise NightError(context.commands.last_error("watch"))
    # A kill may have separated the watch from its step, so all of the log counts.
    log = context.commands.log("watch").read_text(errors="replace")
    new = sum(line.strip().startswith(_SUSPECTED) for line in log.splitlines())
    return f"{new} new; see {context.commands.log('watch')}" if new else "none new"


def folder_of(lab: Lab, request: str) -> Path:
    """Return the directory of a request, with one directory per machine that took it."""
    return lab.out / REQUESTS / request


def is_of_machine(request: Request, machine: Machine) -> bool:
    """Return whether a request is for a machine: by its name, or by its machine class."""
    return request.machine == machine.name or is_of_class(request.machine, machine)


def is_of_class(machine_class: str, machine: Machine) -> bool:
    """Return whether a machine belongs to a class, whose name may end with a hash."""
    name = re.escape(machine.recorded_name)
    return re.fullmatch(rf"{name}(-[0-9a-f]{{{_DIGITS}}})?", machine_class) is not None


def emulated_steps(history: History) -> set[str]:
    """Return the steps whose first night was measured under emulation.

    :raises InputError: the database cannot be read
    """
    query = (
        select(STEP.c.id)
        .join(SERIES, SERIES.c.id == STEP.c.series_id)
        .join(NIGHT, (NIGHT.c.series_id == SERIES.c.id) & (NIGHT.c.position == STEP.c.position))
        .where(NIGHT.c.emulated.is_(True))
    )
    with history.database.transaction() as connection:
        return set(connection.execute(query).scalars())


def tree_of(lab: Lab, series: Series) -> Tree | None:
    """Return the tree of a series; None if the lab has several, and none of them is meant."""
    if len(lab.trees) == 1:
        return lab.trees[0]
    names = {each.name: each for each in lab.trees} | {each.url: each for each in lab.trees}
    return names.get(series.tree) if series.tree else None


def find_tasks(lab: Lab, machine: Machine, directory: Directory) -> list[Task | Waits]:
    """Return the open requests for a machine, oldest first: to carry out now, or to wait.

    :raises InputError: the store cannot be read
    """
    with open_history(directory.folder) as history:
        durations = read_durations(history, machine.recorded_name)
        by_key = {each.key: each for each in history.series()}
        series = {each.id: by_key[each.series] for each in history.steps()}
        emulated = emulated_steps(history)
        waiting = open_requests(history.database)
    found: list[Task | Waits] = []
    for each in waiting:
        request = each.request
        if not is_of_machine(request, machine):
            continue
        task = _make_task(lab, machine, request, series.get(request.step_id or ""))
        why = None
        if each.owner is not None and each.owner != owner_of(lab, machine, request.id):
            why = "another runner has it"
        elif request.step_id in emulated and not lab.plan.act_on_emulated:
            why = "its results come from an emulator, and plan.act_on_emulated is not set"
        elif isinstance(task, Task):
            why = _why_no_time(machine, task, durations)
        found.append(task if why is None else Waits(request=request, why=why))
    return found


def _make_task(lab: Lab, machine: Machine, request: Request, series: Series | None) -> Task | Waits:
    """Return a request with its tree and its jobs, or why it waits."""
    if series is None:
        trees = [tree for tree in lab.trees_of(machine) if tree.older is not None]
        if request.kind != "night" or not trees:
            return Waits(request=request, why=f"the lab cannot carry out a {request.kind!r}")
        return Task(request=request, tree=trees[0], jobs=lab.jobs_of(machine), series=None)
    tree = tree_of(lab, series)
    if tree is None:
        return Waits(request=request, why=f"no tree of {lab.path} has the url {series.tree}")
    jobs = [job for job in lab.jobs if job.workload == series.workload]
    job = next((job for job in jobs if job.command_of(series.point) is not None), None)
    if job is None:
        what = clean_line(f"{series.workload} {series.point}".rstrip())
        return Waits(request=request, why=f"no job of {lab.path} records {what}")
    if request.kind in {"bisect", "revert"} and (tree.bisect is None or tree.repo is None):
        key = "repo" if tree.repo is None else "bisect"
        return Waits(request=request, why=f"tree.{key} is not set in {lab.path}")
    return Task(request=request, tree=tree, jobs=(job,), series=series)


def _why_no_time(machine: Machine, task: Task, durations: Durations) -> str | None:
    """Return why a request does not fit the hours that are left; None if it does."""
    now = datetime.now()  # noqa: DTZ005 # hours are local
    left_s = machine.seconds_left(now)
    if left_s is None:
        return None
    if left_s == 0.0:
        return f"outside the hours of {machine.name} ({machine.hours})"
    is_search = task.request.kind in {"bisect", "revert"}
    boots = _FEWEST_BOOTS if is_search else 2 * task.request.boots
    needed_s = durations.of_boots(boots, [job.workload for job in task.jobs])
    if needed_s is None or needed_s <= left_s:
        return None
    return (
        f"{boots} boots take about {needed_s / _HOUR_S:.1f} h, and {left_s / _HOUR_S:.1f} h of "
        f"{machine.hours} are left"
    )


def request_older(context: Context, directory: Directory) -> None:
    """Request the comparison with an older reference kernel, once per month, machine and tree.

    :raises InputError: the store cannot be read or written
    """
    reference = next((each for each in context.night.kernels if each.name == BASE), None)
    if context.tree.older is None or reference is None:
        return
    month = context.night.id[:7]
    identity = digest_of(["older", context.machine.name, context.tree.name, month])[:_DIGITS]
    if is_requested(directory.database(), identity):
        return
    try:
        installed = context.target.kernels()
    except NightError as error:
        context.night.note(str(error))
        return
    older = choose_older(context.tree, installed, reference.release)
    if older is None:
        context.night.note(
            f"tree.older: no installed kernel before {reference.release} fits {context.tree.older}"
        )
        return
    request = Requested(
        request=identity,
        kind="night",
        machine=context.machine.name,
        reference=older.release,
        new=reference.release,
        job=context.night.job,
        boots=context.lab.plan.boots,
        why=f"older reference kernel, once a month ({month})",
    )
    with writing(directory, context.night.note) as writer:
        writer.commit([(request, None)])


def owner_of(lab: Lab, machine: Machine, request: str) -> str:
    """Return the name of this runner, which is also that of its ``ab --retest``."""
    prefix = folder_of(lab, request) / machine.name / RETEST
    return cut(f"{socket.gethostname()}:{prefix}", _LONGEST_OWNER)


class _Runner:
    """Carries out one request."""

    def __init__(self, context: Context, directory: Directory, task: Task) -> None:
        self._context = context.of_tree(task.tree)
        self._directory = directory
        self._task = task
        self._request = task.request
        self._folder = folder_of(context.lab, task.request.id) / context.machine.name
        self._owner = owner_of(context.lab, context.machine, task.request.id)
        self._queue = Queue(directory.database())
        self._renewed_s = time.monotonic()

    def run(self) -> tuple[str, bool]:
        """Return what was found, or why it waits; and whether the request has ended."""
        if not self._queue.take_request(self._request.id, self._owner, LEASE_S):
            return "another runner has it, or it has ended", False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            match self._request.kind:
                case "retest":
                    return self._retest()
                case "night":
                    return self._compare_older()
                case _:
                    return self._search()
        except (NotNow, Missing) as error:
            return str(error), False
        except OSError as error:
            raise NightError(f"{self._folder}: {error}; see `df`") from error
        finally:
            self._queue.release(self._request.id, self._owner)

    def _retest(self) -> tuple[str, bool]:
        prefix = self._folder / RETEST
        step = str(self._request.step_id)
        boots = read_boots(prefix)
        if boots is None or not boots.is_over:
            try:
                suspect = read_suspect(self._directory, step)
            except InputError as error:
                # It was decided meanwhile, e.g. by a person.
                free(self._context, prefix)
                return self._end("cancelled", str(error))
            kernels = choose_retest(self._context, self._request, suspect)
            options = ["--retest", step, "--store", str(self._context.lab.store)]
            try:
                record_kernels(
                    self._context,
                    f"retest-{self._request.id}",
                    prefix,
                    kernels=kernels,
                    jobs=self._task.jobs,
                    options=options,
                    watch=self._renew,
                )
            except (Refused, Failed) as error:
                return self._end("failed", str(error))
        if is_open_request(self._directory.database(), self._request.id):
            return self._end("failed", "the recording ended without an outcome")
        finish_retest(self._context, self._folder)
        with open_history(self._directory.folder) as history:
            found = history.step_changes(step)[-1]
        return f"step {step} {found.state} ({found.reason})", True

    def _search(self) -> tuple[str, bool]:
        folder = self._folder
        step = str(self._request.step_id)
        if self._request.kind == "revert":
            # The search goes on there.
            before = ended_request(self._directory.database(), "bisect", step)
            made = folder_of(self._context.lab, before or "") / self._context.machine.name
            folder = made if before and (made / BISECTION).exists() else folder
        assert self._task.series is not None
        [job] = self._task.jobs
        try:
            text = search(
                self._context,
                self._directory,
                self._request,
                job=job,
                series=self._task.series,
                folder=folder,
                look=self._renew,
            )
        except CannotSearch as error:
            return self._end("failed", str(error))
        return self._end("done", text)

    def _compare_older(self) -> tuple[str, bool]:
        prefix = self._folder / _CHAIN
        kernels = (
            NightKernel(name=BASE, release=str(self._request.reference)),
            NightKernel(name=NEW, release=str(self._request.new)),
        )
        options = ["--boots", str(self._request.boots)]
        boots = read_boots(prefix)
        if boots is None or not boots.is_over:
            try:
                record_kernels(
                    self._context,
                    f"older-{self._request.id}",
                    prefix,
                    kernels=kernels,
                    jobs=self._task.jobs,
                    options=options,
                    watch=self._renew,
                )
            except (Refused, Failed) as error:
                return self._end("failed", str(error))
        store = ["--store", str(self._context.lab.store), "--chain"]
        bundles = [f"{prefix}-{name}.tar" for name in (BASE, NEW)]
        night = ["--night", self._context.night.id]
        self._context.run("history", ["history", "add", *store, *night, *bundles])
        return self._end("done", f"{self._request.reference} and {self._request.new} compared")

    def _end(self, state: RequestEnd, reason: str) -> tuple[str, bool]:
        text = clean_line(cut(reason, _LONGEST_REASON))
        boots = read_boots(self._folder / RETEST) or read_boots(self._folder / _CHAIN)
        end_request(
            self._directory,
            self._request.id,
            state,
            boots=0 if boots is None else boots.done // 2,
            reason=text,
            say=self._context.night.note,
        )
        return f"{state}: {text}", True

    def _renew(self) -> None:
        """Keep the lease while the request is carried out.

        :raises NotNow: another runner has it, because this one slept for too long
        """
        now_s = time.monotonic()
        # `ab` ends the request with its outcome.
        if now_s - self._renewed_s >= _RENEW_S and is_open_request(
            self._directory.database(), self._request.id
        ):
            try:
                self._queue.renew(self._request.id, self._owner, LEASE_S)
            except InputError as error:
                raise NotNow(str(error)) from error
            self._renewed_s = now_s


def _finish_retests(context: Context) -> None:
    """Finish retests whose request has ended, if a kill separated them.

    :raises NightError: a command failed
    """
    for bundle in sorted((context.lab.out / REQUESTS).glob(f"*/*/{RETEST}-{NEW}.tar")):
        boots = read_boots(bundle.with_name(RETEST))
        is_over = boots is not None and boots.is_over
        if bundle.parent.name == context.machine.name and is_over:
            finish_retest(context, bundle.parent)


def finish_retest(context: Context, folder: Path) -> None:
    """Add the bundles of a retest to the store, and compare them, once.

    :param folder: of a request and a machine
    :raises NightError: a command failed
    """
    path = folder / RETEST_COMPARISON
    if path.exists():
        return
    bundles = [str(folder / f"{RETEST}-{name}.tar") for name in (BASE, NEW)]
    context.run("history", ["history", "add", "--store", str(context.lab.store), *bundles])
    words = ["compare", *bundles, "--json", str(path)]
    if context.commands.schedperf("compare", words) not in {0, 1}:
        raise NightError(context.commands.last_error("compare"))
