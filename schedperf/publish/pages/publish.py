# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish culprits and comparisons: redact, draw, check, write."""

import html
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.json import MOST_BYTES, MOST_VALUES, read_comparison
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import parse_json
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.publish.culprit.figures import ID_DIGITS, Evidence
from schedperf.publish.culprit.files import find_comparisons
from schedperf.publish.culprit.json import read_culprit
from schedperf.publish.culprit.record import SCHEMA as CULPRIT_SCHEMA
from schedperf.publish.culprit.record import Culprit
from schedperf.publish.pages.bundle import find_bundle, redact_bundle
from schedperf.publish.pages.culprit_page import address_of
from schedperf.publish.pages.feed import write_feed
from schedperf.publish.pages.pages import (
    PAGE,
    draw_comparison,
    draw_culprit_folder,
    draw_index,
    mark_private,
    with_banner,
)
from schedperf.publish.pages.private import PrivateStrings
from schedperf.publish.pages.redact import (
    keep_whole,
    people_of_public_commits,
    redact_comparison,
    redact_culprit,
)
from schedperf.publish.pages.site import ENTRY, Folder, Site, open_site

FEED = "atom.xml"
RESULTS = "results.html"
# Scripts and styles of a page are those of schedperf.
_OWN_PARTS = re.compile(r"<(script|style)\b(?![^>]*type=\"application).*?</\1>", re.DOTALL)


class Published(Struct, frozen=True, kw_only=True):
    """The result of one call.

    :param new: by URL, whether it was not published before
    :param left_out: number of omitted or replaced strings, by kind
    """

    new: Mapping[str, bool]
    left_out: Mapping[str, int]


class _Original(Struct, frozen=True, kw_only=True):
    """A comparison with its private strings.

    :param path: its JSON file, or the culprit beside which it was found
    :param is_given: whether the user named its JSON file
    """

    comparison: Comparison
    path: Path
    is_given: bool


def publish(
    paths: Sequence[Path],
    out: Path,
    *,
    now: datetime,
    public: Collection[str] = (),
    update: bool = False,
    bundles: bool = False,
    base_url: str | None = None,
    is_private: bool = False,
) -> Published:
    """Publish records without private strings below a directory.

    :param paths: JSON files of culprits and comparisons; those of a culprit are found beside it
    :param now: date of publication, UTC
    :param public: names that are not private
    :param update: publish a changed culprit as a further version
    :param bundles: publish the bundles of comparisons, redacted
    :param base_url: URL of the site, for the links of the feed; None if unknown
    :param is_private: leave nothing out; each page says that it is private
    :raises InputError: a record or the directory cannot be used, a private string remains, or
        other content is published at a URL; nothing is published then
    """
    comparisons, culprits = _read(paths)
    people = people_of_public_commits(culprits)
    redacted = {
        name: keep_whole(each.comparison)
        if is_private
        else redact_comparison(each.comparison, public, people)
        for name, each in comparisons.items()
    }
    names = {name for result in redacted.values() for name in result.private.names}
    private = PrivateStrings(names, public=public)
    records = {name: result.record for name, result in redacted.items()}
    shown = [
        keep_whole(culprit) if is_private else redact_culprit(culprit, private)
        for culprit in culprits
    ]
    published = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    with open_site(out) as site:
        site.refuse_other_kind(is_private=is_private)
        # Published bundles stay if they are not given again.
        listed = {
            name: redacted[name]
            for name, each in comparisons.items()
            if each.is_given or not site.has(address_of(name))
        }
        folders = []
        for name, result in listed.items():
            archives = _redact_bundles(comparisons[name], result.private) if bundles else {}
            folders.append(draw_comparison(result.record, published, archives))
        # What is published at a URL does not change.
        entries = (*(folder.entry for folder in folders), *site.entries)
        shown_bundles = {entry.address: entry.bundles for entry in entries}
        folders += [
            _draw_culprit(
                Evidence(culprit=result.record, comparisons=records),
                site,
                published,
                shown_bundles,
                update=update,
            )
            for result in shown
        ]
        for folder in folders:
            _refuse_private(folder, private)
        if is_private:
            folders = [mark_private(folder) for folder in folders]
        new = {folder.entry.address: site.add(folder) for folder in folders}
        site.claim(is_private=is_private)
        site.write(list_records(site, base_url))
    left_out: Counter[str] = Counter()
    for counts in (
        *(result.left_out for result in listed.values()),
        *(result.left_out for result in shown),
    ):
        left_out.update(counts)
    return Published(new=new, left_out=dict(sorted(left_out.items())))


def list_records(site: Site, base_url: str | None) -> dict[str, bytes]:
    """Return the list of all records and the feed, by file name.

    The first page of a site with the pages of a lab is that of the lab.
    """
    page = draw_index(site.entries)
    name = RESULTS if site.has_lab else PAGE
    if site.is_private:
        page = with_banner(page)
    return {name: page, FEED: write_feed(site.entries, base_url)}


def _read(paths: Sequence[Path]) -> tuple[dict[str, _Original], list[Culprit]]:
    """Return the comparisons by their ids, including those beside a culprit; and the culprits.

    :raises InputError: a file cannot be read, or a comparison of a culprit is missing
    """
    comparisons: dict[str, _Original] = {}
    culprits: dict[Path, Culprit] = {}
    for path in paths:
        content = read_regular(path, MOST_BYTES, "JSON of a comparison or a culprit")
        value = parse_json(content, str(path), MOST_VALUES)
        schema = value.get("schema") if isinstance(value, dict) else None
        if schema == CULPRIT_SCHEMA:
            culprits[path] = read_culprit(content, str(path))
        else:
            comparison = read_comparison(content, str(path))
            comparisons[comparison.id] = _Original(comparison=comparison, path=path, is_given=True)
    for path, culprit in culprits.items():
        left = [name for name in culprit.comparisons if name not in comparisons]
        found = find_comparisons(path.parent, left) if left else {}
        for name in left:
            if name not in found:
                raise InputError(
                    f"{path}: comparison {name[:ID_DIGITS]} is neither given nor beside it "
                    "(expected its JSON file, which has the names to leave out); pass it, too"
                )
            comparisons[name] = _Original(comparison=found[name], path=path, is_given=False)
    return comparisons, [*culprits.values()]


def _redact_bundles(original: _Original, private: PrivateStrings) -> dict[str, bytes]:
    """Return the redacted bundles of a comparison by file name."""
    return {
        f"{side.name}.tar": redact_bundle(find_bundle(side, original.path), private)
        for side in original.comparison.sides
    }


def _draw_culprit(
    evidence: Evidence,
    site: Site,
    published: str,
    bundles: Mapping[str, Sequence[str]],
    *,
    update: bool,
) -> Folder:
    """Return entry and files of a culprit at its URL, or at that of a further version.

    :param bundles: names of published bundles, by the URL of the comparison
    :param update: choose the first version that already has this content, else a new one; if false,
        the first version is used
    """
    for version in count(1):
        address = f"r/{evidence.culprit.key}/" + (f"{version}/" if version > 1 else "")
        links = replace(evidence.culprit.links, page=address)
        shown = replace(evidence, culprit=replace(evidence.culprit, links=links))
        folder = draw_culprit_folder(shown, address, published, bundles)
        if not update or not site.has(address) or site.find_change(folder) is None:
            return folder
    raise AssertionError("count() does not end")


def _refuse_private(folder: Folder, private: PrivateStrings) -> None:
    """Raise InputError for output with private names, which redaction should have removed."""
    entry = {ENTRY: f"{folder.entry.title}\n{folder.entry.summary}\n{folder.entry.machine}"}
    texts = {name: content.decode(errors="replace") for name, content in folder.files.items()}
    for name, text in {**texts, **entry}.items():
        shown = html.unescape(_OWN_PARTS.sub("", text)) if name == PAGE else text
        if (word := private.find(shown)) is not None:
            raise InputError(
                f"{folder.entry.address}{name}: contains {word!r}, which the record has in a "
                "private field; nothing is published (if the name is public, add --public NAME)"
            )
