# SPDX-License-Identifier: GPL-2.0-or-later
"""A site is written completely or not at all."""

import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.model.errors import SchedperfError
from schedperf.publish.pages.feed import write_feed
from schedperf.publish.pages.site import Entry, Folder, Site, open_site

ADDRESS = "c/0123456789abcdef/"


def folder(address: str = ADDRESS, content: bytes = b"page") -> Folder:
    entry = Entry(
        address=address,
        title="title\ud800\ufffe\x00",
        summary="summary",
        machine="machine",
        date=None,
        published="2026-11-27T12:00:00Z",
        state="confirmed" if address.startswith("r") else None,
    )
    return Folder(entry=entry, files={"index.html": content})


def write(path: Path, *folders: Folder) -> None:
    with open_site(path) as site:
        for one in folders:
            site.add(one)
        site.write({"index.html": b"new list"})


def files(site: Path) -> set[str]:
    return {str(path.relative_to(site)) for path in site.rglob("*")}


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(site: Site) -> None:
        site.add(folder())
        raise SchedperfError("stopped")

    site_path = tmp_path / "site"
    with pytest.raises(SchedperfError, match="stopped"), open_site(site_path) as site:
        fail(site)
    assert not site_path.exists()


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".publish-0123").mkdir()
    (tmp_path / ".publish-0123" / "index.html").touch()
    (tmp_path / ".publish-4567").touch()
    (tmp_path / "robots.txt").touch()
    with open_site(tmp_path) as site:
        site.add(folder())
        site.write({"index.html": b"list"})
    assert files(tmp_path) == {
        "robots.txt",
        "index.html",
        "c",
        ADDRESS.rstrip("/"),
        f"{ADDRESS}index.html",
        f"{ADDRESS}entry.json",
    }


def test_on_a_full_disk_the_site_stays_as_it_is(small_disk: Path) -> None:
    site_path = small_disk / "site"
    with open_site(site_path) as site:
        site.add(folder())
        site.write({"index.html": b"list"})
    before = files(site_path)
    pages = {"c/ffffffffffffffff/": 1 << 20, "c/eeeeeeeeeeeeeeee/": 8 << 20}
    with pytest.raises(SchedperfError, match="no space left on device"):
        write(site_path, *(folder(address, b"x" * size) for address, size in pages.items()))
    assert files(site_path) == before
    assert (site_path / "index.html").read_bytes() == b"list"


def test_a_second_publisher_waits(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with open_site(tmp_path) as site:
            order.append("second")
            assert [entry.address for entry in site.entries] == [ADDRESS]

    with open_site(tmp_path) as site:
        thread = threading.Thread(target=second)
        thread.start()
        site.add(folder())
        site.write({})
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.symlink_to(path.parent), "a symbolic link"),
        (lambda path: path.write_text("text"), "not a directory"),
        (lambda path: (path.mkdir(), (path / "c").symlink_to("/tmp")), "a symbolic link"),
        (lambda path: (path.mkdir(), (path / "c").write_text("text")), "cannot be written"),
        (lambda path: path.symlink_to("/proc/none"), "a symbolic link"),
    ],
)
def test_a_directory_that_is_none_is_refused(make, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "site"
    make(path)
    with pytest.raises(SchedperfError, match=message):
        write(path, folder())


@pytest.mark.parametrize("path", ["/proc/site", "/dev/null/site", "/none/of/these"])
def test_a_directory_that_cannot_be_made_is_refused(path: str) -> None:
    with pytest.raises(SchedperfError, match=f"^{path}: cannot be written"), open_site(Path(path)):
        pass


@pytest.mark.parametrize(
    "address",
    ["../x/", "c/../../etc/", "c/0123456789ABCDEF/", "c/0123456789abcdef", "r/01234567/../", "/"],
)
def test_entries_of_other_addresses_are_refused(address: str, tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.add(folder())
        site.write({})
    path = tmp_path / ADDRESS / "entry.json"
    path.write_text(path.read_text().replace(ADDRESS, address))
    with pytest.raises(SchedperfError, match=r"entry\.json: "), open_site(tmp_path):
        pass


def test_an_entry_elsewhere_than_its_address_is_refused(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.add(folder())
        site.write({})
    (tmp_path / ADDRESS).rename(tmp_path / "c" / ("f" * 16))
    with pytest.raises(SchedperfError, match="expected that of its directory"), open_site(tmp_path):
        pass


def test_the_feed_is_xml_whatever_titles_contain() -> None:
    content = write_feed([folder("r/01234567/").entry])
    assert ET.fromstring(content)[-1][0].text == "title"  # noqa: S314 # our own file
    assert content == write_feed([folder("r/01234567/").entry])
    assert b"1970-01-01" in write_feed([])


@pytest.mark.parametrize(
    "url", ["lab.example", "ftp://lab.example", "https://", "https://a b", "https://\x1b[1m"]
)
def test_an_address_that_is_none_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "compare.json", "site", "--base-url", url]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--base-url" in line
    assert line.isprintable()


def test_the_feed_says_what_is_fixed_and_where() -> None:
    entry = replace(folder("r/01234567/").entry, state="fixed", title="a regression")
    links = [
        each.get("href") or each.text or ""
        for each in ET.fromstring(write_feed([entry], "https://lab.example/perf/")).iter()  # noqa: S314 # our own file
        if each.tag.endswith(("link", "title"))
    ]
    assert links == [
        "Scheduler regressions",
        "https://lab.example/perf/atom.xml",
        "https://lab.example/perf/index.html",
        "fixed: a regression",
        "https://lab.example/perf/r/01234567/",
    ]
