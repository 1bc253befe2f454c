# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf publish`` writes pages that never change and contain no private strings."""

import json
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from schedperf.compare.json import read_comparison
from schedperf.inputs.bundle.json import MOST_JSON_VALUES
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError, SchedperfError
from schedperf.model.json_text import to_json
from schedperf.publish.culprit.checks import with_checks
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.json import read_culprit
from schedperf.publish.culprit.record import Bisection, BisectionStep, Culprit, Measured, Revert
from schedperf.publish.pages.culprit_page import draw_culprit
from schedperf.publish.pages.feed import ATOM
from schedperf.publish.pages.publish import publish
from tests.schedperf.publish.pages.canaries import HOST_NAME, Seeder, has_canary
from tests.schedperf.publish.pages.conftest import compare, unretested

RunCli = Callable[..., subprocess.CompletedProcess[str]]
FIRST, LATER = datetime(2026, 11, 27, 12, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


def write(folder: Path, *records: Comparison | Culprit) -> list[Path]:
    """Write records as the files that a user gives, all in one directory."""
    paths = []
    for record in records:
        path = folder / f"{type(record).__name__}-{record.id[:16]}.json"
        path.write_text(to_json(record))
        paths.append(path)
    return paths


def contents(site: Path) -> dict[str, bytes]:
    """Return all files of a site."""
    return {
        str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()
    }


def feed(site: Path) -> list[ET.Element]:
    """Return the entries of the site's feed."""
    root = ET.parse(site / "atom.xml").getroot()  # noqa: S314 # our own file
    return root.findall(f"{{{ATOM}}}entry")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return where to publish."""
    return tmp_path / "site"


def test_a_culprit_and_its_comparisons_are_published(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    done = publish(write(tmp_path, found, retested, culprit), site, now=FIRST)
    record, main = f"r/{culprit.key}", f"c/{found.id[:16]}"
    assert done.new == {
        f"{main}/": True,
        f"c/{retested.id[:16]}/": True,
        f"{record}/": True,
    }
    written = contents(site)
    assert {name for name in written if name.startswith((record, main))} == {
        f"{record}/index.html",
        f"{record}/culprit.json",
        f"{record}/entry.json",
        f"{main}/index.html",
        f"{main}/compare.json",
        f"{main}/report.txt",
        f"{main}/entry.json",
    }
    published = read_culprit(written[f"{record}/culprit.json"], "culprit.json")
    assert published.links.page == f"{record}/"
    assert published.bad.author == "Bob <[private]>"
    page = written[f"{record}/index.html"].decode()
    assert f'href="../../{main}/index.html"' in page
    for role, comparison in (("first measured", found), ("retest", retested)):
        address = f"../../c/{comparison.id[:16]}/"
        shown = rf"<dt>{role}</dt><dd>[^<]+: regression \(<a href=\"{address}index.html\""
        assert re.search(shown, page)
        assert re.search(rf'"{address}compare.json">JSON</a>: {role}; ', page)
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    index = written["index.html"].decode()
    assert "Confirmed by a retest.</td>" in index
    assert index.index(f"{record}/index.html") < index.index(f"{main}/index.html")
    comparison = read_comparison(written[f"{main}/compare.json"], "compare.json")
    assert comparison.id == found.id
    assert [row.ratio for row in comparison.rows] == [row.ratio for row in found.rows]


def test_a_comparison_may_have_more_values_than_other_json(
    found: Comparison, tmp_path: Path, site: Path
) -> None:
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({**json.loads(to_json(found)), "later": [0] * MOST_JSON_VALUES}))
    assert publish([path], site, now=FIRST).new == {f"c/{found.id[:16]}/": True}


def test_a_page_without_a_listed_comparison_is_refused(
    culprit: Culprit, found: Comparison, retested: Comparison
) -> None:
    evidence = Evidence(culprit=unretested(culprit), comparisons={found.id: found})
    with pytest.raises(InputError, match=rf"\Acomparison {retested.id[:8]}[^\n]+: not found "):
        draw_culprit(evidence, root="../../", version=1, bundles={})


def test_no_file_contains_a_private_string(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    done = publish(write(tmp_path, found, retested, culprit), site, now=FIRST)
    assert has_canary(to_json(found))
    for name, content in contents(site).items():
        assert not has_canary(content.decode()), name
    assert done.left_out["host.json system.hostname"] == 4  # two of two sides


def check_pages(comparison: Comparison, folder: Path, seeds: range) -> None:
    """Publish a comparison with other private strings each time, and read every file."""
    for seed in seeds:
        comparison = replace(comparison, id=f"{seed:064x}"[::-1])
        publish(write(folder, Seeder(seed).seed(comparison)), folder / "site", now=FIRST)
    published = contents(folder / "site")
    assert len(published) == 4 * len(seeds) + 3  # files per comparison and site
    for name, content in published.items():
        assert not has_canary(content.decode()), name


def test_no_file_contains_a_string_of_seeded_comparisons(found: Comparison, tmp_path: Path) -> None:
    assert to_json(Seeder(0).seed(found)).lower().count("canary") > 50  # many
    check_pages(found, tmp_path, range(10))


@pytest.mark.repeats
@pytest.mark.parametrize("part", range(10))
def test_no_file_contains_a_string_of_a_thousand_seeded_comparisons(
    found: Comparison, tmp_path: Path, part: int
) -> None:
    check_pages(found, tmp_path, range(100 * part, 100 * (part + 1)))


def test_publishing_again_changes_no_byte(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    paths = write(tmp_path, found, retested, culprit)
    publish(paths, site, now=FIRST)
    before = contents(site)
    again = publish(paths, site, now=LATER)
    assert contents(site) == before
    assert not any(again.new.values())
    # What is published can be published elsewhere: nothing private is left to remove.
    copies = [site / f"c/{one.id[:16]}/compare.json" for one in (found, retested)]
    publish([*copies, site / f"r/{culprit.key}/culprit.json"], tmp_path / "copy", now=FIRST)
    assert contents(tmp_path / "copy") == before


def test_pages_of_another_version_of_schedperf_stay(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    paths = write(tmp_path, found, retested, culprit)
    publish(paths, site, now=FIRST)
    pages = (site / f"c/{found.id[:16]}/report.txt", site / f"r/{culprit.key}/index.html")
    for page in pages:
        page.write_text("another version drew this")
    assert not any(publish(paths, site, now=LATER).new.values())
    assert {page.read_text() for page in pages} == {"another version drew this"}
    pages[0].unlink()
    with pytest.raises(SchedperfError, match="published with other content"):
        publish(paths, site, now=LATER)


def test_other_content_at_a_published_address_is_refused(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    publish(write(tmp_path, found, retested, culprit), site, now=FIRST)
    before = contents(site)
    changed = replace(culprit, merged=False, benchmark=culprit.benchmark)
    with pytest.raises(SchedperfError, match="published with other content"):
        publish(write(tmp_path, changed), site, now=LATER)
    with pytest.raises(SchedperfError, match="published with other content"):
        publish(write(tmp_path, replace(found, tool_version="9.9")), site, now=LATER)
    assert contents(site) == before


def test_the_page_lists_the_checks(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    comparisons = {each.id: each for each in (found, retested)}
    checked = with_checks(Evidence(culprit=culprit, comparisons=comparisons))
    publish(write(tmp_path, found, retested, checked), site, now=FIRST)
    page = (site / f"r/{culprit.key}/index.html").read_text()
    assert '<dt>size</dt><dd><span class="passed">passed</span></dd>' in page
    assert '<dt>culprit</dt><dd><span class="failed">not passed</span>: not bisected' in page


def test_a_changed_culprit_is_published_as_a_further_version(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    publish(write(tmp_path, found, retested, unretested(culprit)), site, now=FIRST)
    before = contents(site)
    (path,) = write(tmp_path, culprit)
    address = f"r/{culprit.key}/2/"
    assert publish([path], site, now=LATER, update=True).new == {address: True}
    assert publish([path], site, now=LATER, update=True).new == {address: False}
    after = contents(site)
    assert {name for name in before if before[name] != after[name]} == {"index.html", "atom.xml"}
    assert f'href="../../../c/{found.id[:16]}/index.html"' in after[f"{address}index.html"].decode()
    assert f'"{address}index.html"' in after["index.html"].decode()
    assert f'"r/{culprit.key}/index.html"' not in after["index.html"].decode()
    for page in (f"r/{culprit.key}/", address):
        assert f'index.html#r-{culprit.key}">' in after[f"{page}index.html"].decode()
    assert f'<tr id="r-{culprit.key}"><td' in after["index.html"].decode()
    (entry,) = feed(site)
    texts = {child.tag.partition("}")[2]: child.text for child in entry}
    assert texts["published"] == "2026-11-27T12:00:00Z"
    assert texts["updated"] == "2026-12-01T00:00:00Z"


def test_comparisons_of_a_culprit_are_found_beside_it(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    beside, alone = tmp_path / "beside", tmp_path / "alone"
    for folder in (beside, alone):
        folder.mkdir()
    *_, path = write(beside, found, retested, culprit)
    done = publish([path], site, now=FIRST)
    record = f"r/{culprit.key}/"
    assert done.new == {f"c/{each.id[:16]}/": True for each in (found, retested)} | {record: True}
    # Published ones stay.
    assert publish([path], site, now=LATER).new == {record: False}
    # Redacted comparisons lack the names that the culprit must not contain.
    with pytest.raises(SchedperfError, match=r"neither given nor beside it .*pass it, too"):
        publish(write(alone, culprit), site, now=FIRST)


def test_texts_of_a_culprit_have_no_names_of_published_comparisons(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    *comparisons, path = write(
        tmp_path,
        found,
        retested,
        replace(culprit, revert=Revert(impossible=f"{HOST_NAME} is down")),
    )
    publish(comparisons, site, now=FIRST)
    publish([path], site, now=LATER)
    written = contents(site)
    assert "[private] is down" in written[f"r/{culprit.key}/index.html"].decode()
    assert not any(has_canary(content.decode()) for content in written.values())


def test_the_feed_has_confirmed_regressions_only(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    publish(write(tmp_path, found, retested), site, now=FIRST)
    assert feed(site) == []
    other = replace(unretested(culprit), bad=replace(culprit.bad, commit="f" * 40))
    publish(write(tmp_path, other), site, now=FIRST)
    assert feed(site) == []
    publish(write(tmp_path, culprit), site, now=LATER)
    (entry,) = feed(site)
    texts = {child.tag.partition("}")[2]: child.text for child in entry}
    assert texts["published"] == texts["updated"] == "2026-12-01T00:00:00Z"
    assert texts["title"] == "0123456789ab: hackbench 25.0% regression"
    link = entry.find(f"{{{ATOM}}}link")
    assert link is not None
    assert link.get("href") == f"r/{culprit.key}/"


def test_a_private_name_in_a_page_is_refused_until_it_is_public(
    found: Comparison, tmp_path: Path, site: Path
) -> None:
    # The report explains its numbers with this word.
    sides = tuple(
        replace(side, host={**side.host, "system": {"hostname": "equivalence"}})
        for side in found.sides
    )
    paths = write(tmp_path, replace(found, sides=sides))
    with pytest.raises(SchedperfError, match=r"contains 'equivalence'.*--public NAME"):
        publish(paths, site, now=FIRST)
    assert not site.exists()
    publish(paths, site, now=FIRST, public=("equivalence",))


def test_the_command_prints_addresses_and_what_it_left_out(
    found: Comparison, tmp_path: Path, site: Path, run_cli: RunCli
) -> None:
    paths = write(tmp_path, found)
    done = run_cli("publish", *paths, site)
    page = site / "c" / found.id[:16] / "index.html"
    assert done.stdout == f"{page}\n"
    assert "      2  host.json system.hostname\n" in done.stderr
    assert HOST_NAME not in done.stderr
    assert run_cli("publish", *paths, site).stdout == f"{page} (already published)\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "record.json: "),
        (b"[]", "record.json: "),
        (b'{"schema": "schedperf/compare/1"}', "schedperf/compare/2"),
        (b'{"schema": "schedperf/culprit/9"}', "record.json: "),
        (b'{"schema": "schedperf/culprit/1"}', "record.json: "),
        (b"\x00\xff" * 99, "record.json: "),
    ],
)
def test_other_files_are_refused_in_one_line(
    content: bytes, message: str, tmp_path: Path, site: Path, run_cli: RunCli
) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    done = run_cli("publish", path, site)
    assert done.returncode == 2  # of input errors
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not site.exists()


def test_the_page_has_tested_commits_configuration_and_command(
    culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path, site: Path
) -> None:
    good, bad = culprit.good.commit, culprit.bad.commit
    steps = (
        BisectionStep(commit=good, boots=8, probability=0.004),
        BisectionStep(commit=bad, boots=12, probability=0.993),
        BisectionStep(commit="c" * 40, boots=0, probability=None, untestable="did not build"),
    )
    bisection = Bisection(
        good=good, bad=bad, steps=steps, builds=3, boots=20, probability=0.993,
        neighbours_tested=True,
    )  # fmt: skip
    publish(
        write(tmp_path, found, retested, replace(culprit, bisection=bisection)), site, now=FIRST
    )
    page = (site / f"r/{culprit.key}/index.html").read_text()
    rows = re.findall(r"<tr><td><code>([0-9a-f]{12})</code>.*?</tr>", page)
    assert rows == [bad[:12], good[:12], "c" * 12]
    assert 'aria-label="probability 0.993"' in page
    assert "did not build" in page
    [configuration] = re.findall(r"<dt>configuration</dt><dd>([^<]*)</dd>", page)
    assert configuration.startswith((".config ", "same .config"))


def test_the_title_says_that_it_is_fixed(
    culprit: Culprit,
    found: Comparison,
    retested: Comparison,
    *,
    tmp_path: Path,
    site: Path,
    make_bundle: Callable[..., Path],
) -> None:
    fixed = compare(make_bundle, tmp_path / "fixed", 0.6, seed=4)
    comparisons = (*culprit.comparisons, fixed.id)
    done = replace(culprit, fix=Measured(comparison=fixed.id), comparisons=comparisons)
    publish(write(tmp_path, found, retested, fixed, done), site, now=FIRST)
    page = (site / f"r/{culprit.key}/index.html").read_text()
    assert "<h1>Fixed: 0123456789ab: hackbench" in page
    # The feed has its own word for it.
    assert (site / "atom.xml").read_text().count("fixed: ") == 1
