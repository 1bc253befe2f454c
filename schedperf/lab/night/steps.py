# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the steps of a night; a step that is repeated after a kill skips finished work."""

import re
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.store import is_store
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.lab.night.job import JobFile, recording_options
from schedperf.lab.night.kernels import BASE, NEW, choose_kernels, is_fixed
from schedperf.lab.night.machine import Target
from schedperf.lab.night.process import Commands
from schedperf.lab.night.state import Night, NightError, NightKernel, StepName, Store
from schedperf.lab.night.verdict import Judged, judge
from schedperf.model.errors import InputError
from schedperf.publish.mail.site import CONFIGURATION, read_site

LEAST_FREE = 0.1
# Output prefix of the recording that each step makes.
RECORDINGS: Mapping[StepName, str] = {"record": "night", "retest": "retest"}
_LARGEST_BYTES = 16 << 20
_OVER = "over"
_LARGEST_SOURCE_BYTES = 1 << 20
_NOT_COMPARABLE = 4
_SUSPECTED = "suspected: "
_FAILED_CHECK = re.compile(r"  ([a-z-]+): ")


class NotNow(NightError):
    """The machine may not be used now, so the night waits."""

    exit_status = 1


class Failed(NightError):
    """Repeating the step would not help, so the night ends."""

    exit_status = 1


class Result(Struct, frozen=True, kw_only=True):
    """The result of a step.

    :param text: what the step found, one line
    :param outcome: how the night ends after this step; None if it continues
    """

    text: str
    outcome: str | None = None


class Boots(Struct, frozen=True, kw_only=True):
    """The progress of a recording of ``ab --kernel``.

    :param done: finished boots of all kernels
    :param total: planned boots of all kernels
    :param is_over: whether the recording has ended, with or without all boots
    """

    done: int
    total: int
    is_over: bool


class _Kernel(Struct, frozen=True):
    name: str


class _Recording(Struct, frozen=True):
    phase: str
    boots: int
    done: tuple[int, ...]
    kernels: tuple[_Kernel, ...]


class _Source(Struct, frozen=True):
    commit: str


class Context:
    """The data that all steps of a night share.

    :param previous: the previous night; None if this is the first
    :param again: record the kernels even if they are those of the previous night
    """

    def __init__(
        self,
        job: JobFile,
        store: Store,
        night: Night,
        commands: Commands,
        previous: Night | None,
        *,
        again: bool,
    ) -> None:
        self.job = job
        self.store = store
        self.night = night
        self.commands = commands
        self.previous = previous
        self.again = again
        self.target = Target(job.machine.reach)

    def file(self, name: str) -> Path:
        """Return the path of a file of this night."""
        return self.store.path / name

    def bundle(self, recording: str, kernel: str) -> Path:
        """Return the path of a kernel's bundle of a recording.

        :param recording: output prefix of the recording: "night" or "retest"
        :param kernel: ``base``, ``new`` or ``yesterday``
        """
        return self.file(f"{recording}-{kernel}.tar")

    @property
    def outbox(self) -> Path:
        """Return the outbox, which may not exist yet."""
        return Path(self.job.site.outbox or self.job.out / "outbox")

    @property
    def writes_mails(self) -> bool:
        """Return whether the outbox has a ``mail.toml``."""
        return (self.outbox / CONFIGURATION).exists()

    def source(self, kernel: NightKernel) -> Path | None:
        """Return the file about a kernel's commit; None if there is no file."""
        if self.job.kernel.sources is None:
            return None
        path = Path(self.job.kernel.sources, f"{kernel.release}.json")
        return path if path.exists() else None

    def check_space(self) -> None:
        """Check the free space of the night's file system.

        :raises NightError: less than 10% is free
        """
        usage = shutil.disk_usage(self.store.path)
        if usage.free < LEAST_FREE * usage.total:
            raise NightError(
                f"{self.store.path}: {usage.free / usage.total:.0%} of the disk free (expected "
                f"{LEAST_FREE:.0%} or more); remove old nights"
            )

    def check_hours(self) -> None:
        """Check that the machine may be used now.

        :raises NotNow: the machine is outside its hours
        """
        machine = self.job.machine
        if not machine.may_be_used(datetime.now().time()):  # noqa: DTZ005 # hours are local
            raise NotNow(
                f"{machine.name}: outside its hours ({machine.hours}); run the night again in them"
            )

    def check_workload(self) -> None:
        """Check that the benchmark's program has not changed since the night began.

        :raises Failed: the program has changed
        :raises NightError: the program was removed from the machine, or the machine does not answer
        """
        program = self.job.job.run[0]
        if self.target.hash_of(program) != self.night.workload:
            raise Failed(
                f"{program}: the program changed on {self.job.machine.name} during the night; its "
                "runs cannot be compared; start a new night"
            )


def read_boots(prefix: Path) -> Boots | None:
    """Return the progress of the recording with this output prefix.

    :return: None if it has not begun, or its state cannot be read
    """
    path = Path(f"{prefix}.boots", "state.json")
    try:
        content = read_regular(path, _LARGEST_BYTES, "the state of a recording")
        recording = decode(content, _Recording, str(path))
    except InputError:
        return None
    return Boots(
        done=len(recording.done),
        total=recording.boots * len(recording.kernels),
        is_over=recording.phase == _OVER,
    )


def recording_of(context: Context, step: StepName) -> Path | None:
    """Return the output prefix of the recording that a step makes; None if it makes none."""
    name = RECORDINGS.get(step)
    return None if name is None else context.file(name)


def prepare(context: Context) -> Result:
    """Check settings and machine, install today's kernel, and choose the kernels.

    The night ends if the previous one has a result of the same kernels and benchmark, unless it was
    started with ``--again``.

    :raises InputError: mail.toml is invalid
    :raises NightError: the machine does not answer or is not ready, the build failed, or there are
        no two kernels
    """
    job, night = context.job, context.night
    if context.writes_mails:
        read_site(context.outbox)
    context.target.check_proof(job.machine.boot)
    if job.kernel.build is not None:
        variables = {
            "SCHEDPERF_TARGET": job.machine.reach.removeprefix("ssh:"),
            "SCHEDPERF_NIGHT": night.id,
        }
        status = context.commands.run(
            "build",
            job.kernel.build,
            more=variables,
            look=context.check_space,
            limit_s=job.kernel.build_limit,
        )
        if status != 0:
            raise NightError(
                f"{job.kernel.build[0]}: exit status {status} "
                f"({context.commands.last_error('build')}); see {context.commands.log('build')}"
            )
    installed = [] if is_fixed(job.kernel) else context.target.kernels()
    chosen = choose_kernels(job.kernel, installed)
    images = context.target.images([kernel.release for kernel in chosen])
    night.kernels = tuple(replace(each, image=images.get(each.release)) for each in chosen)
    night.workload = context.target.hash_of(job.job.run[0])
    before = context.previous
    if before is not None and before.workload not in {None, night.workload}:
        note = (
            f"{job.job.run[0]} is another program than in the night {before.id}; results of "
            "earlier nights are not comparable"
        )
        night.notes = (note,)
    text = ", ".join(f"{each.name} {each.release}" for each in night.kernels)
    if before is None or context.again or not _has_same_programs(night, before):
        return Result(text=text)
    outcome = (
        f"same kernels as in the night {before.id} ({text}), so nothing is recorded; to record "
        f"them again: schedperf night run --again {job.path}"
    )
    return Result(text=text, outcome=outcome)


def _has_same_programs(night: Night, before: Night) -> bool:
    """Return whether the previous night has a result of these kernels and this benchmark.

    Kernels are the same if their names, releases and images are; an image that cannot be read is
    never the same.
    """
    return (
        not before.failed
        and night.workload == before.workload
        and night.kernels == before.kernels
        and all(kernel.image is not None for kernel in night.kernels)
    )


def record(context: Context) -> Result:
    """Boot the kernels alternately and record them; continue an unfinished recording.

    :raises NotNow: the machine may not be used now
    :raises NightError: the recording failed; :class:`Failed` if it cannot be continued
    """
    return _record(context, "night", context.night.kernels, context.job.plan.boots)


def compare(context: Context) -> Result:
    """Compare the bundles; end the night unless there is a regression to retest.

    Under emulation, a regression is retested only if the job sets ``plan.act_on_emulated``.

    :raises NightError: the comparison failed; :class:`Failed` if the bundles are not comparable
    :raises InputError: the JSON file of the comparison cannot be read, or is damaged
    """
    judged = _compare(context, "night", "compare")
    context.night.verdict = judged.verdict
    if judged.is_regression and (not judged.is_emulated or context.job.plan.act_on_emulated):
        return Result(text=judged.text)
    outcome = judged.text
    if judged.is_emulated and not context.job.plan.act_on_emulated:
        outcome = f"{judged.text}; not retested, because plan.act_on_emulated is not set"
    return Result(text=judged.text, outcome=outcome)


def retest(context: Context) -> Result:
    """Record base and new again, on new boots.

    :raises NightError: as in :func:`record`; :class:`Failed` if the benchmark's program changed
    """
    context.check_workload()
    kernels = tuple(kernel for kernel in context.night.kernels if kernel.name in {BASE, NEW})
    return _record(context, "retest", kernels, context.job.plan.retest)


def confirm(context: Context) -> Result:
    """Compare the bundles of the retest; end the night if it does not reproduce the regression.

    :raises NightError: as in :func:`compare`
    :raises InputError: as in :func:`compare`
    """
    judged = _compare(context, "retest", "confirm")
    context.night.retest = judged.verdict
    outcome = None if judged.is_regression else f"not reproduced; retest: {judged.text}"
    return Result(text=judged.text, outcome=outcome)


def culprit(context: Context) -> Result:
    """Write the record about the commits from base to new, which are not bisected yet.

    The night ends if the commit of a kernel is unknown.

    :raises InputError: the file about a kernel's commit is damaged
    :raises NightError: the command failed
    """
    good, bad = (_commit(context, name) for name in (BASE, NEW))
    if good is None or bad is None:
        missing = BASE if good is None else NEW
        text = f"the commit of {missing} is not known, so nothing is published"
        return Result(text=text, outcome=f"regression, retested; {text}; set kernel.sources")
    path = context.file("culprit.json")
    # Files that a killed night left behind.
    path.unlink(missing_ok=True)
    _run(
        context,
        "culprit",
        [
            *("culprit", "new", str(path), "--good", good, "--bad", bad),
            *_repo(context),
            *("--retest", str(context.file("confirm.json"))),
            str(context.file("compare.json")),
        ],
    )
    return Result(text=f"{good[:12]}..{bad[:12]}")


def publish(context: Context) -> Result:
    """Write the pages of the record and its comparisons.

    :raises NightError: the command failed
    """
    pages = context.job.site.pages or str(context.job.out / "pages")
    options = [f"--public={name}" for name in context.job.site.public]
    base_url = read_site(context.outbox).site.base_url if context.writes_mails else None
    options += [] if base_url is None else ["--base-url", base_url]
    _run(context, "publish", ["publish", *options, str(context.file("culprit.json")), pages])
    return Result(text=pages)


def draft(context: Context) -> Result:
    """Draft the mail, which is held until a person approves it; end the night.

    Without a ``mail.toml`` in the outbox, no mail is drafted.

    :raises NightError: the command failed
    """
    outbox, culprit = str(context.outbox), str(context.file("culprit.json"))
    if not context.writes_mails:
        text = f"no mail, because {outbox}/{CONFIGURATION} is missing; see docs/mail.md"
        after = f"when it is there: schedperf mail draft --outbox {outbox} {culprit}"
        return Result(text=text, outcome=f"regression, retested; {text}; {after}")
    store = context.night.store
    has_store = store is not None and is_store(Path(store))
    options = ["--outbox", outbox, *(["--store", str(store)] if has_store else [])]
    options += _repo(context)
    _run(context, "draft", ["mail", "draft", culprit, *options])
    lines = context.commands.log("draft").read_text(errors="replace").splitlines()
    # The command prints each failed check on an indented line: "  boots: 2 boots ...".
    failed = {match[1]: None for line in lines if (match := _FAILED_CHECK.match(line))}
    held = f"mail held in {outbox} by: {', '.join(failed) or 'approval'}"
    return Result(text=held, outcome=f"regression, retested; {held}")


def history(context: Context) -> Result:
    """Add the night to its store, and watch all series; new steps are in ``watch.log``.

    :raises NightError: a command failed
    """
    store = ["--store", str(context.night.store)]
    _run(context, "history", ["history", "add", *store, str(context.store.path)])
    status = context.commands.schedperf("watch", ["history", "watch", *store])
    if status not in {0, 1}:
        raise NightError(context.commands.last_error("watch"))
    # A kill may have separated the watch from its step, so all of the log counts.
    log = context.commands.log("watch").read_text(errors="replace")
    new = sum(line.startswith(_SUSPECTED) for line in log.splitlines())
    found = f"{new} new; see {context.commands.log('watch')}" if new else "none new"
    return Result(text=f"steps: {found}")


Step = Callable[[Context], Result]
ALL: Mapping[StepName, Step] = {
    "prepare": prepare,
    "record": record,
    "compare": compare,
    "retest": retest,
    "confirm": confirm,
    "culprit": culprit,
    "publish": publish,
    "draft": draft,
    "history": history,
}


def _record(context: Context, name: str, kernels: tuple[NightKernel, ...], boots: int) -> Result:
    context.check_hours()
    prefix = context.file(name)
    if read_boots(prefix) is None:
        words = _ab(context, prefix, kernels, boots)
    else:
        words = ["ab", "continue", "-o", str(prefix)]
    stopped: list[str] = []

    def look() -> None:
        """Stop the recording when the permitted hours end or the disk is nearly full."""
        try:
            context.check_hours()
            context.check_space()
        except NightError as error:
            if not stopped and read_boots(prefix) is not None:
                stopped.append(str(error))
                context.commands.schedperf("stop", ["ab", "stop", "-o", str(prefix)])

    status = context.commands.schedperf(name, words, look, limit_s=None)
    made = read_boots(prefix)
    counted = "no boot" if made is None else f"{made.done} of {made.total} boots"
    if stopped:
        raise Failed(f"{stopped[0]} ({counted} recorded, in {context.store.path})")
    if status != 0:
        _judge_end(context, name, made, counted)
    context.check_workload()
    return Result(text=counted)


def _judge_end(context: Context, name: str, made: Boots | None, counted: str) -> None:
    """Note why a recording failed if all its boots are recorded nevertheless.

    :param counted: the number of recorded boots, in words
    :raises NightError: boots are missing; :class:`Failed` if the recording cannot continue
    """
    text = context.commands.last_error(name)
    if made is not None and made.is_over and made.done == made.total:
        context.night.notes = (*context.night.notes, f"{name}: {text}")
        return
    # A recording that is over does not go on.
    kind = Failed if made is not None and made.is_over else NightError
    raise kind(text if counted in text else f"{text} ({counted} recorded)")


def _ab(context: Context, prefix: Path, kernels: tuple[NightKernel, ...], boots: int) -> list[str]:
    """Return the command that records, with all options of the job."""
    machine, job = context.job.machine, context.job.job
    words = ["ab", "-o", str(prefix)]
    for kernel in kernels:
        words += ["--kernel", f"{kernel.name}={kernel.release}"]
        source = context.source(kernel)
        if source is not None:
            words += ["--source", f"{kernel.name}={source}"]
    words += ["--boots", str(boots), "--boot", machine.boot, "--on", machine.reach]
    optional = {
        "--machine": machine.name,
        "--boot-limit": machine.boot_limit,
        "--settle": machine.settle,
        "--power": machine.power,
        "--console": machine.console,
    }
    for option, value in optional.items():
        words += [] if value is None else [option, str(value)]
    return [*words, *recording_options(job), "--", *job.run]


def _compare(context: Context, recording: str, name: str) -> Judged:
    """Compare the existing bundles of a recording; write JSON and HTML beside them.

    :raises NightError: the command failed; :class:`Failed` if the bundles are not comparable
    :raises InputError: the JSON file of the comparison cannot be read, or is damaged
    """
    kernels = [kernel.name for kernel in context.night.kernels]
    bundles = [str(path) for each in kernels if (path := context.bundle(recording, each)).exists()]
    path = context.file(f"{name}.json")
    words = ["compare", *bundles, "--json", str(path), "--html", str(context.file(f"{name}.html"))]
    status = context.commands.schedperf(name, words)
    if status == _NOT_COMPARABLE:
        raise Failed(f"not comparable: {context.commands.last_error(name)}")
    if status not in {0, 1}:
        raise NightError(context.commands.last_error(name))
    return judge(path, NEW)


def _commit(context: Context, name: str) -> str | None:
    kernel = next(each for each in context.night.kernels if each.name == name)
    path = context.source(kernel)
    if path is None:
        return None
    content = read_regular(path, _LARGEST_SOURCE_BYTES, "the source of a kernel")
    return decode(content, _Source, str(path)).commit


def _repo(context: Context) -> tuple[str, ...]:
    repo = context.job.kernel.repo
    return () if repo is None else ("--repo", repo)


def _run(context: Context, name: str, words: list[str]) -> None:
    """Run a command of schedperf, and require that it succeeds.

    :raises NightError: the command failed
    """
    status = context.commands.schedperf(name, words)
    if status != 0:
        raise NightError(context.commands.last_error(name))
