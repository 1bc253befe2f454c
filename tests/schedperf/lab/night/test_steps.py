# SPDX-License-Identifier: GPL-2.0-or-later
"""Single steps of a night, without a machine."""

from pathlib import Path

import pytest

from schedperf.lab.night.after import digest, draft
from schedperf.lab.night.context import Context
from schedperf.lab.night.lab import read_lab
from schedperf.lab.night.process import Commands
from schedperf.lab.night.state import Night, Store
from schedperf.lab.night.steps import prepare
from schedperf.model.errors import InputError
from tests.schedperf.lab.night.test_lab import MAIL
from tests.schedperf.lab.night.test_status import JOB


def make_context(folder: Path, text: str) -> Context:
    """Return what the steps of a night share, of the first machine and tree."""
    (folder / "night.toml").write_text(text)
    lab = read_lab(folder / "night.toml")
    night = Night(id="2026-11-27", machine=lab.machines[0].name, job="hackbench")
    return Context(
        lab,
        lab.machines[0],
        lab.trees[0],
        store=Store(folder),
        night=night,
        commands=Commands(folder),
        previous=None,
        again=False,
    )


def test_without_settings_for_mails_no_mail_is_drafted(tmp_path: Path) -> None:
    context = make_context(tmp_path, JOB)
    assert draft(context).text.startswith("no mail, because the lab has no table [mail]")
    assert digest(context).text == "none, because no mails are drafted"


def test_nothing_about_private_trees_is_mailed(tmp_path: Path) -> None:
    context = make_context(tmp_path, JOB + "[kernel]\nprivate = true\n")
    assert draft(context).text == "no mail, because the trees are private"


def test_settings_for_mails_are_checked_before_the_night(tmp_path: Path) -> None:
    context = make_context(tmp_path, JOB)
    context.lab.outbox.mkdir(parents=True)
    (context.lab.outbox / "mail.toml").write_text("allow = 3\n")
    with pytest.raises(InputError, match=r"mail.toml: .*; edit the file"):
        prepare(context)


def test_the_outbox_gets_a_link_to_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDPERF_SSH", "sh -c 'exit 255'")
    context = make_context(tmp_path, JOB + MAIL)
    link = context.lab.outbox / "lab.toml"
    link.parent.mkdir(parents=True)
    link.symlink_to("elsewhere")
    with pytest.raises(Exception, match="not reachable"):
        prepare(context)
    assert link.readlink() == tmp_path / "night.toml"
