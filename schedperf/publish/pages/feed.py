# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the Atom feed of a site: confirmed and fixed regressions."""

from collections.abc import Iterable
from uuid import UUID, uuid5
from xml.etree import ElementTree as ET

from schedperf.model.text import clean_line
from schedperf.publish.pages.site import Entry, newest_versions

ATOM = "http://www.w3.org/2005/Atom"
# Number of entries; few feed readers keep more.
MOST_ENTRIES = 100
# The ids of the feed and of its entries never change.
_NAMES = UUID("5a1c6b0e-2f4d-5b7a-9c3e-7d8f60417c11")
_EPOCH = "1970-01-01T00:00:00Z"
# Characters that XML forbids and that redaction keeps.
_NOT_IN_XML = {0xFFFE: None, 0xFFFF: None}


def write_feed(entries: Iterable[Entry], base_url: str | None = None) -> bytes:
    """Return the feed of confirmed and fixed culprits, the latest publication first.

    It has the newest version of each culprit, and at most 100 culprits.

    :param base_url: URL of the site, for absolute links; None for links that are relative to the
        feed, which some readers do not resolve
    """
    base = "" if base_url is None else f"{base_url.rstrip('/')}/"
    listed = [*entries]
    first = {entry.record: entry.published for entry in listed if entry.version == 1}
    shown = sorted(
        (entry for entry in newest_versions(listed) if entry.state in ("confirmed", "fixed")),
        key=lambda entry: (entry.published, entry.address),
        reverse=True,
    )
    feed = ET.Element(_tag("feed"))
    _add(feed, "title", "Scheduler regressions")
    _add(feed, "id", _identify("feed"))
    _add(feed, "updated", shown[0].published if shown else _EPOCH)
    _add(_add(feed, "author"), "name", "schedperf")
    _add(feed, "link", rel="self", href=f"{base}atom.xml")
    _add(feed, "link", rel="alternate", href=f"{base}index.html")
    for entry in shown[:MOST_ENTRIES]:
        _add_entry(feed, entry, first.get(entry.record, entry.published), base)
    ET.register_namespace("", ATOM)
    ET.indent(feed, " ")
    text: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_entry(feed: ET.Element, entry: Entry, published: str, base: str) -> None:
    item = _add(feed, "entry")
    _add(item, "title", f"fixed: {entry.title}" if entry.state == "fixed" else entry.title)
    _add(item, "id", _identify(entry.record))
    _add(item, "published", published)
    _add(item, "updated", entry.published)
    _add(item, "link", rel="alternate", href=f"{base}{entry.address}")
    _add(item, "category", term=entry.state or "")
    _add(item, "summary", entry.summary)


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, _tag(name), attributes)
    if text is not None:
        element.text = clean_line(text).translate(_NOT_IN_XML)
    return element


def _tag(name: str) -> str:
    return f"{{{ATOM}}}{name}"


def _identify(name: str) -> str:
    return f"urn:uuid:{uuid5(_NAMES, name)}"
