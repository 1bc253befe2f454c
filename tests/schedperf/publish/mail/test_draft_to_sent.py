# SPDX-License-Identifier: GPL-2.0-or-later
"""A rendered report on its way: held, approved, accepted by a real mail server."""

from email import message_from_bytes
from email.policy import default as policy
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.approval import approve
from schedperf.publish.mail.outbox import Outbox
from schedperf.publish.mail.regzbot import LIST
from schedperf.publish.mail.send import Sender
from schedperf.publish.mail.transports import open_transport
from tests.schedperf.publish.mail.checks.cases import make_context
from tests.schedperf.publish.mail.records import NOW, make_site
from tests.smtp_server import Server, smtp_server


def send(outbox: Outbox, server: Server, *, regzbot: bool) -> bytes:
    site = make_site()
    site = replace(site, allow=(*site.allow, LIST), transport=server.settings())
    message = make_context(site=site).message
    if regzbot:
        metadata = replace(message.metadata, benchmark_class="application")
        message = replace(message, metadata=metadata)
    outbox.hold(message, now=NOW)
    approve(outbox, site, outbox.mails()[0], "person", NOW, regzbot=regzbot)
    (sent,) = Sender(outbox, site, open_transport(site), None, NOW).send()
    assert sent.result == "sent", sent.reason
    (envelope,) = server.delivered
    assert isinstance(envelope.content, bytes)
    return envelope.content.replace(b"\r\n", b"\n")


def test_a_report_arrives_as_it_was_rendered(tmp_path: Path) -> None:
    with smtp_server() as server:
        content = send(Outbox(tmp_path / "outbox"), server, regzbot=False)
    assert content == make_context().message.content


def test_a_report_for_regzbot_is_still_a_valid_mail(tmp_path: Path) -> None:
    with smtp_server() as server:
        content = send(Outbox(tmp_path / "outbox"), server, regzbot=True)
    mail = message_from_bytes(content, policy=policy)
    assert not mail.defects
    assert LIST in {address.addr_spec for address in mail["Cc"].addresses}
    assert "\n\n#regzbot introduced: 0123456789ab\n\n" in content.decode()
    assert LIST in server.delivered[0].rcpt_tos


def test_a_micro_benchmark_is_not_tracked(tmp_path: Path) -> None:
    with smtp_server() as server:
        outbox = Outbox(tmp_path / "outbox")
        outbox.hold(make_context().message, now=NOW)
        with pytest.raises(InputError, match="the benchmark's class is"):
            approve(outbox, make_site(), outbox.mails()[0], "person", NOW, regzbot=True)
    assert not server.delivered
