# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the body of a report: the regression, the commit that causes it, and the evidence."""

import re
from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.perf_stat.record import Counters
from schedperf.model.comparison import Comparison
from schedperf.model.host import fields_of
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf.model.text import join_names
from schedperf.model.units import format_measure
from schedperf.publish.culprit.figures import (
    Evidence,
    boot_of,
    day_of,
    describe_bisection,
    describe_effect,
    name_machine,
    name_result,
    show_both,
    side_of,
)
from schedperf.publish.culprit.record import (
    COMMIT_DIGITS,
    Elsewhere,
    Measured,
    Revert,
    Trailer,
    Tree,
)
from schedperf.publish.mail.plain import (
    COLUMNS,
    INDENT,
    cut,
    items,
    join_paragraphs,
    quote,
    spell,
    wrap,
)
from schedperf.publish.mail.render.table import draw_table
from schedperf.publish.mail.site import MailSite
from schedperf_reports.words.rows import count_of, merge_caveats

MOST_FINDINGS = 4
MOST_CAVEATS = 4
MOST_OPTIONS = 4
MOST_ELSEWHERE = 2
MOST_PROGRAMS = 3
_LONGEST_SUBJECT = 100
_LONGEST_ITEM = 220
_LONGEST_NAME = 60
_LONGEST_MACHINE = 90
_LONGEST_COMMAND = 200
_SWITCHES = ("sched.numa_balancing", "sched.autogroup")
# Benchmarks that readers of scheduler lists know.
_WELL_KNOWN = (
    "hackbench",
    "schbench",
    "perf bench",
    "netperf",
    "tbench",
    "kernbench",
    "cyclictest",
)
# Counters of task switches and migrations, with their names in a mail.
_EVENTS = {"context-switches": "context switches", "cpu-migrations": "migrations"}


def report_body(evidence: Evidence, site: MailSite) -> str:
    """Return the body of a report.

    :raises InputError: the record has no regression, or a text is not allowed in mails
    """
    return join_paragraphs(
        [
            _opening(evidence),
            _layout(evidence),
            _definition(evidence),
            draw_table(evidence, page_of(evidence, site)),
            _switches(evidence),
            _caveats(evidence),
            _grounds(evidence),
            _findings(evidence),
            _machine(evidence),
            _reproduce(evidence, site),
            _tags(evidence, site),
            stop(is_mixed=bool(evidence.improvements())),
        ]
    ) + signature(site)


def names_of(evidence: Evidence) -> list[str]:
    """Return the texts of good, bad and the fix that name people.

    They are the authors, the committers and the values of all trailers, with their addresses.
    """
    commits = (evidence.culprit.good, evidence.culprit.bad, evidence.culprit.fixed_by)
    people: list[str | None] = []
    for commit in commits:
        if commit is not None:
            trailers: Sequence[Trailer] = commit.trailers
            people += [commit.author, commit.committer, *(each.value for each in trailers)]
    return [person for person in people if person]


def page_of(evidence: Evidence, site: MailSite) -> str | None:
    """Return the URL of the record's page; None if the site publishes nothing."""
    base = site.site.base_url
    if base is None:
        return None
    page = evidence.culprit.links.page or f"r/{evidence.culprit.key}/"
    return f"{base.rstrip('/')}/{page.lstrip('/')}"


def link(evidence: Evidence, site: MailSite) -> list[str]:
    """Return one or two lines with the URL of the full results; [] without a published page."""
    page = page_of(evidence, site)
    if page is None:
        return []
    title = "All runs, and the full report:"
    line = f"{title} {page}"
    return [line] if len(line) <= COLUMNS else [title, f"{INDENT}{page}"]


def quote_subject(subject: str, names: Sequence[str], longest: int = _LONGEST_SUBJECT) -> str:
    """Return a commit's subject as mails quote it: ``("sched/fair: ...")``.

    :param names: texts with names of people, whose words may have letters that are not ASCII
    :param longest: maximum number of characters of the subject
    """
    return f'("{cut(quote(subject, names), longest)}")'


def stop(*, is_mixed: bool = False) -> list[str]:
    """Return the lines that explain how to stop mails about the commit.

    :param is_mixed: whether other results improved
    """
    trade = ' If this trade-off is intended, reply "expected".' if is_mixed else ""
    return wrap(f'A person reads replies. Reply "stop" to end mails about this commit.{trade}')


def signature(site: MailSite) -> str:
    """Return the signature with the line ``-- `` before it.

    :raises InputError: the site's name or contact has a character that is neither ASCII, nor a
        letter, nor can be replaced by ASCII
    """
    by = f"schedperf, run by {site.site.name}, {site.site.contact}"
    return f"-- \n{cut(spell(by, where='site', names=(site.site.name, site.site.contact)), 74)}\n"


def _opening(evidence: Evidence) -> list[str]:
    culprit, row = evidence.culprit, evidence.headline()
    side = evidence.side(culprit.main)
    names = names_of(evidence)
    quoted = quote_subject(culprit.bad.subject, names)
    where = _machine_of(side)
    metric = cut(spell(name_result(row), where="metric"), _LONGEST_NAME)
    effect = describe_effect(row, metric)
    if culprit.is_range:
        good = culprit.good.commit[:COMMIT_DIGITS]
        what = (
            f"A commit after {good} and up to {culprit.id} {quoted} {effect} on {where}. "
            "The commits between them were not tested."
        )
    else:
        what = f"Commit {culprit.id} {quoted} {effect} on {where}."
    return wrap(" ".join([what, *_since(evidence), *_elsewhere(evidence)]))


def _machine_of(side: SideSummary) -> str:
    """Return a side's machine with its article: ``a 2-socket, 96-CPU AMD EPYC``."""
    if not side.host:
        return "a machine that is not recorded"
    name = cut(spell(name_machine(side), where="CPU model"), _LONGEST_MACHINE)
    return f"{_article(name)} {name}"


def _article(name: str) -> str:
    return "an" if re.match(r"[aeiouAEIOU]|8|1[18]\b", name) else "a"


def _since(evidence: Evidence) -> Iterator[str]:
    """Yield sentences: whether the regression is still in the tree, and the effect of a revert."""
    culprit = evidence.culprit
    row = evidence.headline()
    tree = culprit.tree
    name = cut(spell(tree.name, where="tree"), _LONGEST_NAME) if tree else "the tree"
    tip = evidence.row_like(culprit.tip, row)
    revert = culprit.revert
    reverted = evidence.row_like(revert.result if revert else None, row)
    is_impossible = revert is not None and bool(revert.impossible)
    if tip is None and reverted is None and not is_impossible:
        yield f"The newest kernel of {name} and a revert were not measured."
        return
    if tip is None:
        yield f"The newest kernel of {name} was not measured."
    else:
        yield _tip(tree, tip, name)
    yield _revert(revert, reverted, "" if tip is None else " there")


def _tip(tree: Tree | None, row: Row, name: str) -> str:
    facts = [tree.commit[:COMMIT_DIGITS], day_of(tree.date)] if tree and tree.commit else []
    at = f" ({', '.join(filter(None, facts))})" if facts else ""
    match row.verdict:
        case "regression":
            return f"It is still present in {name}{at}."
        case "no-change" | "improvement":
            return f"It is gone in {name}{at}."
        case _:
            return f"The result of the newest kernel of {name}{at} is {row.verdict}."


def _revert(revert: Revert | None, row: Row | None, where: str) -> str:
    if revert is not None and revert.impossible:
        why = cut(spell(revert.impossible, where="revert"), _LONGEST_NAME)
        return f"It cannot be reverted{where}: {why.rstrip('.')}."
    if row is None:
        return "A revert was not measured."
    match row.verdict:
        case "no-change" | "improvement":
            return f"Reverting it{where} restores the previous result."
        case "regression":
            return f"Reverting it{where} does not remove the regression."
        case _:
            return f"The result of a revert is {row.verdict}."


def _elsewhere(evidence: Evidence) -> Iterator[str]:
    culprit = evidence.culprit
    if culprit.regressed_on:
        yield f"{_machines(culprit.regressed_on, 'regresses', 'regress')} too."
    if culprit.no_change_on:
        yield f"{_machines(culprit.no_change_on, 'shows', 'show')} no change."


def _machines(where: Sequence[Elsewhere], one: str, several: str) -> str:
    names = [cut(spell(each.machine, where="machine"), _LONGEST_NAME) for each in where]
    if len(names) == 1:
        return f"{_article(names[0]).capitalize()} {names[0]} {one}"
    left = len(names) - MOST_ELSEWHERE
    shown = [*names[:MOST_ELSEWHERE], *([f"{left} more"] if left > 0 else [])]
    return f"{join_names(shown)} {several}"


def _layout(evidence: Evidence) -> list[str]:
    """Return the lines about the layout: whether only it changed, and the forced alignment.

    They are [] if neither only the layout changed nor a forced alignment was measured.
    """
    row = evidence.row_like(evidence.culprit.forced_alignment, evidence.headline())
    if row is None:
        rebuilt = "was not measured"
    elif row.verdict in ("no-change", "improvement"):
        rebuilt = f"removes it ({show_both(row)}): it depends on the alignment of code"
    else:
        rebuilt = f"does not remove it ({row.verdict}{_figures_of(row)})"
    if row is None and not evidence.has_only_layout():
        return []
    only = "The only change found is in the cache-line layout. " * evidence.has_only_layout()
    return wrap(f"{only}A rebuild of both kernels with functions aligned to 64 bytes {rebuilt}.")


def _figures_of(row: Row) -> str:
    has_figures = None not in (row.ratio, row.ci_low, row.ci_high)
    return f", {show_both(row)}" if has_figures else ""


def _definition(evidence: Evidence) -> list[str]:
    row = evidence.headline()
    definition = spell(row.definition or "", where="definition")
    if row.metric.startswith(_WELL_KNOWN) or not re.search(r"\w", definition):
        return []
    metric = cut(spell(row.metric, where="metric"), _LONGEST_NAME)
    return wrap(cut(f"{metric}: {definition}", _LONGEST_ITEM))


def _switches(evidence: Evidence) -> list[str]:
    comparison = evidence.main
    return [*_rates(evidence, comparison), *wrap(_configuration(comparison, evidence.culprit.main))]


def _rates(evidence: Evidence, comparison: Comparison) -> list[str]:
    """Return lines with switches and migrations per operation of the workload that regressed most.

    They are [] if these events were not counted.
    """
    data = comparison.section(Counters)
    row = evidence.headline()
    rows = [
        each
        for each in (data.rows if data else ())
        if (each.side, each.workload, each.point) == (row.side, row.workload, row.point)
        and each.event in _EVENTS
        and each.node is None
    ]
    # Those of the whole machine are stated only if the workload's are not known.
    own = [each for each in rows if each.is_own]
    whose = "" if own else ", whole machine"
    texts: dict[str, list[str]] = {}
    for each in own or rows:
        operation = each.unit.partition("/")[2]
        if operation not in ("", "s"):
            both = (each.base, each.new)
            sides = [format_measure(value, each.unit, *both) for value in both]
            texts.setdefault(operation, []).append(f"{_EVENTS[each.event]} {' -> '.join(sides)}")
    return [
        line
        for operation, rates in texts.items()
        for line in wrap(spell(f"Per {operation}{whose}: {', '.join(rates)}.", where="counters"))
    ]


def _configuration(comparison: Comparison, main: Measured) -> str:
    options = [
        each
        for each in comparison.comparability.options
        if each.side == main.side and not each.toolchain
    ]
    shown = [
        f"{each.name}={each.base or 'n'} -> {each.new or 'n'}" for each in options[:MOST_OPTIONS]
    ]
    left = len(options) - len(shown)
    if options:
        more = f" and {left} more" if left else ""
        return cut(
            spell(f".config differs: {', '.join(shown)}{more}.", where=".config"), _LONGEST_ITEM
        )
    if "kernel.config_sha256" in comparison.comparability.equal:
        return ".config: identical."
    return ".config: difference not recorded."


def _caveats(evidence: Evidence) -> list[str]:
    comparison = evidence.main
    row = evidence.headline()
    caveats = merge_caveats([*row.caveats, *comparison.caveats])
    texts = list(dict.fromkeys(each.short for each in caveats))
    if not texts:
        return []
    left = len(texts) - MOST_CAVEATS
    shown = [cut(quote(text), _LONGEST_ITEM) for text in texts[:MOST_CAVEATS]]
    return ["Caveats:", *items([*shown, *([f"{left} more"] if left > 0 else [])])]


def _grounds(evidence: Evidence) -> list[str]:
    """Return the lines that say what was done to verify the result, and what was not done."""
    texts = [*_retest(evidence), *_bisection(evidence), *_switched(evidence)]
    culprit = evidence.culprit
    steps = {"retest": culprit.retest, "bisection": culprit.bisection}
    missing = [name for name, step in steps.items() if step is None]
    lines = ["Why we believe it:", *items(texts)] if texts else []
    return [*lines, *([f"Not done: {', '.join(missing)}."] if missing else [])]


def _retest(evidence: Evidence) -> Iterator[str]:
    retest = evidence.culprit.retest
    if retest is None:
        return
    row = evidence.row_like(retest.result, evidence.headline())
    new = evidence.comparison(retest.result).sides
    where = " on fresh boots" if all(map(boot_of, new)) else ""
    if row is None:
        yield f"retested{where}, but not this result"
        return
    # The table contains the figures of the main measurement.
    figures = "" if retest.result == evidence.culprit.main else _figures_of(row)
    p = f", p = {row.q:.2g}" if row.q is not None else f": {row.verdict}"
    yield f"retested{where} after the first detection{figures}{p}"


def _bisection(evidence: Evidence) -> Iterator[str]:
    bisection = evidence.culprit.bisection
    if bisection is not None:
        yield f"bisected in {describe_bisection(bisection)}"


def _switched(evidence: Evidence) -> Iterator[str]:
    switch = evidence.culprit.feature_switch
    row = evidence.row_like(switch.result if switch else None, evidence.headline())
    if switch is not None and row is not None:
        feature = cut(spell(switch.feature, where="feature"), _LONGEST_NAME)
        yield f"scheduler feature {feature} switched on one boot: {row.verdict}{_figures_of(row)}"


def _findings(evidence: Evidence) -> list[str]:
    found = evidence.reasons()
    if not found:
        return ["The cause is not identified."]
    shown = [
        cut(quote(f"{each.clause}{each.change}"), _LONGEST_ITEM) for each in found[:MOST_FINDINGS]
    ]
    left = len(found) - len(shown)
    more = [f"{left} more"] if left else []
    return ["Correlated with the change; causation not shown:", *items([*shown, *more])]


def _machine(evidence: Evidence) -> list[str]:
    comparison = evidence.main
    side = side_of(comparison, evidence.culprit.main.before)
    if not side.host:
        return ["Machine: not recorded."]
    host = dict(fields_of(side.host))
    facts = [
        name_machine(side),
        _fact(host, "cpu.family_model_stepping", "{}"),
        _fact(host, "cpu.microcode", "ucode {}"),
        _smt(host),
        _fact(host, "cpufreq.governor", "governor {}"),
        _fact(host, "cpufreq.boost", "boost {}"),
        _fact(host, "sched.hz", "HZ={}"),
        _fact(host, "sched.preempt", "preempt {}"),
        _fact(host, "sched.numa_balancing", "NUMA balancing {}"),
        _fact(host, "sched.autogroup", "autogroup {}"),
        _fact(host, "sched.base_slice_ns", "base_slice {} ns"),
        _fact(host, "cgroup.depth", "cgroup depth {}"),
        _fact(host, "kernel.compiler", "{}").partition(", ")[0],
    ]
    text = spell(", ".join(filter(None, facts)), where="machine")
    return wrap(cut(f"Machine: {text}", 2 * _LONGEST_ITEM), rest=INDENT)


def _smt(host: Mapping[str, object]) -> str:
    is_absent = str(host.get("cpu.smt")) in ("notsupported", "notimplemented")
    return "no SMT" if is_absent else _fact(host, "cpu.smt", "SMT {}")


def _fact(host: Mapping[str, object], path: str, text: str) -> str:
    value = host.get(path)
    if isinstance(value, bool) or path in _SWITCHES:
        value = {0: "off", 1: "on"}.get(value, value) if isinstance(value, int) else value
    return (
        text.format(cut(str(value), _LONGEST_NAME)) if isinstance(value, str | int | float) else ""
    )


def _reproduce(evidence: Evidence, site: MailSite) -> list[str]:
    row = evidence.headline()
    workload = cut(spell(row.workload, where="workload").strip(), _LONGEST_COMMAND)
    boots = max(row.n_base or 0, row.n_new or 0) if row.replication == "boots" else 0
    culprit = evidence.culprit
    good, bad = culprit.good.commit[:COMMIT_DIGITS], culprit.id
    tool = evidence.side(culprit.main).imported
    notes = ", ".join(filter(None, (tool and f"of {tool}", row.point)))
    times = f", {boots} times each," if boots else ""
    on_each = f"on each boot{f' ({notes})' if notes else ''}"
    run = (
        f"run {on_each}:"
        if workload
        else f"run the same benchmark {on_each}. Its command is not recorded."
    )
    lines = wrap(
        spell(
            f"To reproduce{_effort(evidence)}, boot {good} and {bad} alternately{times} and {run}",
            where="reproduce",
        )
    )
    if not workload:
        return [*lines, *link(evidence, site)]
    lines += _command(workload)
    # For other benchmarks, only the name is known.
    if any(side.host for side in evidence.main_sides) and tool is None:
        number = f" --boots {boots}" if boots else ""
        lines.append("or, with the releases of both kernels as they are installed on HOST:")
        kernels = "--kernel base=RELEASE --kernel new=RELEASE"
        lines += _command(f"schedperf ab -o check {kernels} --on ssh:HOST{number} -- {workload}")
    return [*lines, *link(evidence, site)]


def _effort(evidence: Evidence) -> str:
    """Format the effort of the recording: `` (about 12 minutes, needs hackbench)``.

    The duration is left out unless all recordings have one; "" if no program is known, either.
    """
    recordings = [recording for side in evidence.main.sides for recording in side.recordings]
    minutes = [recording.minutes for recording in recordings]
    known = [each for each in minutes if each is not None]
    programs = dict.fromkeys(program.name for each in recordings for program in each.programs)
    shown = [cut(name, _LONGEST_NAME) for name in [*programs][:MOST_PROGRAMS]]
    parts = [
        f"about {count_of(max(round(sum(known)), 1), 'minute')}"
        if known and len(known) == len(minutes)
        else "",
        f"needs {join_names(shown)}" if shown else "",
    ]
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _command(command: str) -> list[str]:
    """Wrap a command into lines, of which all but the last one end with a backslash.

    :param command: at least one word
    """
    *lines, last = wrap(command, first=INDENT, rest=INDENT * 3)
    return [*(f"{line} \\" for line in lines), last]


def _tags(evidence: Evidence, site: MailSite) -> list[str]:
    if evidence.culprit.is_open_patch or evidence.culprit.is_range:
        # An unmerged series is sent again without the mistake, so it needs no Fixes tag.
        return []
    return [
        "If a separate commit fixes this, please add",
        f"{INDENT}Reported-by: {site.site.sender}",
        f"{INDENT}Closes: https://lore.kernel.org/r/<Message-ID of this mail>",
    ]
