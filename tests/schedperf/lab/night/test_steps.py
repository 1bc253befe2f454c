# SPDX-License-Identifier: GPL-2.0-or-later
"""Single steps of a night, without a machine."""

from pathlib import Path

import pytest

from schedperf.lab.night.job import read_job
from schedperf.lab.night.process import Commands
from schedperf.lab.night.state import Night, Store
from schedperf.lab.night.steps import Context, draft, prepare
from schedperf.model.errors import InputError
from tests.schedperf.lab.night.test_status import JOB


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "night.toml").write_text(JOB)
    job = read_job(tmp_path / "night.toml")
    night = Night(id="2026-11-27", machine="lab", job="hackbench")
    return Context(job, Store(tmp_path), night, Commands(tmp_path, 0), None, again=False)


def test_without_settings_for_mails_the_night_ends_with_its_result(context: Context) -> None:
    result = draft(context)
    assert (
        result.text == f"no mail, because {context.outbox}/mail.toml is missing; see docs/mail.md"
    )
    assert result.outcome is not None
    assert result.outcome.startswith("regression, retested; no mail, because")
    assert result.outcome.endswith(
        f"draft --outbox {context.outbox} {context.file('culprit.json')}"
    )


def test_settings_for_mails_are_checked_before_the_night(context: Context) -> None:
    context.outbox.mkdir(parents=True)
    (context.outbox / "mail.toml").write_text("allow = 3\n")
    with pytest.raises(InputError, match=r"mail.toml: .*; edit the file"):
        prepare(context)
