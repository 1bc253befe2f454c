# SPDX-License-Identifier: GPL-2.0-or-later
"""Deliver a mail by a program, to a mail server or to a Maildir; or leave it to a person."""

import mailbox
import os
import smtplib
import ssl
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.mail.envelope import Envelope
from schedperf.publish.mail.site import (
    CommandTransport,
    MaildirTransport,
    MailSite,
    SmtpTransport,
    Transport,
)

_LONGEST_REASON = 200
_LARGEST_LOGIN = 1 << 12
# With one of these exit statuses, a program may have forwarded the mail (sysexits.h: EX_OSERR,
# EX_IOERR, EX_TEMPFAIL).
_UNCERTAIN = {71, 74, 75}
_PERMANENT = 500
# Class of SMTP replies that request a later retry.
_TEMPORARY = 4
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Accepted(Struct, frozen=True):
    """The transport accepted the mail.

    :param note: recipients that the server refused, with its replies; "" if it refused none
    """

    note: str = ""


class Refused(Struct, frozen=True):
    """The transport rejected the mail permanently."""

    reason: str


class Postponed(Struct, frozen=True):
    """Nothing was delivered; the server requests a later retry."""

    reason: str


class Failed(Struct, frozen=True):
    """Nothing was delivered, because the transport does not work.

    The server cannot be reached or rejects the login, the program cannot be executed, or the
    Maildir cannot be written.
    """

    reason: str


class Unknown(Struct, frozen=True):
    """The mail may have been delivered."""

    reason: str


Outcome = Accepted | Refused | Postponed | Failed | Unknown


class Deliver(Protocol):
    """The interface of a transport."""

    def __call__(self, content: bytes, envelope: Envelope) -> Outcome:
        """Deliver a mail, whose lines end with a newline; return the outcome, also of a failure."""


def open_transport(site: MailSite) -> Deliver | None:
    """Return the configured transport; ``None`` if a person sends the files.

    :raises InputError: its login file is missing, invalid, readable by others or used without TLS;
        its server on another machine has no TLS; or its ``ca_file`` cannot be loaded
    """
    transport: Transport = site.transport
    if isinstance(transport, CommandTransport):
        return _Command(transport)
    if isinstance(transport, SmtpTransport):
        return _Smtp(transport, site.site.domain)
    if isinstance(transport, MaildirTransport):
        return _Maildir(transport)
    return None


class _Command:
    def __init__(self, settings: CommandTransport) -> None:
        self._settings = settings

    def __call__(self, content: bytes, envelope: Envelope) -> Outcome:  # noqa: ARG002 # -t reads the header
        argv: Sequence[str] = self._settings.argv
        try:
            done = subprocess.run(
                argv,
                input=content,
                capture_output=True,
                timeout=self._settings.limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Unknown(f"{argv[0]}: not finished after {self._settings.limit_s:g} s")
        except OSError as error:
            return Failed(f"{argv[0]}: {(error.strerror or str(error)).lower()}")
        if done.returncode == 0:
            return Accepted()
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        reason = _reason(f"{argv[0]}: {ended}: ", done.stderr or done.stdout)
        if done.returncode < 0 or done.returncode in _UNCERTAIN:
            return Unknown(reason)
        return Refused(reason)


class _Maildir:
    def __init__(self, settings: MaildirTransport) -> None:
        self._path = Path(settings.path)

    def __call__(self, content: bytes, envelope: Envelope) -> Outcome:  # noqa: ARG002 # one reader
        try:
            mailbox.Maildir(self._path, create=True).add(content)
        except OSError as error:
            # It is written under tmp/ first, so nothing was delivered.
            return Failed(f"{self._path}: {(error.strerror or str(error)).lower()}")
        return Accepted()


class _Smtp:
    def __init__(self, settings: SmtpTransport, domain: str) -> None:
        self._settings = settings
        # Otherwise the mail's Received header would contain the name of this machine.
        self._domain = domain
        self._login = _read_login(settings)
        if settings.security == "none" and settings.host not in _LOOPBACK:
            raise InputError(
                f"mail.toml: transport.security: none is for this machine only; use starttls or "
                f"tls for {settings.host}"
            )
        try:
            self._context = ssl.create_default_context(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"mail.toml: transport.ca_file: {clean_line(str(error))}; give a PEM file"
            ) from None

    def __call__(self, content: bytes, envelope: Envelope) -> Outcome:
        wire = content.replace(b"\n", b"\r\n")
        try:
            server = self._connect()
        except (OSError, smtplib.SMTPException) as error:
            return _before_data(error)
        try:
            outcome = _transfer(server, wire, envelope)
        finally:
            _quit(server)
        return outcome

    def _connect(self) -> smtplib.SMTP:
        settings = self._settings
        where = (settings.host, settings.port, self._domain)
        server: smtplib.SMTP
        if settings.security == "tls":
            server = smtplib.SMTP_SSL(*where, timeout=settings.limit_s, context=self._context)
        else:
            server = smtplib.SMTP(*where, timeout=settings.limit_s)
        try:
            if settings.security == "starttls":
                server.starttls(context=self._context)
            server.ehlo_or_helo_if_needed()
            if self._login:
                server.login(*self._login)
        except BaseException:
            server.close()
            raise
        return server


def _transfer(server: smtplib.SMTP, content: bytes, envelope: Envelope) -> Outcome:
    try:
        outcome = _address(server, content, envelope)
    except (OSError, smtplib.SMTPException) as error:
        return _before_data(error)
    if not isinstance(outcome, Accepted):
        return outcome
    try:
        code, answer = server.data(content)
    except smtplib.SMTPDataError as error:
        # The server's reply to DATA, before the text is sent.
        return _before_data(error)
    except (OSError, smtplib.SMTPException) as error:
        return Unknown(_reason("connection lost after the text: ", str(error)))
    if code // 100 == 2:  # noqa: PLR2004 # the class of success
        return outcome
    return _declined(code, answer)


def _address(server: smtplib.SMTP, content: bytes, envelope: Envelope) -> Outcome:
    """Send sender and recipients to the server.

    A temporary rejection of the sender or of one recipient postpones the mail for all. It is
    refused if the server rejects the sender or all recipients permanently; otherwise it goes to
    the accepted recipients.
    """
    options = ["BODY=8BITMIME"] if not content.isascii() and server.has_extn("8bitmime") else []
    code, answer = server.mail(envelope.sender, options)
    if code // 100 != 2:  # noqa: PLR2004 # as above
        return _declined(code, answer)
    refused = []
    for recipient in envelope.recipients:
        code, answer = server.rcpt(recipient)
        if code // 100 == 2:  # noqa: PLR2004 # as above
            continue
        if code < _PERMANENT:
            return _declined(code, answer)
        refused.append(_reason(f"{recipient}: {code} ", answer))
    if len(refused) == len(envelope.recipients):
        return Refused("; ".join(refused))
    return Accepted("; ".join(refused))


def _declined(code: int, answer: bytes) -> Outcome:
    reason = _reason(f"server: {code} ", answer)
    return Refused(reason) if code >= _PERMANENT else Postponed(reason)


def _before_data(error: Exception) -> Outcome:
    """Return the outcome of an error before the text was sent, so that nothing was delivered."""
    if isinstance(error, smtplib.SMTPDataError | smtplib.SMTPSenderRefused):
        answer = error.smtp_error
        return _declined(error.smtp_code, answer if isinstance(answer, bytes) else answer.encode())
    reason = _reason("server: ", str(error) or type(error).__name__)
    code = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else 0
    return Postponed(reason) if code // 100 == _TEMPORARY else Failed(reason)


def _quit(server: smtplib.SMTP) -> None:
    """End the session; errors are ignored, because the outcome is known."""
    try:
        server.quit()
    except (OSError, smtplib.SMTPException):
        server.close()


def _reason(prefix: str, answer: bytes | str) -> str:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return (prefix + clean_line(text))[:_LONGEST_REASON].rstrip(": ")


def _read_login(settings: SmtpTransport) -> tuple[str, str] | None:
    if settings.login_file is None:
        return None
    path = Path(settings.login_file)
    content = read_regular(path, _LARGEST_LOGIN, "a file with user and password")
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path}: others may read this password; run: chmod 600 {path}")
    lines = content.decode(errors="replace").rstrip("\n").split("\n")
    if len(lines) != 2 or not all(line.isprintable() and line for line in lines):  # noqa: PLR2004 # user and password
        raise InputError(f"{path}: expected two lines, user and password; correct the file")
    if settings.security == "none":
        raise InputError(f"{path}: a login without TLS shows the password; use starttls or tls")
    return lines[0], lines[1]
