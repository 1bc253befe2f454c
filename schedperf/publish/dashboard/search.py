# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the index of the search: commits, benchmarks and machines, with the addresses of pages."""

from collections.abc import Iterator

from msgspec import json

from schedperf.publish.dashboard.lab import Lab, describe_result, short

# Scripts of pages that were opened from disk cannot read JSON, but can load this.
_AS_SCRIPT = b"self.searchIndex="


def write_search(lab: Lab) -> dict[str, bytes]:
    """Return the index by file name: JSON, and the same as a script."""
    content = json.encode([*_entries(lab)])
    return {"search.json": content + b"\n", "search.js": _AS_SCRIPT + content + b";\n"}


def _entries(lab: Lab) -> Iterator[dict[str, str]]:
    for machine in sorted({each.id: each.name for each in lab.machines.values()}.items()):
        yield {"kind": "machine", "text": machine[1], "address": f"m/{machine[0]}.html"}
    for recent in lab.series:
        series = recent.series
        text = f"{describe_result(series)} ({series.workload}) on {lab.machine(series).name}"
        yield {"kind": "series", "text": text, "address": f"s/{series.key}.html"}
    for record in lab.records:
        yield {
            "kind": "first bad commit",
            "text": record.title,
            "address": f"{record.address}index.html",
        }
    yield from _kernels(lab)


def _kernels(lab: Lab) -> Iterator[dict[str, str]]:
    """Yield the kernels of the last nights, with the page of the first night of each."""
    first: dict[str, str] = {}
    for recent in lab.series:
        for night in recent.nights:
            date = night.night[:10]
            if "-" in date and date < first.get(night.revision, "~"):
                first[night.revision] = date
    for revision, date in sorted(first.items(), key=lambda each: (each[1], each[0]), reverse=True):
        kernel = lab.kernels.get(revision)
        subject = f" {kernel.subject}" if kernel is not None and kernel.subject else ""
        if revision in lab.shown_revisions:
            name = lab.shown_revisions[revision]
            yield {"kind": "commit", "text": f"{short(name)}{subject}", "address": f"n/{date}.html"}
