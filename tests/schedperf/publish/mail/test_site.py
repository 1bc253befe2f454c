# SPDX-License-Identifier: GPL-2.0-or-later
"""mail.toml: what it says, and what is refused."""

import re
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.site import Archive, Files, MaildirTransport, SmtpTransport, read_site
from tests.mails import LIST, SITE, make_site


def test_no_transport_and_no_archive_unless_configured(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    assert site.transport == Files()
    assert site.archive is None
    assert (site.quota.per_day, site.quota.per_recipient_and_week) == (2, 2)


def test_a_full_file(tmp_path: Path) -> None:
    more = (
        '[quota]\nper_day = 1\n[archive]\nurl = "https://lore.example/all"\ndelay_minutes = 5\n'
        '[transport]\nkind = "smtp"\nhost = "mail.lab.example"\n'
    )
    site = make_site(tmp_path, more)
    assert site.transport == SmtpTransport(host="mail.lab.example")
    assert site.archive == Archive(url="https://lore.example/all", delay_minutes=5)


def test_paths_are_relative_to_the_outbox(tmp_path: Path) -> None:
    (tmp_path / "mail.toml").write_text(
        'replies = "replies"\n' + SITE + '[archive]\nmaildir = "/var/copies"\n'
        '[transport]\nkind = "smtp"\nhost = "a"\nlogin_file = "login"\n'
    )
    site = read_site(tmp_path)
    assert site.replies == str(tmp_path / "replies")
    assert site.archive == Archive(maildir="/var/copies")
    assert site.transport == SmtpTransport(host="a", login_file=str(tmp_path / "login"))
    maildir = make_site(tmp_path / "other", '[transport]\nkind = "maildir"\npath = "md"\n')
    assert maildir.transport == MaildirTransport(path=str(tmp_path / "other/md"))


def test_allowed_addresses(tmp_path: Path) -> None:
    (tmp_path / "mail.toml").write_text('silenced = ["No@lists.example"]\n' + SITE)
    site = read_site(tmp_path)
    assert site.allows("Author@Example.org")
    assert site.allows("any@lists.example")
    assert site.allows(LIST)
    assert not site.allows("no@lists.example")
    assert not site.allows("other@example.org")
    assert not site.allows("a@lists.example.org")
    assert not site.allows("lists.example")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("colour = 1\n", r"site\.colour: unknown key \(expected one of name, domain, "),
        (
            "[quota]\nper_day = -1\n",
            r"mail\.toml: quota\.per_day is -1 \(expected int >= 0\); edit",
        ),
        ("[quota]\nper_day = 1979-05-27\n", "quota.per_day is"),
        ('[transport]\nkind = "smtp"\nhosts = "a"\n', r"transport\.hosts: .*did you mean host\?"),
        ("[quota]\nper_week = 1\n", "quota.per_week: unknown key"),
        ("[archive]\nurls = 1\n", r"archive\.urls: unknown key \(did you mean url\?\)"),
        (
            '[transport]\nkind = "pigeon"\n',
            r"'pigeon' \(expected e\.g\. command, smtp or maildir\)",
        ),
        ('[transport]\nkind = "smtp"\n', "host"),
        ('[transport]\nkind = "smtp"\nhost = "a\\nb"\n', "host"),
        ('[transport]\nkind = "command"\nargv = []\n', "argv"),
        ("[archive]\n", "set either url or maildir"),
        ('[archive]\nurl = "https://a"\nmaildir = "b"\n', "set either url or maildir"),
        ('[archive]\nmaildir = "b"\nbcc = "a@b@c.d"\n', "archive.bcc: invalid mail address"),
        ('[archive]\nmaildir = "b"\nbcc = "A <a@b.c>"\n', "without a name"),
        (
            f'[archive]\nmaildir = "b"\nbcc = "{"x" * 60}@{"y" * 10}.example"\n',
            r"archive\.bcc: 79 characters \(expected at most 70",
        ),
        (
            '[archive]\nmaildir="b"\nbcc="a@b.c"\n[transport]\nkind="command"\nargv=["msmtp"]\n',
            "takes the recipients from the header",
        ),
        ("[site", "mail.toml"),
        ("a = " + "[" * 50_000, "mail.toml"),
        ("\0", "mail.toml"),
    ],
)
def test_invalid_files_are_one_line(tmp_path: Path, more: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        make_site(tmp_path, more)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "sender",
    [
        "a@b@c.d",
        "A <a@b.c>, B <b@b.c>",
        "a",
        "",
        "A\u202e <a@b.c>",
        "A\\r\\nBcc: <x@y.z> <a@b.c>",
        '\\"a b\\"@c.d',
        "x" * 300 + "@b.c",
    ],
)
def test_invalid_senders_are_refused(tmp_path: Path, sender: str) -> None:
    (tmp_path / "mail.toml").write_text(SITE.replace("schedperf <schedperf@lab.example>", sender))
    with pytest.raises(InputError) as error:
        read_site(tmp_path)
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mail.toml: cannot be read: .*docs/mail.md"):
        read_site(tmp_path)


def test_the_examples_of_the_document_are_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "mail.md").read_text()
    first, *others = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(others) == 4
    for block in ("", *others):
        (tmp_path / "mail.toml").write_text(first + block)
        assert read_site(tmp_path).site.domain == "lab.example"
