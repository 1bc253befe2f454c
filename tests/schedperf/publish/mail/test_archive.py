# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives: a Maildir, and the pages of a public-inbox."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.archive import Asked, open_archive
from schedperf.publish.mail.site import Archive
from tests.mails import NOW
from tests.web_pages import CUT_PAGE, Pages, serve, serve_bytes

FEED = """<?xml version="1.0" encoding="us-ascii"?>
<feed xmlns="http://www.w3.org/2005/Atom"><updated>2026-12-31T00:00:00Z</updated>
<entry><updated>2026-11-27T10:00:00Z</updated></entry>
<entry><updated>2026-11-27T11:00:00Z</updated></entry>
<entry><updated>2027-01-01T00:00:00Z</updated></entry></feed>"""
PAGES = {"/perf/a.b@lab.example/": (200, ""), "/perf/new.atom": (200, FEED)}


@pytest.fixture
def pages() -> Pages:
    return dict(PAGES)


@pytest.fixture
def inbox(pages: Pages) -> Iterator[Asked]:
    with serve(pages) as address:
        asked = open_archive(Archive(url=f"{address}/perf/"))
        assert asked is not None
        yield asked


def test_public_inbox(inbox: Asked) -> None:
    assert inbox.holds("<a.b@lab.example>")
    assert not inbox.holds("<other@lab.example>")
    newest = inbox.newest(NOW)
    assert newest is not None
    assert newest.isoformat() == "2026-11-27T11:00:00+00:00"


@pytest.mark.parametrize(
    "answer",
    [
        (500, ""),
        (403, FEED),
        (404, ""),
        (200, ""),
        (200, FEED[:-30]),
        (200, FEED.replace("2026-11-27T10:00:00Z", "yesterday")),
        (200, FEED.replace("2026-11-27T10:00:00Z", "2026-11-27T10:00:00")),
        (200, '<!DOCTYPE a [<!ENTITY b "c">]>' + FEED),
    ],
)
def test_an_answer_that_is_no_answer(inbox: Asked, pages: Pages, answer: tuple[int, str]) -> None:
    pages["/perf/new.atom"] = answer
    with pytest.raises(InputError) as error:
        inbox.newest(NOW)
    assert "\n" not in str(error.value)


def test_an_error_is_not_taken_for_an_absent_mail(inbox: Asked, pages: Pages) -> None:
    pages["/perf/a.b@lab.example/"] = (503, "later")
    with pytest.raises(InputError, match="HTTP status 503; ask the archive later"):
        inbox.holds("<a.b@lab.example>")


def test_other_pages_are_proposed(inbox: Asked, pages: Pages) -> None:
    page = "/perf/c@lab.example/"
    absent = "<pre>Message-ID &lt;c@lab.example&gt;\nnot found\n\n1 partial match found:\n"
    pages[page] = (300, absent)
    assert not inbox.holds("<c@lab.example>")
    pages[page] = (300, "<pre>Message-ID: &lt;c@lab.example&gt;\nfound in another inbox:\n")
    assert inbox.holds("<c@lab.example>")
    pages[page] = (300, "<title>choose</title>")
    with pytest.raises(InputError, match="look there yourself"):
        inbox.holds("<c@lab.example>")


def test_no_server() -> None:
    asked = open_archive(Archive(url="http://127.0.0.1:1/perf"))
    assert asked is not None
    with pytest.raises(InputError, match="no answer"):
        asked.holds("<a@b>")
    with pytest.raises(InputError, match=r"expected https://"):
        open_archive(Archive(url="file:///etc/passwd"))


@pytest.mark.parametrize("status", ["200", "300", "404"])
def test_a_page_that_is_cut_is_no_answer(status: str) -> None:
    with serve_bytes(f"HTTP/1.1 {status}".encode() + CUT_PAGE) as address:
        asked = open_archive(Archive(url=address))
        assert asked is not None
        with pytest.raises(
            InputError, match=r"\Ahttp:[^\n]+: no answer \([^\n]+; ask the archive later"
        ):
            asked.holds("<a@b>")


def test_an_empty_feed(inbox: Asked, pages: Pages) -> None:
    pages["/perf/new.atom"] = (200, '<feed xmlns="http://www.w3.org/2005/Atom"></feed>')
    assert inbox.newest(NOW) is None


def test_maildir(tmp_path: Path) -> None:
    asked = open_archive(Archive(maildir=str(tmp_path)))
    assert asked is not None
    with pytest.raises(InputError, match="cannot be read"):
        asked.newest(NOW)
    for folder in ("new", "cur", "tmp"):
        (tmp_path / folder).mkdir()
    assert asked.newest(NOW) is None
    for folder, id_, minutes in (
        ("new", "a", 1),
        ("cur", "b", 2),
        ("tmp", "c", 3),
        ("new", "d", -9),
    ):
        path = tmp_path / folder / id_
        path.write_bytes(f"Subject: x\nmessage-id:\n <{id_}@b>\n\nMessage-ID: <e@b>\n".encode())
        when = (NOW - timedelta(minutes=minutes)).timestamp()
        os.utime(path, (when, when))
    assert asked.newest(NOW) == NOW - timedelta(minutes=1)
    assert [id_ for id_ in "abcdef" if asked.holds(f"<{id_}@b>")] == ["a", "b", "d"]


def test_no_archive() -> None:
    assert open_archive(None) is None
