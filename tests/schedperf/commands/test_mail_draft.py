# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf mail draft``: a held mail, what holds it, and one line for what is wrong."""

import json
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.model.json_text import to_json
from schedperf.publish.culprit.json import write_culprit
from schedperf.publish.mail.outbox import Outbox
from tests.schedperf.publish.mail.records import make_comparison, make_comparisons, make_culprit
from tests.step_stores import PLACE, decide, make_step_store

SITE = """\
allow = ["@kernel.example"]
[site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox/mail.toml").write_text(SITE)
    (tmp_path / "culprit.json").write_bytes(write_culprit(make_culprit()))
    for number, comparison in enumerate(make_comparisons().values()):
        (tmp_path / f"{number}.json").write_text(to_json(comparison))
    return tmp_path


@pytest.fixture
def draft(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["mail", "draft", *words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_mail_is_held_with_what_holds_it(draft: Run, folder: Path) -> None:
    status, out, err = draft("culprit.json")
    assert status == 0
    (mail,) = (folder / "outbox/held").glob("*.eml")
    assert out.startswith(f"outbox/held/{mail.name}: held; [tip:sched/core]")
    assert "  form: links not checked: draft with --check-links\n" in err
    assert "  fresh: " in err
    record = json.loads(mail.with_suffix(".json").read_text())
    failed = [check["name"] for check in record["metadata"]["checks"] if not check["passed"]]
    assert failed == ["fresh", "form"]


def test_maintainers_of_a_tree_need_a_repository(draft: Run) -> None:
    status, _, err = draft("culprit.json", "--maintainers-from", "v6.18")
    assert status == 2
    assert "--maintainers-from: given without --repo; add --repo DIR" in err


def test_the_same_is_drafted_once(draft: Run, folder: Path) -> None:
    draft("culprit.json")
    before = {path: path.read_bytes() for path in (folder / "outbox/held").iterdir()}
    status, out, err = draft("culprit.json")
    assert (status, out) == (0, "")
    assert "already held; to draft it again: schedperf mail withdraw" in err
    assert {path: path.read_bytes() for path in (folder / "outbox/held").iterdir()} == before


def test_a_sent_mail_is_not_drafted_again(draft: Run, folder: Path) -> None:
    draft("culprit.json")
    outbox = Outbox(folder / "outbox")
    (mail,) = outbox.mails()
    outbox.move(mail, "sent", "a test")
    _, out, err = draft("culprit.json")
    assert out == ""
    assert "already sent; it is sent once" in err
    assert "withdraw" not in err


def test_to_a_file_or_stdout(draft: Run, folder: Path) -> None:
    status, out, _ = draft("culprit.json", "-o", "mail.eml")
    assert (status, out) == (0, "")
    assert (folder / "mail.eml").read_bytes().startswith(b"From: schedperf")
    assert not (folder / "outbox/held").exists()
    status, _, err = draft("culprit.json", "-o", "no/such/mail.eml")
    assert status == 2
    assert "no/such/mail.eml" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
def test_a_mail_is_not_written_through_a_link_of_another_user(draft: Run, folder: Path) -> None:
    victim, link = folder / "victim", folder / "mail.eml"
    victim.write_text("precious")
    link.symlink_to(victim)
    os.lchown(link, 65534, 65534)
    status, out, err = draft("culprit.json", "-o", "mail.eml")
    assert (status, out, victim.read_text()) == (2, "", "precious")
    assert "mail.eml is a link of another user" in err


def test_a_digest(draft: Run, folder: Path) -> None:
    make_step_store(folder)
    status, out, err = draft("--digest", "--store", "history", "--week", "2026-W48")
    assert (status, err) == (0, "")
    assert "[schedperf] 2026 week 48: 1 regression, 2 nights" in out
    # mail.toml may name the store.
    toml = folder / "outbox/mail.toml"
    toml.write_text(f'store = "../history"\n{toml.read_text()}')
    status, out, _ = draft("--digest", "--week", "2026-W47")
    assert status == 0
    assert "[schedperf] 2026 week 47: no new regressions, 3 nights" in out


def test_a_comparison_that_does_not_belong_to_the_record(draft: Run, folder: Path) -> None:
    other = make_comparison(name="other")
    (folder / "other.json").write_text(to_json(other))
    status, _, err = draft("culprit.json", "other.json")
    assert status == 2
    assert "other.json: culprit.json does not refer to this comparison" in err
    assert draft("culprit.json", "0.json")[0] == 0


def test_a_store_that_has_only_regressions_holds_a_mail(draft: Run, folder: Path) -> None:
    directory = make_step_store(folder)
    for number in range(8):
        night = f"{PLACE - timedelta(days=number)}"
        decide(directory, step=f"5e{number}", night=night)
    _, _, err = draft("culprit.json", "--store", "history")
    assert "  balance: 8 regressions and 0 improvements among the last changes found" in err
    assert main(["mail", "list"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no CULPRIT"),
        (["missing.json"], "missing.json"),
        (["0.json"], "0.json"),
        (["culprit.json", "--store", "nowhere"], "nowhere"),
        (["culprit.json", "--week", "2026-W48"], "--week: given without --digest"),
        (["--digest"], "--digest: given without --store; add --store DIR"),
        (["--digest", "--store", "history", "0.json"], "--digest: given with 0.json"),
        (["culprit.json", "--kind", "fixed"], "no measured fix"),
        (["culprit.json", "--outbox", "nowhere"], "mail.toml"),
        (["culprit.json", "--repo", "nowhere"], "--repo nowhere"),
        (["--digest", "--store", "missing"], "missing"),
    ],
)
def test_mistakes_are_one_line(draft: Run, words: Sequence[str], said: str) -> None:
    status, out, err = draft(*words)
    assert status == 2
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_comparison_that_is_not_there(draft: Run, folder: Path) -> None:
    (folder / "0.json").unlink()
    status, _, err = draft("culprit.json")
    assert status == 2
    assert "not found" in err
