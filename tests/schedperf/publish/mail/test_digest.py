# SPDX-License-Identifier: GPL-2.0-or-later
"""The weekly digest: causes, not comparisons; weak and empty cases are lines."""

from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from schedperf.history.questions.balance import balance_of
from schedperf.history.questions.history import open_history
from schedperf.history.questions.lost import LastNight, Lost, LostMachine
from schedperf.history.questions.week import (
    NightOutcome,
    Week,
    parse_week,
    read_week,
)
from schedperf.model.errors import InputError
from schedperf.publish.mail.checks.form import check_digest
from schedperf.publish.mail.headers import parse
from schedperf.publish.mail.message import Message
from schedperf.publish.mail.render.digest import draft_digest
from tests.schedperf.publish.mail.checks.cases import make_context, make_mail
from tests.schedperf.publish.mail.records import NOW, make_site
from tests.step_stores import OTHER_STEP, PLACE, decide, make_step_store

TODAY = date(2026, 11, 30)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Week:
    """The week of a store with a step of two results, and with one that was not reproduced."""
    directory = make_step_store(tmp_path_factory.mktemp("lab"), state="reproduced")
    decide(directory, "groups=4", step=OTHER_STEP, change=0.085)
    decide(directory, "groups=1", step="0ff0ff0ff0ff", state="not reproduced", change=0.01)
    with open_history(directory.folder) as history:
        return read_week(history, parse_week("2026-W48", TODAY), TODAY)


def empty(**changes: object) -> Week:
    """Return a week without anything."""
    default: dict[str, object] = {
        "dates": parse_week("2026-W48", TODAY), "ended": 0, "failed": (), "days": 0, "series": 0,
        "machines": 0, "sensitivity": None, "new": (), "open": (), "suspected": (),
        "balance": balance_of([]),
        "lost": Lost(
            series=(), machines=(), followed=0,
            night=LastNight(night=None, days=None, is_late=False),
        ),
    }  # fmt: skip
    return Week(**{**default, **changes})  # type: ignore[arg-type] # as above


def drafted(week: Week) -> Message:
    message = draft_digest(week, [make_mail(make_context(), "held")], make_site(), NOW)
    assert check_digest(message).passed, check_digest(message)
    return message


def words_of(message: Message) -> str:
    return " ".join(message.content.decode().partition("\n\n")[2].split())


def test_steps_of_one_cause_are_one_regression(week: Week) -> None:
    message = drafted(week)
    assert message.metadata.subject == "[schedperf] 2026 week 48: 1 regression, 2 nights"
    assert message.metadata.to == ("sched-perf@lab.example",)
    text = words_of(message)
    assert "nights 2 nights, 2026-11-23 to 2026-11-29: 3 series on 1 machine" in text
    assert ", 2 results on 1 machine, since 2026-11-23 (6 days): " in text
    assert "3 suspected steps: 1 reproduced, 1 not reproduced, 1 not retested" in text
    assert "0ff0" not in text
    assert "balance 1 regression and 0 improvements among the last changes found" in text
    assert "mails 1 held, 0 approved, 0 sent" in text


def test_the_next_week_says_that_it_is_open(week: Week) -> None:
    later = replace(week, new=(), open=week.new, suspected=())
    message = drafted(later)
    assert message.metadata.subject == (
        f"[schedperf] 2026 week 48: no new regressions, {len(week.new)} still open, 2 nights"
    )
    assert "regressed 0 improved 0" in words_of(message)
    assert "open +" in words_of(message)


def test_an_empty_week_is_a_digest_too() -> None:
    message = drafted(empty())
    assert message.metadata.subject == "[schedperf] 2026 week 48: no results, 0 nights"
    text = words_of(message)
    assert "smallest step of one night unknown" in text
    assert "balance no change found lost 0 mails" in text


def test_what_is_lost_is_listed(week: Week) -> None:
    lost = Lost(
        series=(),
        machines=(LostMachine(machine="arm-32", last="2026-11-20", nights=9),),
        night=LastNight(night="2026-11-24", days=6, is_late=True),
        followed=3,
    )
    outcome = NightOutcome(
        machine="2x48", job="hackbench", night="2026-11-25", outcome="new: did not boot"
    )
    message = drafted(replace(week, lost=lost, ended=7, failed=(outcome,)))
    assert message.metadata.subject.endswith("1 regression, 6 of 7 nights")
    text = words_of(message)
    assert "lost the lab has no result since 2026-11-24" in text
    assert "arm-32 has no result since 2026-11-20 (9 nights)" in text
    assert "2x48, hackbench, 2026-11-25: new: did not boot" in text


def test_many_are_counted(week: Week) -> None:
    text = words_of(drafted(replace(week, open=week.new * 100)))
    assert "92 more" in text


def test_one_digest_a_week(week: Week) -> None:
    first, again = drafted(week), drafted(empty())
    assert first.metadata.message_id == again.metadata.message_id
    assert parse(first.content)["Message-ID"].startswith("<schedperf.1.2026-w48.")


def test_a_week_has_seven_days() -> None:
    dates = parse_week("2026-W48", TODAY)
    assert (dates.first, dates.last) == (PLACE, PLACE + timedelta(days=6))
    nights = [f"{PLACE + timedelta(days=offset)}" for offset in range(-2, 10)]
    assert sum(map(dates.has, nights)) == 7
    # On Monday, the week that has ended.
    assert parse_week(None, TODAY).name == "2026-W48"
    assert parse_week(None, TODAY - timedelta(days=1)).name == "2026-W48"
    assert parse_week(None, TODAY + timedelta(days=1)).name == "2026-W49"


@pytest.mark.parametrize("text", ["", "48", "2026-48", "2026-W54", "2026-W00", "x" * 999, "\x1b"])
def test_what_is_no_week(text: str) -> None:
    with pytest.raises(InputError, match="--week: invalid") as refused:
        parse_week(text, TODAY)
    assert len(str(refused.value)) < 120
    assert str(refused.value).isprintable()


def test_hostile_names_are_refused_or_cleaned() -> None:
    outcome = NightOutcome(
        machine="m", job="j", night="2026-11-25", outcome="a\r\nBcc: x@y \x1b[31m" + "x" * 500
    )
    drafted(empty(ended=2, failed=(outcome, outcome)))
    with pytest.raises(InputError, match="expected ASCII"):
        drafted(empty(ended=1, failed=(replace(outcome, machine="机"),)))
