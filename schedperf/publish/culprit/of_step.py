# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the record of a step: one record over all nights, the bisection and the fix.

The record begins with the range of commits that the first comparison shows. A later night makes
its kernel the newest one that was measured; a bisection replaces the range by the first bad commit.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.model.host import read_host
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_line
from schedperf.publish.culprit.build import Part, Roles, add_roles, check_same_setup, headline_of
from schedperf.publish.culprit.commits import Ends
from schedperf.publish.culprit.figures import name_benchmark
from schedperf.publish.culprit.record import (
    Culprit,
    Links,
    Retest,
    SeenStep,
    Tree,
)

_LONGEST_NAME = 100
# A private tree whose name is not recorded.
_PRIVATE = "private"


class Named(Struct, frozen=True, kw_only=True):
    """A first bad commit that a bisection names.

    :param parent: hash of the commit before it
    :param commit: its hash
    """

    parent: str
    commit: str


class StepRequest(Struct, frozen=True, kw_only=True):
    """What the record of a step is made from.

    :param steps: those with one place and one cause, the one that leads first
    :param parts: comparisons of nights, and of the first bad commit with its parent
    :param roles: the comparisons with a role; ``bisection`` is None
    :param named: None without a bisection
    :param known: the record so far; None for a new one
    :param known_main: its main comparison; None for a new one
    :param ends_of: returns the commits of a comparison
    :param is_private: whether nothing about the tree may be published
    """

    steps: tuple[SeenStep, ...]
    parts: Sequence[Part]
    roles: Roles
    named: Named | None
    known: Culprit | None
    known_main: Part | None
    ends_of: Callable[[Part], Ends]
    is_private: bool = False


def culprit_of_step(request: StepRequest) -> Culprit:
    """Return the record of a step, made new or updated.

    :raises InputError: a comparison does not show what its role requires, or no comparison measures
        the step
    """
    named = _find_named(request)
    known, retest = request.known, request.roles.retest
    is_known = known is not None and named is None and (retest is None or known.retest is not None)
    if known is not None and request.known_main is not None and is_known:
        main, begun = request.known_main, replace(known, steps=request.steps)
    else:
        main = named or retest or _first(request)
        begun = _begin(request, main, is_named=named is not None)
    _check_step(main, request.steps)
    tree = request.roles.tree or _tree(begun, main)
    if request.is_private:
        tree = replace(tree or Tree(name=_PRIVATE), private=True)
    roles = replace(request.roles, retest=None, tree=tree)
    if roles.tip is None:
        roles = replace(roles, tip=_newest(begun, main, request.parts))
    return add_roles(begun, main, roles)


def _find_named(request: StepRequest) -> Part | None:
    """Return the comparison of the commit that the bisection names with its parent.

    :return: None without a bisection, or without such a comparison
    """
    named = request.named
    if named is None:
        return None
    parts = (*request.parts, *filter(None, (request.roles.retest,)))
    return next((part for part in parts if shows(part, named)), None)


def shows(part: Part, named: Named) -> bool:
    """Return whether a comparison is of a commit and its parent."""
    return (_commit(part.base), _commit(part.new)) == (named.parent, named.commit)


def _first(request: StepRequest) -> Part:
    if not request.parts:
        raise InputError("no comparison (expected one that shows the regression); give it, too")
    return request.parts[0]


def _begin(request: StepRequest, main: Part, *, is_named: bool) -> Culprit:
    """Return a record with commits and main comparison; what a smaller range keeps is kept."""
    headline = headline_of(main)
    ends = request.ends_of(main)
    found = _found(request, main)
    known = request.known
    is_range = not is_named and ends.is_range is not False
    return Culprit(
        good=replace(ends.good, name=name_kernel(main.base)),
        bad=replace(ends.bad, name=name_kernel(main.new)),
        is_range=is_range,
        benchmark=known.benchmark if known else name_benchmark(headline.workload),
        tree=known.tree if known else None,
        merged=known.merged if known else None,
        main=main.measured,
        comparisons=tuple(dict.fromkeys(filter(None, (main.comparison.id, found)))),
        retest=None if found is None else Retest(result=main.measured, found=found),
        bisection=request.roles.bisection,
        regressed_on=known.regressed_on if known else (),
        no_change_on=known.no_change_on if known else (),
        steps=request.steps,
        links=replace(known.links, page=None) if known else Links(),
    )


def _found(request: StepRequest, main: Part) -> str | None:
    """Return the id of the comparison that showed the regression first; None if it is the main."""
    known = request.known
    ids = [known.retest.found if known.retest else known.main.comparison] if known else []
    ids += [part.comparison.id for part in request.parts]
    return next((each for each in ids if each != main.comparison.id), None)


def _check_step(main: Part, steps: Sequence[SeenStep]) -> None:
    """Reject a comparison that measures none of the steps.

    :raises InputError: it is rejected
    """
    seen = {(each.workload, each.point, each.metric) for each in steps}
    if not any((row.workload, row.point, row.metric) in seen for row in main.rows):
        first = steps[0]
        what = clean_line(f"{first.metric} {first.workload} {first.point}")
        raise InputError(
            f"{main.name}: no result of step {first.step} (expected {what[:100]}); give the "
            "comparison of that workload"
        )


def _newest(culprit: Culprit, main: Part, parts: Iterable[Part]) -> Part | None:
    """Return the latest comparison of another kernel with the same good one; None without one."""
    settled = {culprit.good.commit, culprit.bad.commit}
    fitting = [
        part
        for part in parts
        if part.comparison.id not in culprit.comparisons
        and _commit(part.base) == culprit.good.commit
        and _commit(part.new) not in {*settled, None}
        and _is_same_setup(part, main)
    ]
    return max(fitting, key=lambda part: part.new.created or "", default=None)


def _is_same_setup(part: Part, main: Part) -> bool:
    try:
        check_same_setup(part, main, headline_of(main))
    except InputError:
        return False
    return True


def _tree(culprit: Culprit, main: Part) -> Tree | None:
    """Return the tree of the record, or that which the new side records; None if it has none."""
    source = main.new.source
    if culprit.tree is not None or source is None or not source.ref:
        return culprit.tree
    return Tree(name=clean_line(source.ref), url=source.tree and clean_line(source.tree))


def name_kernel(side: SideSummary) -> str | None:
    """Return what people call a kernel: what git describes, or its release; None if unknown."""
    described = side.source.describe if side.source else None
    name = clean_line(described or read_host(side.host).kernel.release or "").strip()
    return name[:_LONGEST_NAME] or None


def _commit(side: SideSummary) -> str | None:
    return side.source.commit if side.source else None
