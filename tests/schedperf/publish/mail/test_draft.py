# SPDX-License-Identifier: GPL-2.0-or-later
"""Mails that are drafted: what they say, their threads, and what is refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.caveats import caveat
from schedperf.model.errors import InputError
from schedperf.model.sides import OptionDifference, Program, Recording
from schedperf.publish.culprit.checks import check_evidence
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Commit, Elsewhere, FeatureSwitch, Links, Revert, Tree
from schedperf.publish.mail.draft import Request, draft, find_report, quoted_texts
from schedperf.publish.mail.headers import parse
from schedperf.publish.mail.lint import lint
from schedperf.publish.mail.message import Kind, Message
from schedperf.publish.mail.recipients import Maintainers, choose_recipients
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context, make_mail
from tests.schedperf.publish.mail.records import (
    GOOD,
    NOW,
    SWEEP,
    make_comparison,
    make_culprit,
    make_evidence,
    make_finding,
    make_row,
    make_side,
    make_site,
    measured,
    no_change,
)

M1 = """\
Commit 0123456789ab ("sched/fair: Wake the previous CPU first") makes
hackbench -p -l 4000 -g 16 21.8% slower [95% CI +16.1%, +27.9%] on a
2-socket, 96-CPU AMD EPYC (2 nodes).
  still there:    yes, tip/sched/core fedcba987654 of 2026-11-21
  reverted there: back to the parent's time
  elsewhere:      no on a 1-socket, 64-CPU EPYC
  other results:  no other benchmark was run on both kernels

hackbench -p -l 4000 -g N, seconds, lower is better. Mean of 8 boots per
kernel, interleaved. Parent 0a2b65c03e9b.

   N  parent  commit  change            95% CI    tip  tip+revert
   1   0.412   0.415   +0.7%    [-0.9%, +2.3%]  0.413       0.412
   4   0.873   0.951   +8.9%   [+6.0%, +11.9%]  0.947       0.873
  16   1.737   2.117  +21.8%  [+16.1%, +27.9%]  2.109       1.737

Why we believe it: first seen 2026-11-20 (+21.8%); measured again on new
boots (this table, p = 8e-4); bisected from 0a2b65c03e9b in 10 builds, 40
boots, probability >= 0.99.
.config is the same for both.

Correlated with the change; causation not shown:
  system time per message 0.9524 us -> 1.183 us, +24.2% (95% CI [+19%,
    +30%])

Reproduce: boot 0a2b65c03e9b and 0123456789ab in turn, 8 times each, and
on each boot run:
  hackbench -p -l 4000 -g 16
With schedperf, both kernels installed on HOST:
  schedperf ab -o check --on ssh:HOST --kernel base=RELEASE \\
      --kernel new=RELEASE --boots 8 -- hackbench -p -l 4000 -g 16
Results of another machine: docs/for-reporters.md of schedperf.
Runs, .config and this result over time:
  https://lab.example/schedperf/r/1f4466b8/

Machine: 2-socket, 96-CPU AMD EPYC (25-17-1, ucode 0x1000065), SMT on,
  governor performance, boost off, HZ=250, preempt lazy, NUMA balancing
  on, autogroup off, cgroup depth 0, gcc 15.3.0

If a separate commit fixes this, please add
  Reported-by: schedperf <schedperf@lab.example>
  Closes: https://lore.kernel.org/r/<Message-ID of this mail>

A person reads replies. Reply "stop" to end mails about this commit.
{separator}
schedperf, run by Example lab, perf-team@lab.example
"""


def drafted(evidence: Evidence, kind: Kind = "report", **fields: Any) -> Message:
    """Draft a mail, which must pass the lint."""
    site = make_site()
    recipients = choose_recipients(evidence.culprit.bad, site, Maintainers())
    request = Request(
        evidence=evidence, kind=kind, site=site, recipients=recipients, now=NOW, **fields
    )
    message = draft(request)
    assert lint(message.content, quoted_texts(evidence)) == []
    return message


def body_of(message: Message) -> str:
    return message.content.decode().partition("\n\n")[2]


def words_of(message: Message) -> str:
    return " ".join(body_of(message).split())


def test_a_report() -> None:
    message = drafted(make_evidence(findings=(make_finding(),)))
    assert body_of(message) == M1.replace("{separator}", "-- ")
    assert message.metadata.subject == (
        "[tip:sched/core] sched/fair: 0123456789ab: hackbench 21.8% regression"
    )
    mail = parse(message.content)
    assert mail["Message-ID"] == "<schedperf.1.0123456789ab.1f4466b8.report.1@lab.example>"
    assert mail["Date"] == "Fri, 27 Nov 2026 12:00:00 +0000"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "In-Reply-To" not in mail


def test_the_same_request_has_the_same_bytes() -> None:
    assert drafted(make_evidence()).content == drafted(make_evidence()).content


def test_better_and_worse() -> None:
    better = make_row(ratio=0.94, ci_low=0.92, ci_high=0.96, new=1.63, verdict="improvement")
    worse = make_row(metric="schbench p99", workload="schbench", ratio=1.091, ci_low=1.03)
    message = drafted(make_evidence(better, worse))
    assert message.metadata.subject == (
        "[tip:sched/core] sched/fair: 0123456789ab: schbench 9.1% regression"
    )
    text = body_of(message)
    assert "increases schbench p99 by 9.1% [95% CI +3.0%, +27.9%]" in words_of(message)
    assert "schbench, schbench p99, seconds, lower is better." in text
    assert "   1.737   2.117   +9.1%  [+3.0%, +27.9%]  2.109       1.737\n" in text
    assert "\n\nhackbench -p -l 4000 -g 16, seconds, lower is better.\n\n" in text
    assert "   1.737   1.630   -6.0%  [-8.0%, -4.0%]  1.623       1.737\n" in text
    assert "1 benchmark run on both kernels, 1 other change, see below" in words_of(message)
    assert 'If this trade-off is intended, reply "expected".' in words_of(message)


def test_one_benchmark_better_and_worse() -> None:
    better = make_row(
        workload="hackbench -g 4", ratio=0.94, ci_low=0.92, ci_high=0.96, verdict="improvement"
    )
    worse = make_row(workload="hackbench -g 16")
    bad = replace(make_culprit().bad, subject="Wake the previous CPU first")
    culprit = make_culprit(tree=None, bad=bad)
    assert drafted(make_evidence(better, worse, culprit=culprit)).metadata.subject == (
        "0123456789ab: hackbench 21.8% regression, 6.0% better at -g 4"
    )


def test_nothing_regressed() -> None:
    with pytest.raises(InputError, match="no significant regression"):
        drafted(make_evidence(no_change()))


def test_a_range_names_its_bad_end() -> None:
    culprit = make_culprit(
        is_range=True, bisection=None, retest=None, tip=None, revert=None, tree=None
    )
    message = drafted(make_evidence(culprit=culprit))
    assert message.metadata.id.startswith("schedperf.1.0123456789ab.")
    assert message.metadata.subject == "0a2b65c03e9b..0123456789ab: hackbench 21.8% regression"
    text = words_of(message)
    assert text.startswith("A commit in 0a2b65c03e9b..0123456789ab makes hackbench")
    assert "The first bad commit is not known." in text
    assert "still there: the newest kernel of the tree was not measured" in text
    assert "reverted: a revert was not measured" in text
    assert "Not done: retest, bisection." in text
    assert "Reported-by" not in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tip": None}, "was not measured reverted: back to the parent's time"),
        ({"revert": None}, "of 2026-11-21 reverted there: a revert was not measured"),
        (
            {"tip": None, "revert": Revert(impossible="later commits need it.")},
            "was not measured reverted: not possible: later commits need it elsewhere: no on a 1",
        ),
        (
            {"revert": Revert(impossible="later commits need it")},
            "of 2026-11-21 reverted there: not possible: later commits need it elsewhere:",
        ),
    ],
)
def test_what_was_not_measured(fields: dict[str, Any], said: str) -> None:
    text = words_of(drafted(make_evidence(culprit=make_culprit(**fields))))
    assert said in text


@pytest.mark.parametrize(
    ("merged", "posted", "has_tags"),
    [
        (False, None, False),
        (None, None, True),
        (None, "<1@kernel.example>", False),
        (True, "<1@kernel.example>", True),
    ],
)
def test_no_tags_for_an_unmerged_patch(
    *, merged: bool | None, posted: str | None, has_tags: bool
) -> None:
    culprit = make_culprit(merged=merged, links=Links(posted=posted))
    message = drafted(make_evidence(culprit=culprit))
    assert ("Reported-by" in words_of(message)) == has_tags
    assert has_tags or ("In-Reply-To" in parse(message.content)) == (posted is not None)


@pytest.mark.parametrize(
    ("rebuilt", "said"),
    [
        (None, "functions aligned to 64 bytes was not measured."),
        (
            no_change(),
            "removes it (+0.2% [-1.5%, +2.0%]): it depends on the alignment of code.",
        ),
        (make_row(), "does not remove it (regression, +21.8% [+16.1%, +27.9%])."),
    ],
)
def test_only_the_layout_changed(rebuilt: Any, said: str) -> None:
    finding = make_finding(evidence=("layout#sd_llc_id",))
    aligned = None if rebuilt is None else measured("aligned")
    evidence = make_evidence(culprit=make_culprit(forced_alignment=aligned), findings=(finding,))
    if rebuilt is not None:
        comparison = make_comparison(rebuilt, name="aligned")
        evidence = replace(
            evidence, comparisons={**evidence.comparisons, comparison.id: comparison}
        )
    second = body_of(drafted(evidence)).split("\n\n")[1]
    assert second.startswith("The only change found is in the cache-line layout.")
    assert said in " ".join(second.split())
    # With other findings, too, nothing about the alignment is left out.
    comparisons = {
        **evidence.comparisons,
        **make_evidence(findings=(finding, make_finding())).comparisons,
    }
    words = words_of(drafted(replace(evidence, comparisons=comparisons)))
    assert "The only change found" not in words
    assert (said in words) == (rebuilt is not None)


def test_of_a_sweep_the_a_a_line_names_the_result() -> None:
    text = words_of(drafted(make_evidence(culprit=make_culprit(a_a=measured("small")))))
    assert "A/A (parent against parent, -g 16): +0.0% [-1.0%, +1.0%]" in text


def test_other_parts() -> None:
    options = (OptionDifference(side="new", name="CONFIG_HZ", base="250", new=None),)
    comparability = replace(make_comparison().comparability, options=options, equal=())
    switch = FeatureSwitch(feature="PLACE_LAG", result=measured("small"))
    row = make_row(metric="my score", definition="Number of things per second.")
    evidence = make_evidence(
        row,
        culprit=make_culprit(feature_switch=switch, a_a=measured("small")),
        comparability=comparability,
        caveats=(caveat("one-boot", side="base"), caveat("one-boot", side="new")),
    )
    text = words_of(drafted(evidence))
    assert "my score: Number of things per second." in text
    assert ".config differs: CONFIG_HZ=250 -> n." in text
    assert "scheduler feature PLACE_LAG switched on one boot: no-change" in text
    assert "A/A (parent against parent): +0.0% [-1.0%, +1.0%]" in text
    assert "Caveats: one boot of base and new," in text


def test_fixed() -> None:
    fix = make_comparison(no_change(), name="fix")
    culprit = make_culprit(
        fix=measured("fix"),
        fixed_by=Commit(
            commit="fedcba987654" + "4" * 28, subject="sched/fair: Fix it", committed="2026-12-03"
        ),
        links=Links(report="<report@lab.example>"),
    )
    evidence = make_evidence(culprit=culprit)
    evidence = replace(evidence, comparisons={**evidence.comparisons, fix.id: fix})
    message = drafted(evidence, "fixed")
    assert message.metadata.subject == f"Re: {drafted(make_evidence()).metadata.subject}"
    assert body_of(message).startswith(
        'fedcba987654 ("sched/fair: Fix it"), in tip/sched/core since 2026-12-03,\n'
        "fixes this: hackbench -p -l 4000 -g 16 +0.2% [-1.5%, +2.0%] against the\n"
        "parent, within +-3%.\n\n"
        "hackbench -p -l 4000 -g 16, seconds, lower is better. Mean of 8 boots per\n"
        "kernel, interleaved. Parent 0a2b65c03e9b.\n\n"
        "  parent    fix  change          95% CI  commit\n"
        "   1.737  1.741   +0.2%  [-1.5%, +2.0%]   2.117\n\n"
        f"Runs with the fix: https://lab.example/schedperf/c/{fix.id[:16]}/\n"
    )
    assert "Tested-by" not in body_of(message)
    regressed = make_comparison(make_row(), name="fix")
    evidence = replace(evidence, comparisons={**evidence.comparisons, fix.id: regressed})
    with pytest.raises(InputError, match="the fix is regression"):
        drafted(evidence, "fixed")
    with pytest.raises(InputError, match="no measured fix"):
        drafted(make_evidence(), "fixed")


def test_again() -> None:
    elsewhere = tuple(
        Elsewhere(
            result=measured("small"), machine=f"{number}-CPU machine", tree="linux-next/master"
        )
        for number in range(20)
    )
    culprit = make_culprit(links=Links(report="<report@lab.example>"), regressed_on=elsewhere)
    text = words_of(drafted(make_evidence(culprit=culprit), "again"))
    first = 'Commit 0123456789ab ("sched/fair: Wake the previous CPU first") was also measured'
    assert text.startswith(first)
    place = "0-CPU machine, linux-next/master"
    assert f"{place}: hackbench time +0.0% [-1.0%, +1.0%], n = 8+8 boots" in text
    assert "8 more" in text
    with pytest.raises(InputError, match="no further machine"):
        drafted(make_evidence(culprit=make_culprit(no_change_on=())), "again")


def test_bisected() -> None:
    culprit = make_culprit(links=Links(report="<report@lab.example>"))
    text = body_of(drafted(make_evidence(culprit=culprit), "bisected"))
    assert text.startswith("The first bad commit of the reported range is now known.\n\nCommit")
    with pytest.raises(InputError, match="the first bad commit is unknown"):
        drafted(make_evidence(culprit=make_culprit(is_range=True)), "bisected")


def test_bisected_answers_a_report_about_a_range_only() -> None:
    about_commit = make_mail(make_context())
    with pytest.raises(InputError, match=r"report\.1 names this commit already"):
        drafted(make_evidence(), "bisected", earlier=[about_commit])
    # The first bad commit is rarely the end of the range: the record names the report.
    other = make_culprit(is_range=True, bad=Commit(commit="f" * 40, subject="x"))
    about_range = make_mail(make_context(make_evidence(culprit=other)))
    id_ = about_range.metadata.message_id
    culprit = make_culprit(links=Links(report=id_))
    assert find_report(culprit, [about_range]) == about_range
    assert find_report(make_culprit(), [about_range]) is None
    bisected = drafted(make_evidence(culprit=culprit), "bisected", earlier=[about_range])
    assert f"In-Reply-To: {id_}".encode() in bisected.content
    # A reply to the report about the range silences the mail about the commit, too.
    assert about_range.thread == bisected.metadata.thread == "f" * 12
    assert bisected.metadata.commit == "0123456789ab"


def test_a_posted_series_is_answered() -> None:
    culprit = make_culprit(merged=False, links=Links(posted="20261101.1@kernel.example"))
    mail = parse(drafted(make_evidence(culprit=culprit)).content)
    assert mail["In-Reply-To"] == mail["References"] == "<20261101.1@kernel.example>"
    merged = make_culprit(merged=True, links=Links(posted="20261101.1@kernel.example"))
    assert "In-Reply-To" not in parse(drafted(make_evidence(culprit=merged)).content)


def test_a_long_message_id_is_on_a_line_of_its_own() -> None:
    posted = f"<20261101-{'sched-fair-' * 7}v1-1-0123456789ab@kernel.example>"
    culprit = make_culprit(merged=False, links=Links(posted=posted))
    message = drafted(make_evidence(culprit=culprit))
    assert f"\nIn-Reply-To:\n {posted}\nReferences:\n {posted}\n" in message.content.decode()
    mail = parse(message.content)
    assert mail["In-Reply-To"].strip() == mail["References"].strip() == posted


def test_a_reply_follows_the_own_report() -> None:
    culprit = make_culprit(merged=False, links=Links(posted="20261101.1@kernel.example"))
    report = make_context(make_evidence(culprit=culprit))
    earlier = [make_mail(report)]
    message = drafted(
        make_evidence(culprit=culprit), "again", earlier=earlier, report=report.message.content
    )
    mail = parse(message.content)
    own = report.message.metadata.message_id
    assert mail["In-Reply-To"] == own
    assert mail["References"].split() == ["<20261101.1@kernel.example>", own]


def test_a_report_that_was_sent_elsewhere_is_answered_before_one_that_is_held() -> None:
    context = make_context()
    own, other = context.message.metadata.message_id, "<report@lab.example>"
    evidence = make_evidence(culprit=make_culprit(links=Links(report=other)))
    held, sent = make_mail(context, "held"), make_mail(context, "sent")
    for mail, answered in ((held, other), (sent, own)):
        message = drafted(evidence, "again", earlier=[mail])
        assert parse(message.content)["In-Reply-To"] == answered


def test_a_reply_needs_a_report() -> None:
    with pytest.raises(InputError, match="draft the report first"):
        drafted(make_evidence(), "again")


@pytest.mark.parametrize("posted", ["<a b@c>", "a@b\nBcc: x@y", "none", "<a@b>, <c@d>", "ä@b"])
def test_invalid_message_ids_are_refused(posted: str) -> None:
    culprit = make_culprit(merged=False, links=Links(posted=posted))
    with pytest.raises(InputError, match="invalid Message-ID"):
        drafted(make_evidence(culprit=culprit))


def test_numbers_count_what_was_sent() -> None:
    culprit = make_culprit(links=Links(report="<report@lab.example>"))
    evidence = make_evidence(culprit=culprit)
    again = make_context(evidence, kind="again")
    assert again.message.metadata.id.endswith(".again.1")
    sent, held = make_mail(again, "sent"), make_mail(again, "held")
    assert drafted(evidence, "again", earlier=[sent]).metadata.id.endswith(".again.2")
    assert drafted(evidence, "again", earlier=[held]).metadata.id.endswith(".again.1")
    report = make_context()
    sent, withdrawn = make_mail(report, "sent"), make_mail(report, "withdrawn")
    assert drafted(make_evidence(), earlier=[sent]).metadata.id.endswith(".report.1")
    assert drafted(make_evidence(), earlier=[withdrawn]).metadata.id.endswith(".report.2")


def test_names_of_people_may_have_other_letters() -> None:
    bad = replace(
        make_culprit().bad,
        author="Jörg Müller <joerg@kernel.example>",
        subject="sched: Add the rule of Müller",
    )
    message = drafted(make_evidence(culprit=make_culprit(bad=bad)))
    mail = parse(message.content)
    assert mail.get_content_charset() == "utf-8"
    assert mail["Content-Transfer-Encoding"] == "8bit"
    assert mail["To"] == "Jörg Müller <joerg@kernel.example>"
    assert message.content.partition(b"\n\n")[0].isascii()


@pytest.mark.parametrize(
    ("subject", "quoted"),
    [
        ("sched: 你好", "sched: ??"),
        ("sched: naïve → 2²", "sched: naive -> 22"),
        ("sched: \N{ZERO WIDTH SPACE}é\N{SUPERSCRIPT TWO}", "sched: e2"),
        ("sched: Müller's naïve rule", "sched: Müller's naive rule"),
    ],
)
def test_a_subject_of_a_commit_is_quoted_in_ascii(subject: str, quoted: str) -> None:
    bad = replace(make_culprit().bad, subject=subject, author="J. Müller <j@kernel.example>")
    message = drafted(make_evidence(culprit=make_culprit(bad=bad)))
    assert body_of(message).startswith(f'Commit 0123456789ab ("{quoted}") makes')
    assert parse(message.content).get_content_charset() == (
        "us-ascii" if quoted.isascii() else "utf-8"
    )


def test_other_letters_of_a_name_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"U\+4F60 in 'hackbench 你好.* \(expected ASCII\); rename"
    ):
        drafted(make_evidence(make_row(workload="hackbench 你好")))


def test_long_texts_are_cut() -> None:
    bad = replace(make_culprit().bad, subject=f"sched/{'x' * 9_000}: {'y ' * 500}")
    culprit = make_culprit(bad=bad, benchmark="b" * 500, tree=Tree(name="t" * 500))
    rows = [make_row(workload=f"{'w' * 3000} {number}", metric="m" * 1000) for number in range(60)]
    message = drafted(make_evidence(*rows, culprit=culprit))
    assert len(message.content) < 12_000
    assert "36 more results" in body_of(message)


def test_24_of_many_results_worst_first() -> None:
    rows = [
        make_row(workload=f"hackbench -g {number}", ratio=1.0 + number / 100, ci_high=9.0)
        for number in range(10, 50)
    ]
    message = drafted(make_evidence(*rows))
    text = body_of(message)
    assert "16 more results, see https://lab.example/schedperf/r/" in text
    assert text.index("+49.0%  ") < text.index("+26.0%  ")
    assert "+25.0%  " not in text


def test_a_metric_that_many_benchmarks_have_is_named_with_its_benchmark() -> None:
    worse = make_row(metric="sec/op", workload="DirectSend -x")
    other = make_row(metric="B/s", workload="Copy", better="higher", ratio=1.1, ci_low=1.05,
                     ci_high=1.15, verdict="improvement")  # fmt: skip
    message = drafted(make_evidence(worse, other))
    assert "increases sec/op of DirectSend -x by 21.8%" in words_of(message)
    assert "DirectSend 21.8% regression" in message.metadata.subject
    again = replace(other, workload="DirectSend -x", metric="B/op")
    culprit = make_culprit(tree=None)
    subject = drafted(make_evidence(worse, again, culprit=culprit)).metadata.subject
    assert "sched/fair: 0123456789ab: sec/op of DirectSend 21.8% regression" in subject


def test_a_retest_without_boots_is_not_said_to_be_on_fresh_ones() -> None:
    sides = tuple(make_side(name, host={"cpu": {"count_online": 4}}) for name in ("base", "new"))
    evidence = make_evidence(sides=sides)
    assert "measured again (this table, p = 8e-4)" in words_of(drafted(evidence))
    assert "boots of the retest not recorded" in failure(check_evidence(evidence)[0])


def test_a_revert_without_the_tip_is_called_so() -> None:
    text = body_of(drafted(make_evidence(culprit=make_culprit(tip=None))))
    assert "95% CI  revert\n" in text


def test_results_of_others_have_no_command_of_schedperf() -> None:
    sides = tuple(make_side(name, host={}, recorded_by=None) for name in ("base", "new"))
    text = body_of(drafted(make_evidence(make_row(point="groups=16"), sides=sides)))
    assert "on a machine that is not recorded" in " ".join(text.split())
    assert "on each boot run (groups=16):\n  hackbench -p" in text
    assert "schedperf ab" not in text
    sides = tuple(make_side(name, imported="mmtests") for name in ("base", "new"))
    text = words_of(drafted(make_evidence(sides=sides)))
    assert "mmtests ran this benchmark, and schedperf imported the results: hackbench -p" in text
    assert "Reproduce: run that configuration of mmtests on 0a2b65c03e9b and on 0123" in text
    assert "schedperf ab" not in text


@pytest.mark.parametrize("workload", ["", " ", "\x00", "\u202e\n"])
def test_a_command_that_is_not_recorded_is_stated(workload: str) -> None:
    text = body_of(drafted(make_evidence(make_row(workload=workload, point="groups=16"))))
    said = "on each boot run the same benchmark (groups=16). Its command is not recorded."
    assert said in " ".join(text.split())
    assert "schedperf ab" not in text


def test_an_unknown_order_is_stated() -> None:
    row = make_row(replication="runs", values_base=(), values_new=())
    said = "Mean of 8 runs per kernel, order not recorded. Parent"
    assert said in words_of(drafted(make_evidence(row)))


def test_a_definition_without_a_word_is_left_out() -> None:
    row = make_row(metric="time", definition=" : \u202e")
    assert "\ntime:" not in body_of(drafted(make_evidence(row)))


@pytest.mark.parametrize(
    ("unit", "shown"),
    [("1/s", "thousands per second"), ("count", "thousands"), ("B", "KiB"), ("ops", "ops")],
)
def test_units_are_words(unit: str, shown: str) -> None:
    row = make_row(unit=unit, base=2500.0, new=2117.0, ratio=0.85, ci_low=0.8, better="higher")
    assert f"-g 16, {shown}, higher is better." in words_of(drafted(make_evidence(row)))


def test_a_sweep_keeps_its_order() -> None:
    text = body_of(drafted(make_evidence(*SWEEP)))
    assert text.index("+0.7%") < text.index("+8.9%") < text.index("+21.8%  [")
    assert GOOD[:12] in text


def test_what_a_table_of_numbers_does_not_record() -> None:
    row = make_row(values_base=(), values_new=(), n_base=None, n_new=None, replication="runs")
    sides = (make_side("base", host={}), make_side("new", host={}))
    text = words_of(drafted(make_evidence(row, sides=sides)))
    assert "[95% CI +16.1%, +27.9%] on a machine that is not recorded." in text
    assert "Number of runs not recorded, order not recorded. Parent 0a2b65c03e9b." in text
    assert "Machine: not recorded." in text
    assert "interleaved" not in text
    assert "None" not in text


def test_the_effort_to_reproduce() -> None:
    recording = Recording(command=("ab",), minutes=6.2, programs=())
    sides = tuple(make_side(name, recordings=(recording,)) for name in ("base", "new"))
    text = words_of(drafted(make_evidence(sides=sides)))
    assert "Reproduce (about 12 minutes): boot 0a2b65c03e9b and" in text
    unknown = (make_side("base", recordings=(replace(recording, minutes=None),)), sides[1])
    assert "Reproduce: boot 0a2b65c03e9b and" in words_of(drafted(make_evidence(sides=unknown)))


def test_only_the_own_recording_counts_of_several_benchmarks() -> None:
    workload = make_evidence().headline().workload
    own = Recording(command=("ab", "--", *workload.split()), minutes=2.0, programs=())
    other = Recording(command=("ab", "--", "schbench"), minutes=90.0, programs=())
    sides = tuple(make_side(name, recordings=(own, other)) for name in ("base", "new"))
    assert "Reproduce (about 4 minutes): boot" in words_of(drafted(make_evidence(sides=sides)))


def test_the_version_of_the_program_is_named() -> None:
    program = Program(name="hackbench", version="2.5", sha256="0" * 64)
    recording = Recording(command=("ab",), minutes=6.2, programs=(program,))
    sides = tuple(make_side(name, recordings=(recording,)) for name in ("base", "new"))
    text = words_of(drafted(make_evidence(sides=sides)))
    assert "hackbench -p -l 4000 -g N (version 2.5), seconds, lower is better." in text
    unknown = replace(recording, programs=(replace(program, version=None),))
    sides = tuple(make_side(name, recordings=(unknown,)) for name in ("base", "new"))
    assert "-g N, seconds" in words_of(drafted(make_evidence(sides=sides)))
