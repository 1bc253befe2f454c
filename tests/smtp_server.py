# SPDX-License-Identifier: GPL-2.0-or-later
"""A real mail server on the loopback interface, which can refuse, postpone or hang up."""

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from schedperf.publish.mail.site import SmtpTransport


class Server:
    """Keep what was delivered, and answer as a test asks.

    :param answers: answer by command: ``{"RCPT": "450 later"}``; "drop" closes the connection,
        "take and drop" delivers before that
    """

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        self.answers = answers or {}
        self.delivered: list[Envelope] = []
        self.port = 0
        self.clients: list[str] = []

    async def handle_EHLO(  # noqa: N802 # aiosmtpd's names
        self, _: SMTP, session: Session, __: Envelope, name: str, answers: list[str]
    ) -> list[str]:
        session.host_name = name
        self.clients.append(name)
        return answers

    async def handle_MAIL(  # noqa: N802 # aiosmtpd's names
        self, server: SMTP, _: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self._answer(server, "MAIL")

    async def handle_RCPT(  # noqa: N802 # as above
        self, server: SMTP, _: Session, envelope: Envelope, address: str, __: list[str]
    ) -> str:
        answer = self.answers.get(address) or self._answer(server, "RCPT")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, _: Session, envelope: Envelope) -> str:  # noqa: N802 # as above
        if self.answers.get("DATA") in {None, "take and drop"}:
            self.delivered.append(envelope)
        return self._answer(server, "DATA")

    def _answer(self, server: SMTP, command: str) -> str:
        answer = self.answers.get(command, "250 OK")
        if "drop" in answer:
            cast("asyncio.Transport", server.transport).abort()
        return answer

    def settings(self, **more: object) -> SmtpTransport:
        """Return the transport of mail.toml that delivers to this server."""
        plain = {"host": "127.0.0.1", "port": self.port, "security": "none"}
        return SmtpTransport(**{**plain, **more})  # type: ignore[arg-type] # a test's own keywords


@contextmanager
def smtp_server(
    answers: dict[str, str] | None = None, certificate: Path | None = None
) -> Iterator[Server]:
    """Run a server in a thread.

    :param certificate: PEM file with key and certificate; the server then demands STARTTLS and a
        login as "bot" with the password "secret"
    """
    handler = Server(answers)
    more: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        more = {
            "tls_context": context,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": _authenticate,
        }
    with port_of_server(handler, **more) as handler.port:
        yield handler


@contextmanager
def port_of_server(handler: object, **more: Any) -> Iterator[int]:
    """Run a server in a thread with any handler of aiosmtpd; yield its port."""
    controller = _Controller(handler, hostname="127.0.0.1", port=0, **more)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


class _Controller(Controller):
    """A controller whose port the kernel chooses."""

    def _trigger_server(self) -> None:
        self.port = cast("asyncio.Server", self.server).sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call] # of aiosmtpd


def _authenticate(*args: object) -> AuthResult:
    login = args[-1]
    good = isinstance(login, LoginPassword) and login == LoginPassword(b"bot", b"secret")
    return AuthResult(success=good, handled=False)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate for 127.0.0.1, and the same with its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    return certificate, both
