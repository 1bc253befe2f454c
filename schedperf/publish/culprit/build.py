# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the record about a first bad commit from comparisons, each checked against its role.

docs/culprit.md lists the roles, e.g. retest, fix and A/A, and the kernels of each. A side is
rejected if its recording names another commit than its role requires.

The main comparison and the retest must show a regression. Comparisons of another machine, tree or
workload (``--also``) must show a regression, no change or an improvement, and bad may be a backport
of the commit there. All other comparisons may have any verdict, but must be of the machine and the
workload of the main comparison.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.base_new import FIRST_NEW
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.host import has_other_kernel, has_same_kernel, read_host
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_line
from schedperf.model.worse import is_worse
from schedperf.publish.culprit.commits import Ends
from schedperf.publish.culprit.figures import (
    boot_of,
    check_sides,
    name_benchmark,
    name_machine,
    results_of,
    show_both,
    side_of,
    worst_first,
)
from schedperf.publish.culprit.record import (
    COMMIT_DIGITS,
    Bisection,
    Commit,
    Culprit,
    Elsewhere,
    FeatureSwitch,
    Links,
    Measured,
    Retest,
    Revert,
    Tree,
)

# Next steps of a comparison that may lead to a regression verdict.
_DECIDING_STEPS = ("real-hardware", "record-benchmark", "more-runs", "more-boots")


class Part(Struct, frozen=True, kw_only=True):
    """A comparison in its role, such as the retest.

    :param name: option and file, for messages
    :param measured: the two sides of the comparison that are used
    """

    name: str
    comparison: Comparison
    measured: Measured

    @property
    def base(self) -> SideSummary:
        """Return the side that the new side is measured against."""
        return side_of(self.comparison, self.measured.before)

    @property
    def new(self) -> SideSummary:
        """Return the side that is measured."""
        return side_of(self.comparison, self.measured.side)

    @property
    def rows(self) -> list[Row]:
        """Return the rows of :func:`results_of`, the largest change for the worse first."""
        return worst_first(results_of(self.comparison, self.measured))

    def row_like(self, row: Row) -> Row | None:
        """Return the result of the same workload, point and metric; None if there is none."""
        return next((each for each in self.rows if each.key == row.key), None)


class Roles(Struct, frozen=True, kw_only=True):
    """The comparisons by their role, and facts that no comparison contains; None if not given.

    :param fixed_by: the commit that fixes the regression
    :param revert_impossible: why the commit cannot be reverted
    :param feature: name of the scheduler feature that ``feature_switch`` compares on bad
    :param elsewhere: comparisons of other machines, trees or workloads
    :param tree: the tree that ``tip`` is the newest kernel of
    :param merged: whether the commit is in that tree; None if unknown
    :param links: Message-IDs of the posted patch and of the first mail; ``page`` is ignored
    """

    retest: Part | None = None
    tip: Part | None = None
    fix: Part | None = None
    fixed_by: Commit | None = None
    revert: Part | None = None
    revert_impossible: str | None = None
    feature: str | None = None
    feature_switch: Part | None = None
    forced_alignment: Part | None = None
    a_a: Part | None = None
    bisection: Bisection | None = None
    elsewhere: tuple[Part, ...] = ()
    tree: Tree | None = None
    merged: bool | None = None
    links: Links = Links()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return all comparisons that were given."""
        alone = (
            self.retest,
            self.tip,
            self.fix,
            self.revert,
            self.feature_switch,
            self.forced_alignment,
            self.a_a,
        )
        return (*(part for part in alone if part is not None), *self.elsewhere)


def part_of(name: str, comparison: Comparison, side: str | None = None) -> Part:
    """Return a comparison in a role, with one new side against base.

    :param name: option and file, for messages
    :param side: name of the new side; None for the first one
    :raises InputError: it has no such side
    """
    measured = Measured(comparison=comparison.id, side=side or FIRST_NEW)
    check_sides(comparison, measured, name)
    return Part(name=name, comparison=comparison, measured=measured)


def step_of(name: str, comparison: Comparison, side: str | None = None) -> Part:
    """Return a comparison in a role, with the largest step for the worse of a series.

    That is the first significant step for the worse in ``movers``, which lists primary results
    first: its side is bad, and the side before it is good. If a side is named, or no step is worse,
    the sides are those of :func:`part_of`.

    :param name: option and file, for messages
    :param side: name of the new side; None to look for the step
    :raises InputError: it has no such side
    """
    measured = None if side else _worst_step(comparison)
    if measured is None:
        return part_of(name, comparison, side)
    return Part(name=name, comparison=comparison, measured=measured)


def _worst_step(comparison: Comparison) -> Measured | None:
    names = [side.name for side in comparison.sides]
    worse = [
        mover
        for mover in comparison.movers
        if mover.side in names and (mover.ratio > 1.0) != (mover.better == "higher")
    ]
    if not worse:
        return None
    # Movers are sorted by importance: primary results first, then the largest step.
    return Measured(comparison=comparison.id, side=worse[0].side, before=worse[0].before)


def new_culprit(ends: Ends, found: Part, roles: Roles) -> Culprit:
    """Return a record about the commits between which the comparisons show a regression.

    :param found: the comparison that showed it first; without a retest, mails and pages report this
        one
    :raises InputError: a comparison does not show what its role requires, or is of other commits or
        another setup
    """
    headline = headline_of(found)
    main = roles.retest or found
    culprit = Culprit(
        good=ends.good,
        bad=ends.bad,
        is_range=ends.is_range is not False,
        benchmark=name_benchmark(headline.workload),
        tree=None,
        main=main.measured,
        comparisons=tuple(dict.fromkeys((main.comparison.id, found.comparison.id))),
    )
    _check_ends(found, culprit)
    return add_roles(culprit, found, roles)


def add_roles(culprit: Culprit, main: Part, roles: Roles) -> Culprit:
    """Return the record with further comparisons and facts, which replace those of the same role.

    Comparisons of other machines, trees or workloads are added to the earlier ones.

    :param main: the comparison that the record reports so far; a retest replaces it
    :raises InputError: as in :func:`new_culprit`
    """
    _check_roles(culprit, main, roles)
    retested = roles.retest
    shown = retested or main
    regressed, unchanged = _sort_elsewhere(roles.elsewhere, shown, culprit)
    links = culprit.links
    changed = replace(
        culprit,
        main=shown.measured,
        retest=culprit.retest
        if retested is None
        else Retest(result=retested.measured, found=_found(culprit, main)),
        tip=_measured(roles.tip, culprit.tip),
        fix=_measured(roles.fix, culprit.fix),
        fixed_by=roles.fixed_by or culprit.fixed_by,
        revert=_revert(roles) or culprit.revert,
        feature_switch=culprit.feature_switch
        if roles.feature_switch is None or roles.feature is None
        else FeatureSwitch(feature=roles.feature, result=roles.feature_switch.measured),
        forced_alignment=_measured(roles.forced_alignment, culprit.forced_alignment),
        a_a=_measured(roles.a_a, culprit.a_a),
        bisection=roles.bisection or culprit.bisection,
        regressed_on=_merge(culprit.regressed_on, regressed, replaced=unchanged),
        no_change_on=_merge(culprit.no_change_on, unchanged, replaced=regressed),
        tree=_tree(roles.tree or culprit.tree, roles.tip),
        merged=culprit.merged if roles.merged is None else roles.merged,
        links=replace(
            links,
            posted=roles.links.posted or links.posted,
            report=roles.links.report or links.report,
        ),
        comparisons=(),
    )
    return replace(changed, comparisons=_list_comparisons(changed))


def headline_of(part: Part) -> Row:
    """Return the regression that decides: a primary one if there is one, then the largest.

    :raises InputError: no result regressed
    """
    worse = [row for row in part.rows if is_worse(row)]
    worse = sorted(worse, key=lambda row: row.family != "primary")
    if not worse:
        overall = part.comparison.overall
        is_counted = all(row.n_base and row.n_new for row in part.comparison.rows)
        steps = [each.what for each in part.comparison.next_steps if each.id in _DECIDING_STEPS]
        decides = steps[0] if steps else "record more boots"
        advice = decides if is_counted else "give the values of all runs"
        if len(part.comparison.sides) > 2:  # noqa: PLR2004 # there is another one
            advice += ", or choose another side by FILE:SIDE"
        raise InputError(
            f"{part.name}: no significant regression of {part.measured.side} against "
            f"{part.measured.before} ({overall.verdict}: {overall.reason_short}); {advice}"
        )
    return worse[0]


def _check_ends(part: Part, culprit: Culprit) -> None:
    """Reject a comparison of a single kernel, or of commits that are not those of the record.

    :raises InputError: the comparison is rejected
    """
    _check_two_kernels(part)
    for side, commit in ((part.base, culprit.good), (part.new, culprit.bad)):
        _check_commit(part, side, commit)


def _check_elsewhere(part: Part, culprit: Culprit) -> None:
    if _backport(part, culprit.bad) is None:
        _check_ends(part, culprit)
    else:
        _check_two_kernels(part)


def _check_two_kernels(part: Part) -> None:
    if has_same_kernel(part.base.host, part.new.host):
        raise InputError(
            f"{part.name}: {part.measured.before} and {part.measured.side} have the same kernel "
            "(expected those of good and bad); record both kernels"
        )


def _check_commit(part: Part, side: SideSummary, commit: Commit) -> None:
    recorded = side.source.commit if side.source else None
    if recorded is not None and recorded != commit.commit:
        raise InputError(
            f"{part.name}: {side.name} is commit {clean_line(recorded)[:COMMIT_DIGITS]} (expected "
            f"{commit.commit[:COMMIT_DIGITS]}); give the comparison of that commit"
        )


def _check_roles(culprit: Culprit, main: Part, roles: Roles) -> None:
    headline = headline_of(main)
    repeated = (roles.tip, roles.fix, roles.revert)
    for part in filter(None, repeated):
        _check_commit(part, part.base, culprit.good)
    one_kernel = ((roles.feature_switch, culprit.bad), (roles.a_a, culprit.good))
    for same, commit in one_kernel:
        if same is not None:
            _check_one_kernel(same, commit)
    for part in filter(
        None, (*repeated, roles.forced_alignment, *(each for each, _ in one_kernel))
    ):
        check_same_setup(part, main, headline)
    for part in filter(None, (roles.fix, roles.revert, *roles.elsewhere)):
        _check_not_of_bad(part, culprit, main, *filter(None, (roles.retest,)))
    if roles.retest is not None:
        _check_retest(roles.retest, main, culprit)
    if roles.fix is not None and roles.fixed_by is not None:
        _check_commit(roles.fix, roles.fix.new, roles.fixed_by)
    if roles.forced_alignment is not None:
        _check_ends(roles.forced_alignment, culprit)
        _check_rebuilt(roles.forced_alignment, main)
    if roles.bisection is not None:
        _check_bisection(roles.bisection, culprit)


def _check_retest(part: Part, main: Part, culprit: Culprit) -> None:
    _check_ends(part, culprit)
    _check_not_first(part, culprit)
    _check_machine(part, main)
    _check_other_boots(part, main)
    _check_reproduced(part, main)


def _check_not_of_bad(part: Part, culprit: Culprit, *shown: Part) -> None:
    """Reject recordings of the regression itself in the role of another kernel or machine.

    :raises InputError: the comparison is rejected
    """
    _check_not_first(part, culprit)
    if part.new.digest in {each.new.digest for each in shown}:
        raise InputError(
            f"{part.name}: {part.measured.side} has the recordings of {culprit.id}, which the "
            "record reports already (expected other ones); record that kernel or machine"
        )


def _check_not_first(part: Part, culprit: Culprit) -> None:
    """Reject the comparison that showed the regression first, if the record has a retest of it.

    The comparison of a series is accepted, because its other sides can fill other roles.

    :raises InputError: the comparison is rejected
    """
    has_others = len(part.comparison.sides) > 2  # noqa: PLR2004 # another kernel of a series
    if culprit.retest and part.comparison.id == culprit.retest.found and not has_others:
        raise InputError(
            f"{part.name}: the record has this comparison already, as the one that the retest "
            "repeats (expected another one); record again"
        )


def check_same_setup(part: Part, main: Part, headline: Row) -> None:
    """Reject a comparison of another machine, or without the result that the record is about.

    :raises InputError: the comparison is rejected
    """
    _check_machine(part, main)
    if part.row_like(headline) is None:
        what = clean_line(", ".join(filter(None, (headline.workload, headline.point))))
        raise InputError(
            f"{part.name}: no result of {headline.metric} of {what[:80]} (expected the same "
            "workload and parameters); record that workload"
        )


def _check_machine(part: Part, main: Part) -> None:
    for side in (part.base, part.new):
        if not _is_same_machine(side, main.base):
            raise InputError(
                f"{part.name}: {side.name} is of another machine, {clean_line(name_machine(side))} "
                f"(expected that of {main.name}, {clean_line(name_machine(main.base))}); record on "
                "that machine, or give it by --also"
            )


def _is_same_machine(one: SideSummary, other: SideSummary) -> bool:
    """Return whether two sides have the same machine class or the same hardware.

    A machine class excludes what differs between the sides on purpose. So a comparison with a
    feature switch can have another class than the comparison of the record's kernels.
    """
    has_class = one.machine_class is not None and one.machine_class == other.machine_class
    return has_class or _hardware_of(one) == _hardware_of(other)


def _hardware_of(side: SideSummary) -> object:
    host = read_host(side.host)
    sockets = {cpu.socket for cpu in host.topology.cpus}
    return host.cpu.model, host.cpu.count_online, len(sockets), host.virtualisation.kind


def _check_other_boots(part: Part, found: Part) -> None:
    """Reject a retest that shares recordings or boots with the comparison that it repeats.

    :raises InputError: the retest is rejected
    """
    old = (found.base, found.new)
    for side in (part.base, part.new):
        if side.digest in {each.digest for each in old}:
            raise InputError(
                f"{part.name}: {side.name} has the recordings of {found.name} (expected other "
                "boots); record both kernels again"
            )
        if (boot := boot_of(side)) is not None and boot in map(boot_of, old):
            raise InputError(
                f"{part.name}: {side.name} was recorded in a boot of {found.name} (expected other "
                "boots); boot both kernels again"
            )


def _check_reproduced(part: Part, found: Part) -> None:
    worse = [row for row in found.rows if is_worse(row)]
    again = [(row, part.row_like(row)) for row in worse]
    if any(row is not None and is_worse(row) for _, row in again):
        return
    first, row = again[0]
    figures = f"{show_both(row)}, {row.verdict}" if row else "not measured"
    raise InputError(
        f"{part.name}: regression not reproduced: {first.metric} {figures} (first measured: "
        f"{show_both(first)}); nothing to record"
    )


def _check_rebuilt(part: Part, main: Part) -> None:
    for side, before in ((part.base, main.base), (part.new, main.new)):
        if not has_other_kernel(before.host, side.host):
            raise InputError(
                f"{part.name}: {side.name} has the kernel of {main.name} (expected a rebuild with "
                "CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y); build both kernels again"
            )


def _check_one_kernel(part: Part, commit: Commit) -> None:
    for side in (part.base, part.new):
        _check_commit(part, side, commit)
    if has_other_kernel(part.base.host, part.new.host):
        raise InputError(
            f"{part.name}: {part.measured.before} and {part.measured.side} have different kernels "
            "(expected one kernel); record both sides on one kernel"
        )


def _check_bisection(bisection: Bisection, culprit: Culprit) -> None:
    tested = {bisection.good, bisection.bad, *(step.commit for step in bisection.steps)}
    for name, commit in (("good", culprit.good), ("bad", culprit.bad)):
        if commit.commit not in tested:
            raise InputError(
                f"--bisection: commit {commit.commit[:COMMIT_DIGITS]} was not tested (expected "
                f"{name} of the record among its steps); give the bisection of these commits"
            )


def _backport(part: Part, commit: Commit) -> str | None:
    """Return the hash of the measured commit if it is a backport of ``commit``; None if not.

    A backport is another commit with the same subject, e.g. in a stable tree.
    """
    source = part.new.source
    is_other = source is not None and source.commit != commit.commit
    has_subject = source is not None and clean_line(source.subject or "") == commit.subject
    return source.commit if source and is_other and has_subject else None


def _sort_elsewhere(
    parts: Sequence[Part], main: Part, culprit: Culprit
) -> tuple[list[Elsewhere], list[Elsewhere]]:
    """Return where the commit regresses, and where it does not: no change, or an improvement.

    The result of the largest regression decides; if a comparison lacks it, its worst result does.

    :raises InputError: the kernels are others, or the deciding result has another verdict
    """
    headline = headline_of(main)
    regressed, unchanged = [], []
    for part in parts:
        _check_elsewhere(part, culprit)
        row = part.row_like(headline) or next(iter(part.rows), None)
        tree = _ref_of(part)
        place = Elsewhere(
            result=part.measured,
            machine=clean_line(name_machine(part.new)),
            tree=None if tree == _ref_of(main) else tree,
            backport=_backport(part, culprit.bad),
        )
        if row is not None and is_worse(row):
            regressed.append(place)
        elif row is not None and row.verdict in ("no-change", "improvement"):
            unchanged.append(place)
        else:
            why = f"{row.metric}: {row.verdict}" if row else "no result"
            raise InputError(
                f"{part.name}: neither a regression nor no change ({why}); record more boots"
            )
    return regressed, unchanged


def _ref_of(part: Part) -> str | None:
    """Return the branch or tag of the measured side; None if it is not recorded."""
    ref = part.new.source.ref if part.new.source else None
    return ref and clean_line(ref)


def _merge(
    known: Iterable[Elsewhere], new: Iterable[Elsewhere], *, replaced: Iterable[Elsewhere]
) -> tuple[Elsewhere, ...]:
    gone = {each.result for each in replaced}
    places = {each.result: each for each in (*known, *new)}
    return tuple(place for result, place in places.items() if result not in gone)


def _tree(tree: Tree | None, tip: Part | None) -> Tree | None:
    """Return the tree with commit, date and URL of its newest measured kernel.

    Commit and date become None if the recording of that kernel names no commit. Without a
    comparison of that kernel, the tree is unchanged.
    """
    if tree is None or tip is None:
        return tree
    source = tip.new.source
    if source is None:
        return replace(tree, commit=None, date=None)
    return replace(tree, commit=source.commit, date=source.committed, url=source.tree or tree.url)


def _measured(part: Part | None, known: Measured | None) -> Measured | None:
    return known if part is None else part.measured


def _revert(roles: Roles) -> Revert | None:
    if roles.revert is None and roles.revert_impossible is None:
        return None
    return Revert(result=_measured(roles.revert, None), impossible=roles.revert_impossible)


def _found(culprit: Culprit, main: Part) -> str:
    """Return the id of the comparison that first showed the regression."""
    return culprit.retest.found if culprit.retest else main.comparison.id


def _list_comparisons(culprit: Culprit) -> tuple[str, ...]:
    used = [each.comparison for each in culprit.measurements]
    if culprit.retest is not None:
        used.append(culprit.retest.found)
    return tuple(dict.fromkeys(used))
