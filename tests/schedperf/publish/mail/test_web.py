# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives are asked for newer versions of a patch, servers whether an address answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.publish.mail.web import asks_archive, is_reachable, split_subject
from tests.public_inbox import add_message, make_home, make_inbox, running_httpd
from tests.web_pages import CUT_PAGE, Pages, serve, serve_bytes

LIST = "list@example.org"
RAW = "Subject: [PATCH v2 2/4] sched/fair: Do\n it\nMessage-ID: <2@a.example>\n\nSubject: no\n"
QUERY = "/all/?q=s%3A%22sched%2Ffair%3A+Do+it%22&x=A"
FEED = "<feed><title>all</title>{}</feed>"


@pytest.fixture
def pages() -> Pages:
    return {"/all/2@a.example/raw": (200, RAW)}


@pytest.fixture
def url(pages: Pages) -> Iterator[str]:
    with serve(pages) as address:
        yield f"{address}/all"


@pytest.mark.parametrize(
    ("titles", "answer"),
    [
        ("", "no"),
        ("<title>[PATCH v2 2/4] sched/fair: Do it</title>", "no"),
        ("<title type='text'>[PATCH v3 1/3] sched/fair: Do it</title>", "yes"),
        ("<title>Re: [PATCH v3 1/3] sched/fair: Do it</title>", "no"),
        ("<title>[PATCH v3 1/3] sched/fair: Do it &amp; more</title>", "no"),
    ],
)
def test_titles_of_newer_versions(pages: Pages, url: str, titles: str, answer: str) -> None:
    pages[QUERY] = (200, FEED.format(titles))
    assert asks_archive(f"{url}/")("<2@a.example>") == answer


@pytest.mark.parametrize("answer", [(404, ""), (500, FEED), (503, "")])
def test_without_a_search_it_is_unknown(pages: Pages, url: str, answer: tuple[int, str]) -> None:
    pages[QUERY] = answer
    assert asks_archive(url)("<2@a.example>") == "unknown"


@pytest.mark.parametrize("raw", ["", "no header\n", "\0\xff", "From: a\n\nSubject: b\n" * 9])
def test_a_patch_that_is_not_there_is_unknown(pages: Pages, url: str, raw: str) -> None:
    pages["/all/2@a.example/raw"] = (200, raw)
    assert asks_archive(url)("<2@a.example>") == "unknown"
    assert asks_archive(url)("<gone@a.example>") == "unknown"
    assert asks_archive("http://127.0.0.1:1/all")("<2@a.example>") == "unknown"


def test_the_version_is_in_the_prefix_only() -> None:
    assert split_subject("[RFC PATCH V12 0/3] sched: v99 of it") == (12, "sched: v99 of it")
    assert split_subject("sched: [v3] of it") == (1, "sched: [v3] of it")


def test_pages_answer_or_do_not(pages: Pages, url: str) -> None:
    pages["/all/r/"] = (200, "page")
    assert is_reachable(f"{url}/r/") == "yes"
    assert is_reachable(f"{url}/gone/") == "no"
    assert is_reachable("http://127.0.0.1:1/") == "unknown"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 Status\r\nname: " + b"x" * (1 << 17),
        b"HTTP/1.1 301 Status\r\nLocation: http://127.0.0.1:port/\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_http_is_unknown(answer: bytes) -> None:
    with serve_bytes(answer) as address:
        assert is_reachable(address) == "unknown"
        assert asks_archive(address)("<2@a.example>") == "unknown"


def test_a_patch_whose_page_is_cut_is_unknown() -> None:
    with serve_bytes(b"HTTP/1.1 200" + CUT_PAGE) as address:
        assert asks_archive(address)("<2@a.example>") == "unknown"


@pytest.mark.parametrize("address", ["http://127.0.0.1:port/", "http://127.0.0.1/a b"])
def test_an_invalid_address_is_unknown(address: str) -> None:
    assert is_reachable(address) == "unknown"


@pytest.mark.slow
@pytest.mark.system
def test_a_real_archive_knows_the_newest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home", monkeypatch, "public-inbox-mda")
    make_inbox(home, "all", LIST)
    for version, prefix in ((1, "PATCH 1/2"), (2, "PATCH v2 1/2"), (3, "Re: [PATCH v3 1/2")):
        subject = f"[{prefix}] sched/fair: Do it".replace("[Re: [", "Re: [")
        add_message(
            LIST,
            f"From: a@a.example\nTo: {LIST}\nSubject: {subject}\n"
            f"Message-ID: <{version}@a.example>\nDate: Fri, 27 Nov 2026 11:0{version}:00 +0000\n\n"
            f"Text {version}\n",
        )
    with running_httpd() as address:
        has_newer_version = asks_archive(f"{address}/all")
        answers = [has_newer_version(f"<{version}@a.example>") for version in (1, 2, 9)]
    assert answers == ["yes", "no", "unknown"]
