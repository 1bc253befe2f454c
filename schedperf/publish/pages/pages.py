# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the files of a published record, and the list of all records."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf.model.text import PIPED_COLUMNS
from schedperf.publish.culprit.figures import Evidence, name_machine
from schedperf.publish.culprit.json import write_culprit
from schedperf.publish.pages.culprit_page import (
    address_of,
    draw_culprit,
    machine_of,
    state_of,
    style,
    summary_of,
    title_of,
)
from schedperf.publish.pages.site import Entry, Folder, State, newest_versions
from schedperf_reports.formats import Options, find_format
from schedperf_reports.page.first_screen.screen import title_of as title_of_comparison
from schedperf_reports.page.views import environment

PAGE = "index.html"
COMPARISON = "compare.json"
TEXT = "report.txt"
CULPRIT = "culprit.json"
_BANNER = (
    b'<p style="margin:0;padding:.5rem 1.25rem;background:#8f1d15;color:#fff;font-weight:600">'
    b"Private: host names, people and paths are not left out. Do not publish this page.</p>\n"
)
_STATES: Mapping[State, str] = {
    "confirmed": "Confirmed by a retest.",
    "fixed": "Fixed.",
    "unconfirmed": "Not confirmed by a retest.",
}


def draw_comparison(comparison: Comparison, published: str, bundles: Mapping[str, bytes]) -> Folder:
    """Return entry and files of a comparison: HTML report, text, JSON and bundles.

    :param comparison: without private strings
    :param published: current time, ISO 8601
    :param bundles: bundles by file name, published beside it
    """
    options = Options(width=PIPED_COLUMNS, colour=False, everything=True, see="compare.json")
    overall = comparison.overall
    entry = Entry(
        address=address_of(comparison.id),
        title=title_of_comparison(comparison),
        summary=f"{overall.verdict}: {overall.reason_short}",
        machine=_machines(comparison),
        date=_date(comparison),
        published=published,
        bundles=tuple(bundles),
    )
    files = {
        PAGE: _render("html", comparison, options),
        TEXT: _render("text", comparison, options),
        COMPARISON: to_json(comparison).encode(),
        **bundles,
    }
    return Folder(entry=entry, files=files)


def draw_culprit_folder(
    evidence: Evidence, address: str, published: str, bundles: Mapping[str, Sequence[str]]
) -> Folder:
    """Return entry and files of a culprit: page and JSON.

    :param evidence: records without private strings
    :param address: URL of the culprit on the site: ``r/01234567/``, or ``r/01234567/2/``
    :param published: current time, ISO 8601
    :param bundles: names of published bundles, by the URL of the comparison
    :raises InputError: no result regressed, or a comparison is missing
    """
    entry = Entry(
        address=address,
        title=title_of(evidence),
        summary=summary_of(evidence),
        machine=machine_of(evidence),
        date=_date(evidence.comparison(evidence.culprit.main)),
        published=published,
        state=state_of(evidence),
        steps=tuple(each.step for each in evidence.culprit.steps),
        commit=evidence.culprit.range_name,
        thread=evidence.culprit.links.report,
    )
    page = draw_culprit(
        evidence, root="../" * address.count("/"), version=entry.version, bundles=bundles
    )
    files = {PAGE: page, CULPRIT: write_culprit(evidence.culprit)}
    return Folder(entry=entry, files=files)


def mark_private(folder: Folder) -> Folder:
    """Return a record whose page says that it is private."""
    return replace(folder, files={**folder.files, PAGE: with_banner(folder.files[PAGE])})


def with_banner(page: bytes) -> bytes:
    """Return a page that says that it is private."""
    return page.replace(b"<body>\n", b"<body>\n" + _BANNER, 1)


def draw_index(entries: Iterable[Entry]) -> bytes:
    """Return the page that lists the newest version of all records, the newest data first."""
    newest = sorted(
        newest_versions(entries), key=lambda entry: (entry.date or "", entry.address), reverse=True
    )
    lists: Mapping[str, list[Entry]] = {
        "culprits": [entry for entry in newest if entry.state is not None],
        "comparisons": [entry for entry in newest if entry.state is None],
    }
    template = environment().get_template("site/index.html.j2")
    return template.render(
        root="", style=style(), title="Results", states=_STATES, **lists
    ).encode()


def _render(name: str, comparison: Comparison, options: Options) -> bytes:
    # A surrogate in a captured name must not make the report fail.
    return find_format(name).render(comparison, options).encode(errors="backslashreplace")


def _machines(comparison: Comparison) -> str:
    if not any(side.host for side in comparison.sides):
        return "not recorded"
    return ", ".join(dict.fromkeys(map(name_machine, comparison.sides)))


def _date(comparison: Comparison) -> str | None:
    return max((side.created for side in comparison.sides if side.created), default=None)
