# SPDX-License-Identifier: GPL-2.0-or-later
"""Add commands for regzbot, the kernel's regression tracker, to a mail."""

import re

from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.message import Metadata

LIST = "regressions@lists.linux.dev"
_SIGNATURE = b"\n-- \n"
_TO = re.compile(rb"^To:.*\n(?:[ \t].*\n)*", re.MULTILINE)
_CC = re.compile(rb"^Cc:.*\n(?:[ \t].*\n)*", re.MULTILINE)


def add_regzbot(metadata: Metadata, content: bytes) -> tuple[Metadata, bytes]:
    """Return a mail with regzbot's paragraph and its list in Cc.

    A mail that has the paragraph already is unchanged.

    :raises InputError: the benchmark is a micro-benchmark or of unknown class, the mail has no
        commit, or it is not the first report
    """
    if metadata.benchmark_class not in {"semi", "application"} or metadata.commit is None:
        what = metadata.benchmark_class or "unknown"
        raise InputError(
            f"{metadata.id}: --regzbot is for regressions of applications, and the benchmark's "
            f"class is {what}; approve it without --regzbot"
        )
    if metadata.kind != "report":
        raise InputError(
            f"{metadata.id}: --regzbot is for the first report, not for kind {metadata.kind}; "
            "approve it without --regzbot"
        )
    paragraph = f"#regzbot introduced: {metadata.commit}\n".encode()
    if b"\n" + paragraph in content:
        return metadata, content
    head, _, body = content.partition(b"\n\n")
    text, signature, rest = body.rpartition(_SIGNATURE)
    if not signature:
        text, rest = body.rstrip(b"\n") + b"\n", b""
    body = text.rstrip(b"\n") + b"\n\n" + paragraph + signature + rest
    cc = metadata.cc if LIST in metadata.cc else (*metadata.cc, LIST)
    return replace(metadata, cc=cc, public=True), _with_cc(head + b"\n") + b"\n" + body


def _with_cc(head: bytes) -> bytes:
    """Return a header with regzbot's list in Cc; each address may be on its own line."""
    address = LIST.encode()
    if match := _CC.search(head):
        if address in match[0]:
            return head
        field = match[0].rstrip(b"\n") + b",\n " + address + b"\n"
        return head[: match.start()] + field + head[match.end() :]
    match = _TO.search(head)
    end = match.end() if match else 0
    return head[:end] + b"Cc: " + address + b"\n" + head[end:]
