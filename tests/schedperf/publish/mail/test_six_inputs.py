# SPDX-License-Identifier: GPL-2.0-or-later
"""Mails about six kinds of recordings: a reader finds what was measured, and each command works."""

import re

import pytest

from schedperf.commands._printed import check_command
from schedperf.publish.mail.draft import Request, draft, quoted_texts
from schedperf.publish.mail.lint import lint
from schedperf.publish.mail.message import Kind, Message
from schedperf.publish.mail.recipients import Maintainers, recipients_of_record
from schedperf.publish.mail.render.reproduce import printed_commands
from tests.mail_inputs import NAMES, evidence_of
from tests.schedperf.publish.mail.records import NOW, make_site

_NUMBER = re.compile(r"[-+]?\d+\.\d+%")


def mail_of(name: str) -> Message:
    evidence, site = evidence_of(name), make_site()
    recipients = recipients_of_record(evidence.culprit, site, Maintainers())
    kind: Kind = "fixed" if name == "fix" else "report"
    return draft(Request(evidence=evidence, kind=kind, site=site, recipients=recipients, now=NOW))


def body_of(name: str) -> str:
    return mail_of(name).content.decode().partition("\n\n")[2]


def words_of(name: str) -> str:
    return " ".join(body_of(name).split())


@pytest.mark.parametrize("name", NAMES)
def test_form(name: str) -> None:
    message = mail_of(name)
    assert lint(message.content, quoted_texts(evidence_of(name))) == []
    lines = message.content.decode().splitlines()
    assert max(map(len, lines)) <= 78
    assert not any("{" in line for line in lines)
    assert "..." not in message.metadata.subject


@pytest.mark.parametrize("name", NAMES)
def test_every_printed_command_is_accepted(name: str) -> None:
    commands = [*printed_commands(body_of(name))]
    assert len(commands) == (name not in ("fix", "mmtests"))
    assert [check_command(command) for command in commands] == [None] * len(commands)


@pytest.mark.parametrize("name", NAMES)
def test_every_percentage_is_in_the_record(name: str) -> None:
    evidence = evidence_of(name)
    rows = [row for each in evidence.comparisons.values() for row in each.rows]
    known = {
        f"{100.0 * (ratio - 1.0):+.1f}%"
        for row in rows
        for ratio in (row.ratio, row.ci_low, row.ci_high)
        if ratio is not None
    }
    bare = {figure.lstrip("+-") for figure in known}
    for figure in _NUMBER.findall(body_of(name)):
        assert figure in (known if figure[0] in "+-" else bare)


def test_a_sweep_has_one_table_with_a_column_for_its_point() -> None:
    text = body_of("hackbench")
    assert (
        "   N  parent  commit  change            95% CI    tip  tip+revert\n"
        "   1   0.412   0.415   +0.8%    [+0.3%, +1.3%]  0.415       0.413\n"
        "   4   0.877   0.951   +8.5%    [+7.9%, +9.1%]  0.956       0.870\n"
        "  16   1.740   2.110  +21.3%  [+20.7%, +21.9%]  2.121       1.736\n"
    ) in text
    words = words_of("hackbench")
    assert "makes hackbench -p -l 4000 -g 16 21.3% slower [95% CI +20.7%, +21.9%]" in words
    assert "(1 node, 25 GiB)" in words
    assert "still there: yes, tip/sched/core 919f919f919f of 2026-11-25" in words
    assert "reverted there: back to the parent's time" in words
    assert "other results: 1 benchmark run on both kernels, no other change" in words
    assert "Mean of 4 boots per kernel x 2 runs, interleaved. Parent c07cac21ad45." in words
    assert "in turn, 4 times each, and on each boot run twice: hackbench -p -l 4000 -g 16" in words
    assert ".config is the same for both." in words
    assert "sched/pipe" not in words


def test_percentiles_keep_their_names() -> None:
    text = body_of("schbench")
    assert mail_of("schbench").metadata.subject == (
        "[tip:sched/core] sched/fair: 4ab2d1379d59: schbench 30.7% regression"
    )
    for metric in ("wakeup latency p99   ms", "wakeup latency p50   us", "request latency p90  ms"):
        assert f"\n  {metric}" in text


def test_a_long_metric_keeps_the_prefix_of_the_subject() -> None:
    assert mail_of("stress-ng").metadata.subject == (
        "[tip:sched/core] sched/fair: 4ab2d1379d59: stress-ng 12.5% regression"
    )
    assert "\n  switch bogo ops per real time  " in body_of("stress-ng")
    assert "[tip:sched/core] sched/fair" in mail_of("netperf").metadata.subject


def test_an_imported_result_names_what_ran_it() -> None:
    words = words_of("mmtests")
    assert "mmtests ran this benchmark, and schedperf imported the results" in words
    assert "schedperf ab" not in words
    assert "\n  groups  parent  commit" in body_of("mmtests")


def test_a_fix_links_to_its_page() -> None:
    evidence = evidence_of("fix")
    assert evidence.culprit.fix is not None
    words = words_of("fix")
    assert words.startswith('d0f1d0f1d0f1 ("sched/fair: Pull percpu threads again"), in tip/sched')
    page = f"https://lab.example/schedperf/c/{evidence.culprit.fix.comparison[:16]}/"
    assert f"Runs with the fix: {page}" in words
    assert "N parent fix change 95% CI commit" in words
