# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages of a lab: what they say, what they leave out, and that they follow from the store."""

import io
import json
import re
import tarfile
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from schedperf.cli import main
from schedperf.history.decide import decide_step
from schedperf.history.nightly import watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.store.directory import Directory
from schedperf.history.store.tables import NIGHT, STEP_CHANGE
from schedperf.model.errors import InputError
from schedperf.publish.dashboard.build import Built, publish_lab
from tests.labs import Shape, add_input, add_nights, key_of, make_lab, night_of, revision_of
from tests.schedperf.publish.pages.canaries import HOST_NAME, has_canary

SHAPE = Shape(machines=3, results=3, nights=60, step=50, dead=57)
LINK = re.compile(r'(?:href|src|data-plotly|data-index)="([^"]+)"')
POLICY = re.compile(r'Content-Security-Policy" content="([^"]+)"')
TODAY = date.fromisoformat(night_of(60))


def publish(store: Directory, site: Path, **chosen: Any) -> Built:
    """Publish a lab for its own eyes; its store has no bundles with host names."""
    chosen = {"today": TODAY, "is_private": True, **chosen}
    return publish_lab(store.folder, site, **chosen)


def contents(site: Path) -> dict[str, bytes]:
    """Return all files of a site."""
    return {
        str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()
    }


def text_of(page: bytes) -> str:
    """Return the text of a page, with single blanks."""
    return re.sub(r" (?=[:;,.])", "", " ".join(re.sub(r"<[^>]*>", " ", page.decode()).split()))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    """Return a lab with a step on all machines, one of which is dead since."""
    directory = make_lab(tmp_path_factory.mktemp("lab") / "history", SHAPE)
    with open_history(directory.folder) as history:
        steps = [each.id for each in history.steps() if each.series == key_of(0, 0)]
    decide_step(directory, steps[0], "reproduced", reason="8 boots: +6.1%", by="bob", say=print)
    return directory


@pytest.fixture(scope="module")
def pages(store: Directory, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return all files of the site of the lab."""
    site = tmp_path_factory.mktemp("site") / "out"
    publish(store, site)
    return contents(site)


def test_the_first_page_answers_what_is_open_where_and_what_is_lost(
    pages: dict[str, bytes],
) -> None:
    text = text_of(pages["index.html"])
    assert f"night of {night_of(59)}" in text
    state = "1 open regression, 0 suspected, 3 of 9 series lost, 1 machine without a result"
    assert state in text
    assert f"{night_of(50)} 10 nights" in text
    assert "m00, m01: yes" in text
    assert "m02: lost" in text
    assert f"{revision_of(49)[:12]}..{revision_of(50)[:12]}" in text
    assert re.search(r"reproduced since \S+ new", text)
    assert "New in this night: 1 cause (reproduced)." in text
    assert f"last result {night_of(56)}, 3 nights ago" in text
    assert text.count("sees 1.") == 3
    assert pages["index.html"].count(b'class="cell lost"') == 3
    assert pages["index.html"].count(b'class="cell worse"') == 1
    assert pages["index.html"].count(b'class="cell worse suspected"') == 1


def test_a_lab_that_is_silent_says_so(store: Directory, tmp_path: Path) -> None:
    publish(store, tmp_path / "site", today=date.fromisoformat(night_of(63)))
    text = text_of((tmp_path / "site/index.html").read_bytes())
    assert f"No night of the lab has a result since {night_of(59)}, 4 days before" in text


def test_what_was_decided_before_the_last_night_is_not_new(tmp_path: Path) -> None:
    shape = Shape(machines=2, results=1, nights=50, step=40)
    directory = make_lab(tmp_path / "history", shape)
    with open_history(directory.folder) as history:
        accepted, opened = history.steps()
    decide_step(directory, accepted.id, "accepted", reason="wanted", by="bob", say=print)
    publish(directory, tmp_path / "site")
    text = text_of((tmp_path / "site/index.html").read_bytes())
    assert "New in this night: 1 cause (suspected), 1 step (accepted)." in text
    with directory.database().transaction() as connection:
        connection.execute(update(STEP_CHANGE).values(at=f"{night_of(48)}T23:59:59+00:00"))
    publish(directory, tmp_path / "site")
    text = text_of((tmp_path / "site/index.html").read_bytes())
    assert opened.state == "suspected"
    assert f"suspected since {night_of(48)}" in text
    assert "New in this night: nothing." in text


def test_what_went_away_and_changed_conditions_are_said(tmp_path: Path) -> None:
    shape = Shape(machines=2, results=2, nights=60, step=40)
    directory = make_lab(tmp_path / "history", shape, watch=False)
    with directory.database().transaction() as connection:
        of_new = NIGHT.c.night >= night_of(50)
        connection.execute(update(NIGHT).where(of_new).values(program="q"))
    watch_store(directory, print)
    with directory.database().transaction() as connection:
        is_last = (NIGHT.c.night >= night_of(57)) & NIGHT.c.series_id.in_((1, 3))
        connection.execute(update(NIGHT).where(is_last).values(new=NIGHT.c.new / 1.06))
    publish(directory, tmp_path / "site")
    pages = contents(tmp_path / "site")
    text = text_of(pages["index.html"])
    assert f"{night_of(50)} bench0 on m00, m01: a baseline period goes on: other programs" in text
    assert "went away last 3 nights suspected" in text
    series = text_of(pages[f"s/{key_of(0, 0)}.html"])
    assert re.search(r"Went away in the last 3 nights: worse, \+\d", series)
    assert "Open:" not in series
    machines = [text_of(pages[name]) for name in pages if name.startswith("m/")]
    assert all(f"went away: {night_of(40)}, worse, +" in page for page in machines)


def test_nights_without_a_result_of_the_machine_are_rows_and_cells(tmp_path: Path) -> None:
    shape = Shape(machines=2, results=1, nights=17, step=10)
    directory = make_lab(tmp_path / "history", shape)
    # One machine is silent, while the site grows by a night each day.
    for night in range(17, 20):
        add_nights(directory, shape, [night])
        with directory.database().transaction() as connection:
            is_silent = (NIGHT.c.night > night_of(16)) & (NIGHT.c.series_id == 2)
            connection.execute(delete(NIGHT).where(is_silent))
        publish(directory, tmp_path / "site", today=date.fromisoformat(night_of(night)))
    publish(directory, tmp_path / "site", today=date.fromisoformat(night_of(20)))
    publish(directory, tmp_path / "anew", today=date.fromisoformat(night_of(20)))
    pages = contents(tmp_path / "site")
    assert pages == contents(tmp_path / "anew")
    silent, other = (pages[f"s/{key_of(machine, 0)}.html"] for machine in (1, 0))
    assert f"{night_of(17)} to {night_of(19)}: lost".encode() in silent
    assert text_of(silent).count("no result of the machine") == 3
    assert b": lost" not in other
    # Its last result is from before.
    machines = [text_of(pages[name]) for name in pages if name.startswith("m/")]
    assert sum(f"series, last night {night_of(16)}" in page for page in machines) == 1


def test_a_night_that_began_today_has_no_missing_machines(store: Directory, tmp_path: Path) -> None:
    publish(store, tmp_path / "site", today=date.fromisoformat(night_of(59)))
    pages = contents(tmp_path / "site")
    assert "Without a result" not in text_of(pages[f"n/{night_of(59)}.html"])
    assert "Without a result: m02" in text_of(pages[f"n/{night_of(58)}.html"])


def test_the_page_of_a_series_has_its_nights_noise_step_and_decisions(
    pages: dict[str, bytes],
) -> None:
    page = pages[f"s/{key_of(0, 0)}.html"]
    text = text_of(page)
    assert page.count(b"<tr class=") == 60
    assert "60 nights with a result, 0 without" in text
    assert re.search(r"SD of new / reference between nights 0\.\d+%; SD between boots 0\.4%", text)
    assert f"range last good {revision_of(49)[:12]}, first bad {revision_of(50)[:12]}" in text
    assert re.search(r"same step on m01: yes \+\d\.\d% \[[^]]+\]; m02: lost", text)
    assert re.search(r"reproduced by bob: 8 boots: \+6\.1%", text)
    # Without scripts, a drawing remains.
    assert b'<svg class="timeline"' in page
    assert b'<svg class="strip"' in page
    row = re.search(rf'<tr class="worse" data-night="{night_of(59)}">.*', page.decode())
    assert row is not None
    assert re.search(r"\+\d\.\d% \[[^]]+\] 6\d\d(\.\d)? 600 4 \+ 4 worse", text_of(row[0].encode()))
    lost = pages[f"s/{key_of(2, 0)}.html"]
    assert "Lost: no result for 3 nights" in text_of(lost)
    assert f"{night_of(57)} to {night_of(59)}: lost".encode() in lost
    assert text_of(lost).count("no result: did not boot lost") == 3


def test_machines_nights_and_decisions_have_pages(pages: dict[str, bytes]) -> None:
    machines = [text_of(pages[name]) for name in pages if name.startswith("m/")]
    assert sorted(text.partition(" - ")[0] for text in machines) == ["m00", "m01", "m02"]
    night = text_of(pages[f"n/{night_of(59)}.html"])
    assert "6 results: 2 worse, 4 no change." in night
    assert "m02 hackbench no result: did not boot" in night
    assert f"Without a result: m02 (last {night_of(56)})." in night
    assert "Without a result" not in text_of(pages[f"n/{night_of(56)}.html"])
    assert f"n/{night_of(0)}.html" in pages
    decisions = text_of(pages["decisions.html"])
    assert "4 decisions about 3 steps." in decisions
    assert "reproduced" in decisions


def test_the_search_finds_commits_benchmarks_and_machines(pages: dict[str, bytes]) -> None:
    index = json.loads(pages["search.json"])
    assert pages["search.js"].startswith(b"self.searchIndex=[")
    assert {each["kind"] for each in index} == {"machine", "series", "commit"}
    assert all(each["address"] in pages for each in index)
    commits = [each for each in index if each["kind"] == "commit"]
    assert commits[0] == {
        "kind": "commit",
        "text": revision_of(59)[:12],
        "address": f"n/{night_of(59)}.html",
    }


def test_all_links_lead_to_pages(pages: dict[str, bytes]) -> None:
    ids = {name: {*re.findall(r' id="([^"]+)"', page.decode())} for name, page in pages.items()
           if name.endswith(".html")}  # fmt: skip
    for name in ids:
        for link in {
            *re.findall(r'(?:href|src|data-plotly|data-index)="([^"]+)"', pages[name].decode())
        }:
            if link.startswith("https:"):
                continue
            path, _, anchor = link.partition("#")
            found = str((Path("/") / name).parent / path)[1:] if path else name
            target = str(Path("/", found).resolve())[1:]
            assert target in pages, (name, link)
            assert not anchor or anchor in ids[target], (name, link)


def test_pages_forbid_all_scripts_but_ours(pages: dict[str, bytes]) -> None:
    for name, page in pages.items():
        if not name.endswith(".html") or name == "results.html":
            continue
        [policy] = re.findall(
            r'Content-Security-Policy" content="([^"]+)"', unescape(page.decode())
        )
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe-eval" not in policy
        assert ("'unsafe-inline'" in policy) == name.startswith("s/")
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|<style|\sstyle=", page.decode()), name


def test_a_site_that_is_written_anew_is_equal_to_one_that_grew(tmp_path: Path) -> None:
    shape = Shape(machines=2, results=2, nights=40, step=30)
    directory = make_lab(tmp_path / "history", shape)
    publish(directory, tmp_path / "grown")
    for night in range(40, 43):
        add_nights(directory, shape, [night])
        done = publish(directory, tmp_path / "grown")
        # Pages of series and machines, the night, the first page, and both indexes.
        assert done.written == 4 + 2 + 1 + 1 + 2
    assert publish(directory, tmp_path / "grown").written == 0
    publish(directory, tmp_path / "anew")
    grown, anew = contents(tmp_path / "grown"), contents(tmp_path / "anew")
    assert grown.keys() == anew.keys()
    assert [name for name in anew if grown[name] != anew[name]] == []


def test_a_night_that_changes_later_is_drawn_again(tmp_path: Path) -> None:
    shape = Shape(machines=1, results=2, nights=12)
    directory = make_lab(tmp_path / "history", shape)
    publish(directory, tmp_path / "grown")
    import sqlite3  # noqa: PLC0415

    with sqlite3.connect(directory.folder / "history.db") as connection:
        connection.execute("UPDATE night SET new = new * 1.5 WHERE night = ?", (night_of(3),))
    publish(directory, tmp_path / "grown")
    publish(directory, tmp_path / "anew")
    assert contents(tmp_path / "grown") == contents(tmp_path / "anew")
    assert b">worse<" in (tmp_path / f"grown/n/{night_of(3)}.html").read_bytes()
    page = (tmp_path / f"grown/s/{key_of(0, 0)}.html").read_text()
    assert f'<tr class="worse" data-night="{night_of(3)}">' in page


def test_a_kill_leaves_nothing_that_the_next_run_does_not_repair(tmp_path: Path) -> None:
    shape = Shape(machines=1, results=2, nights=12)
    directory = make_lab(tmp_path / "history", shape)
    publish(directory, tmp_path / "site")
    whole = contents(tmp_path / "site")
    add_nights(directory, shape, [12])
    publish(directory, tmp_path / "site")
    later = contents(tmp_path / "site")
    # As if it was killed after some of its pages, and before its state was written.
    for name in (f"s/{key_of(0, 0)}.html", "index.html", ".dashboard.json"):
        (tmp_path / "site" / name).write_bytes(whole[name])
    (tmp_path / "site/.publish-0123").mkdir()
    (tmp_path / "site/.publish-0123/0").write_bytes(b"half")
    (tmp_path / "site/s/gone.html").write_bytes(b"of an earlier series")
    publish(directory, tmp_path / "site")
    assert contents(tmp_path / "site") == later


def add_bundle(directory: Directory, host: str) -> None:
    """Add the bundle of a machine with a host name to the objects of a store."""
    content = json.dumps({"system": {"hostname": host}}).encode()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("boots/0/host.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    sha256 = "ab" * 32
    path = directory.objects.path(sha256, "bundle")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stream.getvalue())
    add_input(directory, sha256, path="/home/canaryuser/base.tar", subject="sched: Fix canaryuser",
              commit_hash=revision_of(44), machine_class=None)  # fmt: skip
    with directory.database().transaction() as connection:
        from sqlalchemy import text  # noqa: PLC0415

        connection.execute(
            text("UPDATE input SET machine_class = (SELECT machine_class FROM result)")
        )


def make_canaries(folder: Path) -> Directory:
    """Return a lab all of whose texts have private strings."""
    texts = {
        "machine": HOST_NAME,
        "workload": f"netperf -H {HOST_NAME}.example.com -f /home/canary1/run",
        "point": "server=10.99.88.77",
        "metric": f"rate of {HOST_NAME} <script>",
        "tree": "ssh://canary2@git.canary.example/linux",
        "revision": f"6.19.0-{HOST_NAME}",
        "reference": f"6.18.0-{HOST_NAME}",
        "job": f"job on {HOST_NAME}",
        "outcome": f"no result: ssh root@{HOST_NAME}.example.com failed",
    }
    shape = Shape(machines=1, results=1, nights=45, step=36, texts=texts)
    directory = make_lab(folder, shape)
    add_bundle(directory, f"{HOST_NAME}.example.com")
    with open_history(folder) as history:
        [step] = history.steps()
    reason = f"canaryboss saw it on {HOST_NAME}, see /srv/canary3/log and bob@canary.example"
    decide_step(directory, step.id, "reproduced", reason=reason, by="canaryboss", say=print)
    return directory


def test_no_page_contains_a_private_string(tmp_path: Path) -> None:
    directory = make_canaries(tmp_path / "history")
    done = publish_lab(directory.folder, tmp_path / "site", today=TODAY)
    assert done.left_out >= 9
    found = {
        name for name, content in contents(tmp_path / "site").items()
        if not name.startswith("a/") and has_canary(f"{name} {content.decode()}")
    }  # fmt: skip
    assert found == set()
    text = text_of((tmp_path / "site/decisions.html").read_bytes())
    assert "[private] saw it on [private], see log and [private]" in text
    # What is not private is there.
    assert "reproduced" in text


def test_a_private_site_says_so_on_each_page(tmp_path: Path) -> None:
    directory = make_canaries(tmp_path / "history")
    publish(directory, tmp_path / "site")
    pages = {
        name: page for name, page in contents(tmp_path / "site").items() if name.endswith("html")
    }
    assert all(b"Private: host names" in page for page in pages.values())
    assert HOST_NAME.encode() in pages["decisions.html"]
    assert b"<script>" not in b"".join(pages.values()).replace(b"<script src", b"")


def test_private_and_public_sites_never_share_a_directory(tmp_path: Path) -> None:
    directory = make_canaries(tmp_path / "history")
    publish(directory, tmp_path / "private")
    publish(directory, tmp_path / "public", is_private=False)
    before = contents(tmp_path / "public"), contents(tmp_path / "private")
    with pytest.raises(InputError, match=r"private: a private site \(expected a public one"):
        publish(directory, tmp_path / "private", is_private=False)
    with pytest.raises(InputError, match=r"public: a public site \(expected a private one"):
        publish(directory, tmp_path / "public")
    assert (contents(tmp_path / "public"), contents(tmp_path / "private")) == before


def test_a_machine_without_a_bundle_in_the_store_is_not_published(tmp_path: Path) -> None:
    directory = make_lab(tmp_path / "history", Shape(machines=1, results=1, nights=3))
    add_input(directory, "cd" * 32, kept=False)
    with pytest.raises(InputError, match=r"\Amachine m00: no bundle of it in the store [^\n]+\Z"):
        publish(directory, tmp_path / "site", is_private=False)
    assert not (tmp_path / "site").exists()


def test_a_damaged_bundle_is_named(tmp_path: Path) -> None:
    directory = make_canaries(tmp_path / "history")
    [path] = (directory.folder / "objects").glob("??/*.tar")
    for content in (b"", b"\x00" * 100, b"BZh9" + b"\xff" * 50, path.read_bytes()[:300]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"\A{re.escape(str(path))}: [^\n]+\Z"):
            publish(directory, tmp_path / "site", is_private=False)


def test_nothing_about_a_tree_can_be_left_out(tmp_path: Path) -> None:
    directory = make_lab(tmp_path / "history", Shape(machines=1, results=1, nights=3))
    publish(directory, tmp_path / "site", without_trees=["tip"])
    pages = contents(tmp_path / "site")
    assert not [name for name in pages if name.startswith(("s/", "m/"))]
    assert "The store has no series." in text_of(pages["index.html"])
    assert "0 results" in text_of(pages[f"n/{night_of(1)}.html"])


def test_an_empty_store_has_a_site(tmp_path: Path) -> None:
    directory = make_lab(tmp_path / "history", Shape(machines=1, results=1, nights=1))
    import sqlite3  # noqa: PLC0415

    with sqlite3.connect(directory.folder / "history.db") as connection:
        connection.execute("DELETE FROM night")
        connection.execute("DELETE FROM night_run")
    publish(directory, tmp_path / "site", is_private=False)
    assert "night of no night" in text_of((tmp_path / "site/index.html").read_bytes())


def test_the_command_publishes_a_lab(
    store: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    assert main(["publish", "--private", "--store", str(store.folder), str(site)]) == 0
    assert capsys.readouterr().out == f"{site}/index.html: 84 files written\n"
    assert main(["publish", str(site)]) == 2
    assert "nothing to publish" in capsys.readouterr().err
