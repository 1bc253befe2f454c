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

from schedperf.bundle.files import read_regular
from schedperf.bundle.json import parse_json
from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.culprit.figures import Evidence
from schedperf.culprit.json import read_culprit
from schedperf.culprit.record import SCHEMA as CULPRIT_SCHEMA
from schedperf.culprit.record import Culprit
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.publish.bundle import find_bundle, redact_bundle
from schedperf.publish.culprit_page import address_of
from schedperf.publish.feed import write_feed
from schedperf.publish.pages import (
    COMPARISON,
    PAGE,
    draw_comparison,
    draw_culprit_folder,
    draw_index,
)
from schedperf.publish.private import PrivateStrings
from schedperf.publish.redact import people_of_public_commits, redact_comparison, redact_culprit
from schedperf.publish.site import ENTRY, Folder, Site, open_site

FEED = "atom.xml"
# Programs and styles of a page are those of schedperf.
_OWN_PARTS = re.compile(r"<(script|style)\b(?![^>]*type=\"application).*?</\1>", re.DOTALL)


class Published(Struct, frozen=True, kw_only=True):
    """What one call published.

    :param new: by address, whether it was not published before
    :param left_out: by kind of string, how many were left out or replaced
    """

    new: Mapping[str, bool]
    left_out: Mapping[str, int]


def publish(
    paths: Sequence[Path],
    out: Path,
    *,
    now: datetime,
    public: Collection[str] = (),
    update: bool = False,
    bundles: bool = False,
) -> Published:
    """Publish records without private strings below a directory.

    :param paths: JSON files of culprits and comparisons
    :param now: date of publication, UTC
    :param public: names that are not private
    :param update: publish a changed culprit as a further version
    :param bundles: publish the bundles of comparisons, redacted
    :raises InputError: a record or the directory cannot be used, or a private string remains
    """
    comparisons, culprits = _read(paths)
    left_out: Counter[str] = Counter()
    names: set[str] = set()
    redacted: dict[str, Comparison] = {}
    archives: dict[str, dict[str, bytes]] = {}
    people = people_of_public_commits(culprits.values())
    for path, comparison in comparisons.items():
        result = redact_comparison(comparison, public, people)
        names.update(result.private.names)
        left_out.update(result.left_out)
        redacted[comparison.id] = result.record
        if bundles:
            archives[comparison.id] = _redact_bundles(comparison, path, result.private)
    private = PrivateStrings(names, public=public)
    published = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    with open_site(out) as site:
        folders = [
            draw_comparison(comparison, published, archives.get(comparison.id, {}))
            for comparison in redacted.values()
        ]
        # What is published at an address already stays.
        entries = (*(folder.entry for folder in folders), *site.entries)
        shown_bundles = {entry.address: entry.bundles for entry in entries}
        for path, culprit in culprits.items():
            evidence = _find_evidence(culprit, redacted, site, path)
            result_of_culprit = redact_culprit(culprit, private)
            left_out.update(result_of_culprit.left_out)
            shown = replace(evidence, culprit=result_of_culprit.record)
            folders.append(_draw_culprit(shown, site, published, shown_bundles, update=update))
        for folder in folders:
            _refuse_private(folder, private)
        new = {folder.entry.address: site.add(folder) for folder in folders}
        files = {PAGE: draw_index(site.entries), FEED: write_feed(site.entries)}
        site.write(files)
    return Published(new=new, left_out=dict(sorted(left_out.items())))


def _read(paths: Sequence[Path]) -> tuple[dict[Path, Comparison], dict[Path, Culprit]]:
    comparisons: dict[Path, Comparison] = {}
    culprits: dict[Path, Culprit] = {}
    for path in paths:
        content = read_regular(path, MOST_BYTES, "JSON of a comparison or a culprit")
        value = parse_json(content, str(path))
        schema = value.get("schema") if isinstance(value, dict) else None
        if schema == CULPRIT_SCHEMA:
            culprits[path] = read_culprit(content, str(path))
        else:
            comparisons[path] = read_comparison(content, str(path))
    return comparisons, culprits


def _redact_bundles(
    comparison: Comparison, path: Path, private: PrivateStrings
) -> dict[str, bytes]:
    """Return the redacted bundles of a comparison by file name."""
    return {
        f"{side.name}.tar": redact_bundle(find_bundle(side, path), private)
        for side in comparison.sides
    }


def _find_evidence(
    culprit: Culprit, given: Mapping[str, Comparison], site: Site, path: Path
) -> Evidence:
    """Return a culprit with its comparisons: those given now, or published before."""
    found: dict[str, Comparison] = {}
    for comparison_id in culprit.comparisons:
        address = address_of(comparison_id)
        content = site.read(address, COMPARISON, MOST_BYTES)
        if comparison_id in given:
            found[comparison_id] = given[comparison_id]
        elif content is not None:
            found[comparison_id] = read_comparison(content, f"{site.path / address / COMPARISON}")
        else:
            raise InputError(
                f"{path}: comparison {comparison_id[:16]} is neither given nor published (expected "
                "all comparisons of the culprit); pass its JSON file, too"
            )
    return Evidence(culprit=culprit, comparisons=found)


def _draw_culprit(
    evidence: Evidence,
    site: Site,
    published: str,
    bundles: Mapping[str, Sequence[str]],
    *,
    update: bool,
) -> Folder:
    """Return the files of a culprit at its address, or at that of a version.

    :param bundles: names of published bundles, by the address of the comparison
    :param update: choose the version that has this content already, or else a new one
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
    """Check what will be written for private names: redaction must have removed them all."""
    entry = {ENTRY: f"{folder.entry.title}\n{folder.entry.summary}\n{folder.entry.machine}"}
    texts = {name: content.decode(errors="replace") for name, content in folder.files.items()}
    for name, text in {**texts, **entry}.items():
        shown = html.unescape(_OWN_PARTS.sub("", text)) if name == PAGE else text
        if (word := private.find(shown)) is not None:
            raise InputError(
                f"{folder.entry.address}{name}: contains {word!r}, which the record has in a "
                "private field; nothing is published (if the name is public, add --public NAME)"
            )
