# SPDX-License-Identifier: GPL-2.0-or-later
"""Generate mails of all kinds with hostile names and 0 to 500 results, and check each."""

import re
from email.message import EmailMessage

from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.model.caveats import caveat
from schedperf.model.errors import InputError
from schedperf.model.rows import Row
from schedperf.model.sides import Comparability, OptionDifference
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import (
    Commit,
    Culprit,
    Elsewhere,
    Links,
    Revert,
    SeenStep,
    StepElsewhere,
    Trailer,
    Tree,
)
from schedperf.publish.mail.draft import Request, draft, quoted_texts
from schedperf.publish.mail.headers import parse
from schedperf.publish.mail.lint import FIRST_LINES, MOST_BYTES, MOST_LINES, lint
from schedperf.publish.mail.message import Kind, Message
from schedperf.publish.mail.plain import COLUMNS
from schedperf.publish.mail.recipients import Maintainers, Recipients, choose_recipients
from tests.schedperf.publish.mail.records import (
    BAD,
    GOOD,
    HOST,
    NOW,
    make_culprit,
    make_evidence,
    make_finding,
    make_row,
    make_side,
    make_site,
    measured,
)

SITE = make_site()
KINDS: tuple[Kind, ...] = ("report", "fixed", "again", "bisected")
REPORT = "<schedperf.1.0123456789ab.1f4466b8.report.1@lab.example>"
POSTED = "<20261101.1-cover@kernel.example>"
# What has broken mails: line breaks, controls, bidi, encodings, separators, long words, markup,
# and words that look like missing numbers.
PIECES = (
    "\r\nBcc: all@kernel.example", "\n\nbody", "\0", "\x1b[31m", "\u202e", "\u200b", "\ufeff",
    "\t", "→", "±", "µ", "\xa0", "…", "\N{EN DASH}", "-- ", "From ", ".", "..", "=?utf-8?q?x?=",
    "<a@b>", "@", ",", ";", ":", '"', "'", "\\", "`", "$(reboot)", "%", "% ", "5 %", "[", "]",
    "[+1%]", "x" * 200, "https://example.org/" + "y" * 120, "nan", "None", "inf", "#regzbot", "> ",
    "{x}", "%s", "sched/fair: ", "hackbench", "-g", "16", " ", "  ",
)  # fmt: skip
# No mail may have these but in people's names.
FOREIGN = ("é", "你好", "😀", "ä")
HOSTILE = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)
NAMES = st.one_of(st.sampled_from(["hackbench -g 4", "schbench -m 2", "pipe"]), HOSTILE)
# One in a few, since such a request is refused.
FOREIGN_NAMES = st.integers(0, 15).flatmap(lambda one: NAMES if one else st.sampled_from(FOREIGN))
GOOD_PEOPLE = st.sampled_from(
    [
        "Ada Author <ada@kernel.example>",
        "Jörg Müller <joerg@kernel.example>",
        "王小明 <wang@kernel.example>",
        '"Last, First" <last@kernel.example>',
        "plain@kernel.example",
        "N" * 300 + " <long@kernel.example>",
        "ñ" * 200 + " <wide@kernel.example>",
    ]
)
BAD_PEOPLE = st.sampled_from(
    [
        "Eve <eve@kernel.example>\nBcc: x@y",
        "Two <two@at@kernel.example>",
        "\u202eX <x@kernel.example>",
    ]
)
PEOPLE = st.integers(0, 25).flatmap(lambda one: GOOD_PEOPLE if one else BAD_PEOPLE)
RATIOS = st.one_of(
    st.floats(0.01, 100.0), st.sampled_from([0.95, 1.0, 1.0001, 1.05, 1.218, 5803.0, 1e9, 1e-9])
)
SUBJECTS = st.one_of(st.just("sched/fair: Wake the previous CPU first"), FOREIGN_NAMES)
VERDICTS = ("regression", "improvement", "no-change", "inconclusive", "invalid")
CAVEATS = ((), (caveat("emulated", how="QEMU TCG"),), (caveat("blocks"),))
VALUES = st.floats(1e-12, 1e15)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Return a result: any unit, any verdict, any name."""
    ratio, spread, base = draw(RATIOS), draw(st.floats(1.0, 3.0)), draw(VALUES)
    maybe_n = st.one_of(st.none(), st.integers(1, 400))
    return make_row(
        workload=draw(NAMES),
        point=draw(st.one_of(st.just(""), NAMES)),
        metric=draw(NAMES),
        unit=draw(
            st.sampled_from(["s", "1/s", "B/s", "count", "", "J", "hits/op", "cycles per op"])
        ),
        better=draw(st.sampled_from(["lower", "higher", "unknown"])),
        family=draw(st.sampled_from(["primary", "secondary", "informational"])),
        n_base=draw(maybe_n),
        n_new=draw(maybe_n),
        base=base,
        new=base * ratio,
        ratio=ratio,
        ci_low=ratio / spread,
        ci_high=ratio * spread,
        q=draw(st.one_of(st.none(), st.floats(0.0, 1.0))),
        verdict=draw(st.sampled_from(VERDICTS)),
        replication=draw(st.sampled_from(["boots", "runs", "rounds"])),
        definition=draw(st.one_of(st.none(), NAMES)),
        caveats=draw(st.sampled_from(CAVEATS)),
        class_=draw(st.sampled_from([None, "micro", "application"])),
    )


@st.composite
def all_rows(draw: st.DrawFn) -> tuple[Row, ...]:
    """Return 0 to 500 results, by repeating a few; most have a regression."""
    few = draw(st.lists(rows(), max_size=4))
    number = draw(st.sampled_from([0, 1, 3, 23, 24, 25, 60, 499])) if few else 0
    repeated = [few[index % len(few)] for index in range(number)]
    numbered = [
        replace(row, workload=f"{row.workload} -g {index}") for index, row in enumerate(repeated)
    ]
    regressed = [make_row()] if draw(st.integers(0, 9)) else []
    return (*numbered, *regressed)


@st.composite
def commits(draw: st.DrawFn, name: str) -> Commit:
    """Return a commit with any subject and any people."""
    return Commit(
        commit=name,
        name=draw(st.one_of(st.none(), st.just("v6.18"), NAMES)),
        subject=draw(SUBJECTS),
        author=draw(st.one_of(st.none(), PEOPLE)),
        committer=draw(st.one_of(st.none(), PEOPLE)),
        committed="2026-11-10T10:00:00+00:00",
        trailers=tuple(
            Trailer(name="Signed-off-by", value=person)
            for person in draw(st.lists(PEOPLE, max_size=3))
        ),
    )


@st.composite
def seen_steps(draw: st.DrawFn) -> SeenStep:
    """Return a step of a history, with any texts."""
    change = st.one_of(st.none(), st.floats(-0.99, 1e6))
    elsewhere = st.builds(
        StepElsewhere,
        machine=NAMES,
        verdict=st.sampled_from(["regressed", "no regression", "unclear"]),
    )
    return SeenStep(
        step="5e9a1b2c3d4e",
        series="ea53b6fb142d",
        machine_class=draw(NAMES),
        workload=draw(NAMES),
        point=draw(NAMES),
        metric=draw(NAMES),
        unit="s",
        night=draw(st.sampled_from(["2026-11-23", "57", "n" * 300])),
        change=draw(change),
        nights=draw(st.integers(0, 10**6)),
        false_alarms=draw(st.integers(0, 10**6)),
        elsewhere=tuple(draw(st.lists(elsewhere, max_size=8))),
    )


@st.composite
def culprits(draw: st.DrawFn, kind: Kind) -> Culprit:
    """Return a record of any completeness that a mail of a kind can be about."""
    whole = make_culprit()
    places = st.lists(
        st.builds(Elsewhere, result=st.just(measured("small")), machine=NAMES, tree=SUBJECTS),
        max_size=20,
    ).map(tuple)
    reverts = st.one_of(
        st.sampled_from([None, whole.revert, Revert()]), st.builds(Revert, impossible=NAMES)
    )
    is_report = kind == "report"
    links = [
        Links(report=report, posted=posted)
        for report in ((None, REPORT) if is_report else (REPORT,))
        for posted in (None, POSTED)
    ]
    return make_culprit(
        good=draw(commits(GOOD)),
        bad=draw(commits(BAD)),
        is_range=kind != "bisected" and draw(st.booleans()),
        benchmark=draw(NAMES),
        tree=draw(st.one_of(st.none(), st.builds(Tree, name=NAMES, commit=st.none()))),
        merged=draw(st.sampled_from([None, False, True])),
        retest=draw(st.sampled_from([None, whole.retest])),
        bisection=draw(st.sampled_from([None, whole.bisection])),
        tip=draw(st.sampled_from([None, whole.tip])),
        fix=measured("small") if kind == "fixed" else None,
        fixed_by=draw(commits("f" * 40)) if kind == "fixed" else None,
        revert=draw(reverts),
        forced_alignment=draw(st.sampled_from([None, measured("small")])),
        a_a=draw(st.sampled_from([None, measured("small")])),
        regressed_on=draw(places),
        no_change_on=draw(places),
        links=draw(st.sampled_from(links)),
        steps=tuple(draw(st.lists(seen_steps(), max_size=2))),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Return what shall be drafted."""
    kind = draw(st.sampled_from(KINDS))
    options = [
        OptionDifference(side="new", name=f"CONFIG_{draw(NAMES)}", base="y", new=None)
        for _ in range(draw(st.integers(0, 6)))
    ]
    finding = st.builds(
        make_finding,
        clause=NAMES,
        change=NAMES,
        evidence=st.sampled_from([("layout#x",), ("profile#y",)]),
    )
    host = {**HOST, "cpu": {"model": draw(NAMES), "count_online": 8}}
    evidence = make_evidence(
        *draw(all_rows()),
        culprit=draw(culprits(kind)),
        comparability=Comparability(
            comparable=True, compared=1, differences=(), options=tuple(options)
        ),
        findings=tuple(draw(st.lists(finding, max_size=6))),
        sides=(make_side("base", host=host), make_side("new", host=host)),
    )
    return Request(
        evidence=evidence,
        kind=kind,
        site=SITE,
        recipients=Recipients(to=(), cc=(), left_out=()),
        now=NOW,
    )


class Case:
    """A request, which hypothesis shall not print: it may have 500 results."""

    def __init__(self, request: Request) -> None:
        self.request = request


def draft_or_refuse(request: Request) -> Message | str:
    """Return the mail of a request, or the one line that says why there is none."""
    try:
        recipients = choose_recipients(request.evidence.culprit.bad, SITE, Maintainers())
        return draft(replace(request, recipients=recipients))
    except InputError as error:
        return str(error)


def check_refusal(line: str) -> None:
    """Fail unless a refusal is one printable line."""
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 500


def check_mail(request: Request, message: Message) -> None:
    """Fail unless a mail is as the issue demands it."""
    content = message.content
    faults = lint(content, quoted_texts(request.evidence))
    assert not faults, "\n".join([*faults, content.decode()])
    text = content.decode()
    header, _, body = text.partition("\n\n")
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert len(body.splitlines()) <= MOST_LINES
    assert len(content) <= MOST_BYTES
    assert b"\r" not in content
    assert b"\0" not in content
    assert header.isascii()
    mail = parse(content)
    declared = mail.get_content_charset(), mail["Content-Transfer-Encoding"]
    assert declared == (("us-ascii", "7bit") if body.isascii() else ("utf-8", "8bit"))
    assert {name for name in mail if mail.get_all(name, [])[1:]} == set()
    assert "Bcc" not in mail
    assert mail["Message-ID"] == message.metadata.message_id
    _check_thread(request, mail)
    if request.kind == "report":
        _check_first_lines(request.evidence, body)


def _check_thread(request: Request, mail: EmailMessage) -> None:
    culprit = request.evidence.culprit
    is_open = culprit.links.posted and culprit.merged is not True
    if request.kind == "report":
        assert mail["In-Reply-To"] == (POSTED if is_open else None)
    else:
        assert mail["In-Reply-To"] == REPORT
    assert (mail["References"] or "").split()[-1:] == (
        [mail["In-Reply-To"]] if mail["In-Reply-To"] else []
    )


def _check_first_lines(evidence: Evidence, body: str) -> None:
    """Fail unless the first lines have commit, change with CI, machine, tip, revert, and n."""
    first = " ".join(" ".join(body.splitlines()[:FIRST_LINES]).split())
    assert evidence.culprit.id in first
    assert re.search(
        r"(increases .* by|decreases .* by|makes .*) [\d.e+]+%( slower)? "
        r"\[95% CI [-+][\d.e+]+%, [-+][\d.e+]+%\]",
        first,
    )
    assert "8-CPU" in first
    for fact in ("still there: ", "reverted", "elsewhere: ", "other results: "):
        assert fact in first
    assert "95% CI" in first
