# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of a first bad commit from its record and the comparisons that it refers to."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, Verdict
from schedperf.model.sides import SideSummary
from schedperf.model.units import scale_for
from schedperf.model.verdict import count_units, count_values, name_units
from schedperf.publish.culprit.figures import (
    Evidence,
    boot_of,
    day_of,
    describe_bisection,
    describe_effect,
    describe_place,
    name_benchmark,
    name_machine,
    show_size,
    side_of,
    worst_first,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Commit, Culprit, Elsewhere, Measured
from schedperf.publish.pages.site import State
from schedperf_reports.page.views import environment, read_template, shorten
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import describe_directions, name_rows

_FIXED = "Fixed: "
_CONFIG = "kernel.config_sha256"
_PERCENT = 100.0
# Digits of an id in the URL of a comparison.
ID_DIGITS = 16


class ShownRow(Struct, frozen=True, kw_only=True):
    """One result as the page shows it."""

    name: str
    n: str
    base: str
    new: str
    unit: str
    change: str
    interval: str
    verdict: str


class Belief(Struct, frozen=True, kw_only=True):
    """One measurement of the culprit in words, or the statement that it is missing.

    :param name: what was measured: "retest on other boots"
    :param address: URL of its comparison; "" without one
    """

    name: str
    text: str
    address: str = ""


class TestedCommit(Struct, frozen=True, kw_only=True):
    """A tested commit of the bisection.

    :param probability: that it is the first bad commit; "-" if unknown
    :param percent: the same, for the length of its bar; None if unknown
    :param untestable: why it has no result; "" if it has one
    """

    commit: str
    boots: int
    probability: str
    percent: float | None
    untestable: str
    is_bad: bool


def address_of(comparison_id: str) -> str:
    """Return the URL of a comparison, relative to the site: ``c/0123456789abcdef/``."""
    return f"c/{comparison_id[:ID_DIGITS]}/"


def title_of(evidence: Evidence) -> str:
    """Return the title of a culprit: ``0123456789ab: hackbench 21.8% regression``.

    A range of commits has the names of its kernels: ``v6.18..6.19-rc2``.

    :raises InputError: no result regressed, or the main comparison is missing
    """
    culprit, row = evidence.culprit, evidence.headline()
    assert row.ratio is not None
    return f"{culprit.range_name}: {name_benchmark(row.workload)} {show_size(row.ratio)} regression"


def summary_of(evidence: Evidence) -> str:
    """Return one sentence about the largest regression: commit, metric, change, CI and n.

    :raises InputError: no result regressed, or the main comparison is missing
    """
    row = evidence.headline()
    point = f" at {row.point}" if row.point else ""
    n = count_units(row.n_base, row.n_new, row.replication)
    return f"{_name(evidence.culprit)} {describe_effect(row)}{point} (n = {n})."


def state_of(evidence: Evidence) -> State:
    """Return the state of the largest regression.

    It is "fixed" if it does not occur with the fix; else "confirmed" if the retest has it, too;
    else "unconfirmed".

    :raises InputError: no result regressed, or a comparison is missing
    """
    culprit = evidence.culprit
    if _verdict(evidence, culprit.fix) in ("no-change", "improvement"):
        return "fixed"
    retest = None if culprit.retest is None else culprit.retest.result
    return "confirmed" if _verdict(evidence, retest) == "regression" else "unconfirmed"


def machine_of(evidence: Evidence) -> str:
    """Return the machine of the main measurement: ``2-socket, 96-CPU AMD EPYC``.

    :raises InputError: the main comparison is missing
    """
    return name_machine(evidence.side(evidence.culprit.main))


def draw_culprit(
    evidence: Evidence, *, root: str, version: int, bundles: Mapping[str, Sequence[str]]
) -> bytes:
    """Return the page of a culprit as HTML.

    :param root: relative path from the page's folder to the top of the site
    :param version: version of the record
    :param bundles: names of published bundles, by the URL of the comparison
    :raises InputError: no result regressed, or a comparison is missing
    """
    culprit = evidence.culprit
    rows = worst_first(evidence.rows(culprit.main))
    beliefs = [*_beliefs(evidence)]
    page = (
        environment()
        .get_template("site/culprit.html.j2")
        .render(
            root=root,
            version=version,
            style=style(),
            title=f"{_FIXED if state_of(evidence) == 'fixed' else ''}{title_of(evidence)}",
            summary=summary_of(evidence),
            culprit=culprit,
            facts=[*_facts(evidence)],
            rows=_shown_rows(rows),
            units="; ".join(filter(None, (f"n: {_units(rows)}", describe_directions(rows)))),
            before=_label(evidence.main_sides[0]),
            after=_label(evidence.main_sides[1]),
            beliefs=beliefs,
            tested=_tested(culprit),
            steps=culprit.steps,
            elsewhere=(
                ("Regressed on", _places(evidence, culprit.regressed_on)),
                ("No change on", _places(evidence, culprit.no_change_on)),
            ),
            comparisons=[*_comparisons(evidence, beliefs)],
            bundles=bundles,
        )
    )
    return page.encode()


def style() -> object:
    """Return the style sheet of the site's own pages."""
    from markupsafe import Markup  # noqa: PLC0415 # our own file

    return Markup(shorten(read_template("site/site.css")))  # noqa: S704 # our own file


def _name(culprit: Culprit) -> str:
    if not culprit.is_range:
        return f"Commit {culprit.id}"
    return f"A commit in {culprit.range_name}"


def _label(side: SideSummary) -> str:
    return side.label or side.name


def _facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    culprit = evidence.culprit
    yield "machine", machine_of(evidence)
    if culprit.tree is not None:
        date = f", {day_of(culprit.tree.date)}" if culprit.tree.date else ""
        commit = f" ({culprit.tree.commit[:COMMIT_DIGITS]}{date})" if culprit.tree.commit else ""
        yield "tree", f"{culprit.tree.name}{commit}"
    last, first = ("", "") if culprit.is_range else ("last ", "first ")
    yield f"{last}good", _describe_commit(culprit.good)
    yield f"{first}bad", _describe_commit(culprit.bad)
    if culprit.fixed_by is not None:
        yield "fixed by", _describe_commit(culprit.fixed_by)
    yield "configuration", _describe_configuration(evidence)
    for recording in evidence.main_sides[1].recordings[:1]:
        yield "recorded by", shlex.join(recording.command)


def _describe_configuration(evidence: Evidence) -> str:
    """Return whether both kernels have one .config, and what else differs."""
    comparability = evidence.main.comparability
    differences = [each.path for each in comparability.differences if each.path != _CONFIG]
    if _CONFIG in comparability.equal:
        config = "same .config"
    elif any(each.path == _CONFIG for each in comparability.differences):
        config = ".config differs"
    else:
        config = ".config not recorded"
    others = f"; also differs: {', '.join(dict.fromkeys(differences))}" if differences else ""
    return f"{config}{others}"


def _tested(culprit: Culprit) -> list[TestedCommit]:
    """Return the tested commits of the bisection, the most probable one first."""
    if culprit.bisection is None:
        return []
    steps = sorted(culprit.bisection.steps, key=lambda step: -(step.probability or 0.0))
    return [
        TestedCommit(
            commit=step.commit[:COMMIT_DIGITS],
            boots=step.boots,
            probability="-" if step.probability is None else f"{step.probability:.3f}",
            percent=None if step.probability is None else round(_PERCENT * step.probability, 1),
            untestable=step.untestable or "",
            is_bad=step.commit == culprit.bad.commit,
        )
        for step in steps
    ]


def _describe_commit(commit: Commit) -> str:
    author = f", {commit.author.partition(' <')[0]}" if commit.author else ""
    date = f", {day_of(commit.committed)}" if commit.committed else ""
    return f"{commit.commit[:COMMIT_DIGITS]} “{commit.subject}”{author}{date}"


def _units(rows: Sequence[Row]) -> str:
    return " or ".join(sorted({name_units(2, row.replication) for row in rows}))


def _shown_rows(rows: Sequence[Row]) -> list[ShownRow]:
    names = name_rows(rows)
    shown = []
    for index, row in enumerate(rows):
        scale = scale_for(row.unit, row.base, row.new)
        shown.append(
            ShownRow(
                name=names[index],
                n=count_values(row.n_base, row.n_new, row.replication),
                base=scale.format(row.base),
                new=scale.format(row.new),
                unit=scale.unit,
                change=format_change(row.ratio),
                interval=format_interval(row.ci_low, row.ci_high),
                verdict=row.verdict,
            )
        )
    return shown


def _beliefs(evidence: Evidence) -> Iterator[Belief]:
    culprit = evidence.culprit
    yield _first_measured(evidence)
    yield _retest(evidence)
    yield Belief(name="bisection", text=_describe_bisection(culprit))
    yield _revert(evidence)
    yield _belief(evidence, "newest kernel of the tree", culprit.tip)
    if culprit.feature_switch is not None:
        name = f"feature {culprit.feature_switch.feature} switched"
        yield _belief(evidence, name, culprit.feature_switch.result)
    yield _belief(evidence, "rebuilt with all functions aligned", culprit.forced_alignment)
    yield _belief(evidence, "last good against itself (A/A)", culprit.a_a)
    if culprit.fix is not None:
        yield _belief(evidence, "kernel with the fix", culprit.fix)


def _first_measured(evidence: Evidence) -> Belief:
    retest = evidence.culprit.retest
    if retest is None:
        return _belief(evidence, "measured", evidence.culprit.main)
    first = Measured(comparison=retest.found)
    sides = evidence.comparison(first).sides
    if len(sides) > 2:  # noqa: PLR2004 # which step of the series it was is not recorded
        text = f"the series {', '.join(map(_label, sides))}"
        return Belief(name="first measured", text=text, address=address_of(retest.found))
    return _belief(evidence, "first measured", first)


def _retest(evidence: Evidence) -> Belief:
    retest = evidence.culprit.retest
    if retest is None:
        return _belief(evidence, "retest", None)
    has_boots = all(map(boot_of, evidence.comparison(retest.result).sides))
    return _belief(evidence, f"retest{' on other boots' * has_boots}", retest.result)


def _revert(evidence: Evidence) -> Belief:
    revert = evidence.culprit.revert
    if revert is not None and revert.result is None and revert.impossible:
        return Belief(name="revert", text=f"not possible: {revert.impossible}")
    return _belief(evidence, "revert", None if revert is None else revert.result)


def _belief(evidence: Evidence, name: str, measured: Measured | None) -> Belief:
    if measured is None:
        return Belief(name=name, text="not measured")
    text = _describe_result(evidence, measured)
    return Belief(name=name, text=text, address=address_of(measured.comparison))


def _describe_result(evidence: Evidence, measured: Measured) -> str:
    row = evidence.row_like(measured, evidence.headline())
    if row is None:
        return "the largest regression was not measured there"
    n = count_units(row.n_base, row.n_new, row.replication)
    change = format_change(row.ratio)
    interval = format_interval(row.ci_low, row.ci_high)
    against = _label(side_of(evidence.comparison(measured), measured.before))
    return f"{row.metric}: {change} {interval} against {against}, n = {n}: {row.verdict}"


def _verdict(evidence: Evidence, measured: Measured | None) -> Verdict | None:
    """Return the verdict of the largest regression in another measurement; None if it lacks it."""
    row = evidence.row_like(measured, evidence.headline())
    return None if row is None else row.verdict


def _describe_bisection(culprit: Culprit) -> str:
    bisection = culprit.bisection
    if bisection is None:
        return "not bisected" if culprit.is_range else "not recorded"
    neighbours = "; it and the commit before it were tested"
    return f"{describe_bisection(bisection)}{neighbours if bisection.neighbours_tested else ''}"


def _places(evidence: Evidence, places: Sequence[Elsewhere]) -> list[Belief]:
    return [
        Belief(
            name=describe_place(place),
            text=_describe_result(evidence, place.result),
            address=address_of(place.result.comparison),
        )
        for place in places
    ]


def _comparisons(evidence: Evidence, beliefs: Sequence[Belief]) -> Iterator[Belief]:
    culprit = evidence.culprit
    places = _places(evidence, (*culprit.regressed_on, *culprit.no_change_on))
    for comparison_id in culprit.comparisons:
        comparison = evidence.listed(comparison_id)
        address = address_of(comparison_id)
        roles = [each.name for each in (*beliefs, *places) if each.address == address]
        text = f"{', '.join(roles)}; {_labels(comparison)}: {comparison.overall.verdict}"
        yield Belief(name=comparison_id[:ID_DIGITS], text=text, address=address)


def _labels(comparison: Comparison) -> str:
    base, *others = map(_label, comparison.sides)
    assert comparison.sides[0].name == BASE
    return f"{', '.join(others)} against {base}"
