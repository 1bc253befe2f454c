# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``new``: a duplicate for another tree (LKP, .NET) becomes a reply, at most one a week."""

from msgspec.structs import replace

from schedperf.publish.culprit.record import Elsewhere, Links, Tree
from schedperf.publish.mail.checks.new import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context, make_mail
from tests.schedperf.publish.mail.records import make_culprit, make_evidence, measured

SENT = make_mail(make_context())
OTHER = replace(SENT.metadata, message_id="<other@lab.example>", culprit="ffffffff")


def test_the_same_commit_in_another_tree_is_held() -> None:
    evidence = make_evidence(culprit=make_culprit(tree=Tree(name="linux-next/master")))
    context = make_context(evidence, earlier=[SENT._replace(metadata=OTHER)])
    assert "draft --kind again as a reply" in failure(check(context))


def test_a_commit_that_was_reported_elsewhere_is_held() -> None:
    evidence = make_evidence(culprit=make_culprit(links=Links(report="<1@lab.example>")))
    assert "was reported" in failure(check(make_context(evidence)))


def test_the_same_evidence_about_a_patch_with_another_hash_is_held() -> None:
    other = replace(OTHER, commit="9" * 12)
    context = make_context(earlier=[SENT._replace(metadata=other)])
    assert "the same evidence" in failure(check(context))


def test_another_commit_may_make_the_same_benchmark_slower() -> None:
    bad = replace(make_culprit().bad, commit="9" * 40, subject="sched/fair: Do something else")
    evidence = make_evidence(culprit=make_culprit(bad=bad))
    assert check(make_context(evidence, earlier=[SENT])).passed


def test_a_withdrawn_report_does_not_count() -> None:
    assert check(make_context(earlier=[make_mail(make_context(), "withdrawn")])).passed


def test_one_reply_a_week() -> None:
    evidence = make_evidence(culprit=make_culprit(links=Links(report="<1@lab.example>")))
    again = make_context(evidence, kind="again")
    other = replace(again.message.metadata, message_id="<other@lab.example>", fingerprint="other")
    recent = make_mail(again)._replace(metadata=other)
    assert "mail this week" in failure(
        check(make_context(evidence, kind="again", earlier=[recent]))
    )
    old = make_mail(again, when="2026-11-01T12:00:00+00:00")._replace(metadata=other)
    assert check(make_context(evidence, kind="again", earlier=[old])).passed


def test_a_further_machine_is_new_evidence() -> None:
    culprit = make_culprit(links=Links(report="<1@lab.example>"))
    sent = make_mail(
        make_context(make_evidence(culprit=culprit), kind="again"), when="2026-11-01T12:00:00+00:00"
    )
    same = make_context(make_evidence(culprit=culprit), kind="again", earlier=[sent])
    assert "the same evidence" in failure(check(same))
    elsewhere = (Elsewhere(result=measured("tip"), machine="4-CPU Arm"),)
    more = make_evidence(culprit=replace(culprit, regressed_on=elsewhere))
    assert check(make_context(more, kind="again", earlier=[sent])).passed
