# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the steps until a night has its result: prepare, record, compare.

A step that is repeated after a kill skips finished work.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from schedperf.lab.night.context import Context, Failed, Result
from schedperf.lab.night.kernels import NEW, choose_kernels, is_fixed
from schedperf.lab.night.recording import record_kernels
from schedperf.lab.night.state import MainName, Night, NightError, StepName
from schedperf.lab.night.verdict import judge
from schedperf.publish.mail.site import LAB, read_site
from schedperf_collectors.machine.errors import explain

# Output prefix of the recording that a step makes.
RECORDINGS: Mapping[StepName, str] = {"record": "night"}
_NOT_COMPARABLE = 4
COMPARISON = "compare.json"


def prepare(context: Context) -> Result:
    """Check settings and machine, install today's kernel, and choose the kernels.

    The night has its result if the previous one has a result of the same kernels and benchmarks,
    unless it was started with ``--again``; so has the night of a machine that has no jobs.

    :raises InputError: the settings for mails are invalid
    :raises NightError: the machine does not answer or is not ready, the build failed, or there are
        no two kernels
    """
    lab, tree, night = context.lab, context.tree, context.night
    _link_settings(context)
    if context.writes_mails:
        read_site(lab.outbox)
    context.target.check_proof(context.machine.boot)
    if not context.jobs:
        text = "the machine has no jobs, so it only takes requests"
        return Result(text=text, outcome=text)
    _build(context)
    installed = [] if is_fixed(tree) else context.target.kernels()
    chosen = choose_kernels(tree, installed, _known(context))
    images = context.target.images([kernel.release for kernel in chosen])
    night.kernels = tuple(replace(each, image=images.get(each.release)) for each in chosen)
    night.programs = {job.name: context.target.hash_of(job.run[0]) for job in context.jobs}
    before = context.previous
    for job in context.jobs:
        if before is not None and before.programs.get(job.name) not in {
            None,
            night.programs[job.name],
        }:
            night.note(
                f"{job.run[0]} is another program than in the night {before.id}; results of "
                "earlier nights are not comparable"
            )
    text = ", ".join(f"{each.name} {each.release}" for each in night.kernels)
    if before is None or context.again or not _has_same_programs(night, before):
        return Result(text=text)
    outcome = (
        f"same kernels as in the night {before.id} ({text}), so nothing is recorded; to record "
        f"them again: schedperf night run --again {lab.path}"
    )
    return Result(text=text, outcome=outcome)


def record(context: Context) -> Result:
    """Boot the kernels alternately and record them; continue an unfinished recording.

    :raises NotNow: the machine may not be used now
    :raises NightError: the recording failed; :class:`Failed` if it cannot be continued
    """
    counted = record_kernels(
        context,
        "night",
        context.file("night"),
        kernels=context.night.kernels,
        jobs=context.jobs,
        options=["--boots", str(context.lab.plan.boots)],
    )
    context.check_programs()
    return Result(text=counted)


def compare(context: Context) -> Result:
    """Compare the bundles; this is the result of the night.

    :raises NightError: the comparison failed; :class:`Failed` if the bundles are not comparable
    :raises InputError: the JSON file of the comparison cannot be read, or is damaged
    """
    night = context.night
    bundles = [str(path) for each in night.kernels if (path := context.bundle(each.name)).exists()]
    path = context.file(COMPARISON)
    words = ["compare", *bundles, "--json", str(path), "--html", str(context.file("compare.html"))]
    status = context.commands.schedperf("compare", words)
    if status == _NOT_COMPARABLE:
        raise Failed(f"not comparable: {context.commands.last_error('compare')}")
    if status not in {0, 1}:
        raise NightError(context.commands.last_error("compare"))
    judged = judge(path, NEW)
    night.verdict, night.is_emulated = judged.verdict, judged.is_emulated
    outcome = judged.text
    if judged.is_emulated and not context.lab.plan.act_on_emulated:
        outcome += "; nothing follows from it, because plan.act_on_emulated is not set"
    return Result(text=judged.text, outcome=outcome)


def _link_settings(context: Context) -> None:
    """Let ``schedperf mail`` find the settings of the lab in the outbox.

    :raises NightError: the link cannot be made
    """
    lab = context.lab
    if lab.mail is None:
        return
    link = lab.outbox / LAB
    try:
        lab.outbox.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() and link.readlink() != lab.path:
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(lab.path)
    except FileExistsError:
        # Another machine of the lab has made it.
        return
    except OSError as error:
        raise NightError(f"{link}: {explain(error)}; see the folder's mode") from error


def _build(context: Context) -> None:
    """Run the program that installs today's kernel.

    :raises NightError: it failed
    """
    tree, machine = context.tree, context.machine
    if tree.build is None:
        return
    variables = {
        "SCHEDPERF_TARGET": machine.reach.removeprefix("ssh:"),
        "SCHEDPERF_NIGHT": context.night.id,
        "SCHEDPERF_MACHINE": machine.name,
        "SCHEDPERF_TREE": tree.name or "",
        "SCHEDPERF_URL": tree.url or "",
        "SCHEDPERF_REFS": " ".join(tree.refs),
        "SCHEDPERF_REFERENCE": tree.reference or "",
        "SCHEDPERF_SOURCES": tree.sources or "",
        "SCHEDPERF_REPO": tree.repo or "",
    }
    status = context.commands.run(
        "build", tree.build, more=variables, look=context.check_space, limit_s=tree.build_limit
    )
    if status != 0:
        raise NightError(
            f"{tree.build[0]}: exit status {status} "
            f"({context.commands.last_error('build')}); see {context.commands.log('build')}"
        )


def _known(context: Context) -> set[str] | None:
    """Return the releases of the tree if the machine may have kernels of others; None if not."""
    if len(context.lab.trees_of(context.machine)) == 1 or context.tree.sources is None:
        return None
    return {path.stem for path in Path(context.tree.sources).glob("*.json")}


def _has_same_programs(night: Night, before: Night) -> bool:
    """Return whether the previous night has a result of these kernels and these benchmarks.

    Kernels are the same if their names, releases and images are; an image that cannot be read is
    never the same.
    """
    return (
        not before.failed
        and night.programs == before.programs
        and night.kernels == before.kernels
        and all(kernel.image is not None for kernel in night.kernels)
    )


Step = Callable[[Context], Result]
MAIN_STEPS: Mapping[MainName, Step] = {"prepare": prepare, "record": record, "compare": compare}
