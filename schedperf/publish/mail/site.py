# SPDX-License-Identifier: GPL-2.0-or-later
"""Read ``mail.toml``: the sender, the permitted recipients, and the transport.

The file is in the folder of the outbox. A lab has the same keys in the table ``[mail]`` of its
``lab.toml``, to which a link in that folder points::

    allow = ["sched-perf@lab.example", "@lab.example"]

    [site]
    name = "Example lab"
    domain = "lab.example"
    from = "schedperf <schedperf@lab.example>"
    contact = "perf-team@lab.example"
    list = "sched-perf@lab.example"
    base_url = "https://lab.example/schedperf"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.toml import read_toml, to_record
from schedperf.model.errors import InputError
from schedperf.model.text import clean, clean_line
from schedperf.publish.mail.address import address_of

CONFIGURATION = "mail.toml"
# Link in an outbox to the file of its lab, whose table [mail] has the settings.
LAB = "lab.toml"
_EXAMPLES = {
    "domain": "lab.example",
    "url": "https://lore.example/sched-perf",
    "patches": "https://lore.kernel.org/all",
    "kind": "command, smtp or maildir",
    "security": "starttls, tls or none",
}
_DOMAIN = r"^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\Z"

# A line of a header has at most 78 columns.
LONGEST_RECIPIENT = 70
Line = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+\Z")]
Url = Annotated[str, Meta(max_length=200, pattern=r"^https?://[!-~]+\Z")]
Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=0)]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; an unknown key is an error."""


class Site(_Table, rename={"sender": "from"}, frozen=True, kw_only=True):
    """The site that sends the mails."""

    name: Line
    domain: Annotated[str, Meta(max_length=100, pattern=_DOMAIN), "right side of Message-IDs"]
    sender: Annotated[Line, "mailbox of the bot, which people read"]
    contact: Annotated[Line, "who answers for the bot, in the signature"]
    list: Annotated[Line, "the site's own list; it gets every mail"]
    base_url: Annotated[Url | None, "where results are published"] = None


class Quota(_Table, frozen=True, kw_only=True):
    """How many mails may be sent."""

    per_day: Count = 2
    per_recipient_and_week: Count = 2


class Archive(_Table, frozen=True, kw_only=True):
    """An archive in which sent mails can be found again."""

    url: Annotated[Url | None, "a public-inbox, whose page URL/MESSAGE-ID/ has a message"] = None
    maildir: Annotated[Line | None, "Maildir that gets a copy of each mail"] = None
    bcc: Annotated[Line | None, "address that fills the Maildir"] = None
    delay_minutes: Annotated[
        float, Meta(gt=0, le=100_000), "how long a mail may take to be archived"
    ] = 30


class Files(_Table, tag_field="kind", tag="files", frozen=True, kw_only=True):
    """No mail is sent automatically: a person sends the approved files."""


class CommandTransport(_Table, tag_field="kind", tag="command", frozen=True, kw_only=True):
    """A program that reads the mail from stdin and its recipients from the header."""

    argv: Annotated[tuple[Line, ...], Meta(min_length=1)]
    limit_s: Annotated[float, Meta(gt=0, le=3600)] = 120


class SmtpTransport(_Table, tag_field="kind", tag="smtp", frozen=True, kw_only=True):
    """A mail server."""

    host: Line
    port: Port = 587
    security: Annotated[str, Meta(pattern=r"^(starttls|tls|none)\Z")] = "starttls"
    ca_file: Annotated[Line | None, "PEM file of the authority to trust"] = None
    login_file: Annotated[Line | None, "two lines, user and password; mode 0600"] = None
    limit_s: Annotated[float, Meta(gt=0, le=3600)] = 60


class MaildirTransport(_Table, tag_field="kind", tag="maildir", frozen=True, kw_only=True):
    """A local Maildir, e.g. one that public-inbox-watch reads."""

    path: Line


Transport = Files | CommandTransport | SmtpTransport | MaildirTransport


class MailSite(_Table, frozen=True, kw_only=True):
    """The content of ``mail.toml``."""

    site: Site
    allow: Annotated[tuple[Line, ...], "addresses, or @DOMAIN, that may be written to"] = ()
    silenced: Annotated[tuple[Line, ...], "addresses that must not be written to"] = ()
    public: Annotated[
        tuple[Line, ...], "names of machines that are common words, and may be in mails"
    ] = ()
    quota: Quota = Quota()
    archive: Archive | None = None
    transport: Transport = Files()
    replies: Annotated[Line | None, "Maildir or public-inbox with the replies"] = None
    store: Annotated[Line | None, "store of the history whose steps the mails are about"] = None
    patches: Annotated[Url | None, "public-inbox with the posted patches"] = None

    def allows(self, address: str) -> bool:
        """Return whether the site permits mails to an address.

        ``allow`` lists permitted addresses and domains; the site's own list needs no entry there.
        Addresses in ``silenced`` are never permitted, not even that list.
        """
        address = address.lower()
        domain = address[address.rfind("@") :]
        if address in map(str.lower, self.silenced):
            return False
        allowed = {entry.lower() for entry in self.allow}
        return address in allowed or domain in allowed or address == self.site.list.lower()


def has_site(outbox: Path) -> bool:
    """Return whether an outbox has settings: ``mail.toml``, or a link to the file of a lab."""
    return (outbox / CONFIGURATION).exists() or (outbox / LAB).is_symlink()


def read_site(outbox: Path) -> MailSite:
    """Read the settings of an outbox; relative paths in them become absolute.

    They are in ``mail.toml`` in its folder; or in the table ``[mail]`` of the file of a lab, to
    which ``lab.toml`` in the folder is a link.

    :raises InputError: the file is missing or invalid
    """
    path = outbox / CONFIGURATION
    if not path.exists() and (outbox / LAB).is_symlink():
        return _read_table((outbox / LAB).resolve())
    tree = read_toml(path, f"the file {CONFIGURATION} with [site] and allow; see docs/mail.md")
    return check_site(to_record(tree, MailSite, path, _EXAMPLES), str(path), outbox.absolute())


def with_store(site: MailSite, tables: Mapping[str, Any]) -> MailSite:
    """Return settings with the store of the lab, unless they name another one.

    :param tables: of the file of the lab
    """
    of_lab = tables.get("site")
    keys = of_lab if isinstance(of_lab, dict) else {}
    store = keys.get("store") or f"{keys.get('out') or 'nights'}/history"
    return site if site.store is not None else replace(site, store=str(store))


def check_site(site: MailSite, where: str, folder: Path) -> MailSite:
    """Check settings, and return them with absolute paths.

    :param where: file, for messages
    :param folder: directory to which paths are relative
    :raises InputError: they are invalid
    """
    _check(site, where)
    return _resolve(site, folder)


def _read_table(path: Path) -> MailSite:
    """Read the table ``[mail]`` of the file of a lab.

    :raises InputError: it is missing or invalid
    """
    tables = read_toml(path, "the file of a lab with [mail]; see docs/night.md")
    tree = tables.get("mail")
    if not isinstance(tree, dict):
        raise InputError(f"{path}: mail: expected a table [mail] (see docs/night.md); add it")
    site = to_record(tree, MailSite, path, _EXAMPLES)
    return check_site(with_store(site, tables), f"{path}: mail", path.parent)


def _resolve(site: MailSite, folder: Path) -> MailSite:
    """Return the settings with absolute paths; those in the file are relative to the folder."""

    def absolute(given: str | None) -> str | None:
        return None if given is None else str(folder / Path(given).expanduser())

    archive, transport = site.archive, site.transport
    if isinstance(transport, MaildirTransport):
        transport = replace(transport, path=absolute(transport.path))
    elif isinstance(transport, SmtpTransport):
        transport = replace(
            transport,
            ca_file=absolute(transport.ca_file),
            login_file=absolute(transport.login_file),
        )
    return replace(
        site,
        archive=archive and replace(archive, maildir=absolute(archive.maildir)),
        transport=transport,
        replies=absolute(site.replies),
        store=absolute(site.store),
    )


def _check(site: MailSite, where: str) -> None:
    """Check that no address or text could inject a header, and that no settings contradict.

    :raises InputError: the check fails
    """
    address_of(site.site.sender, f"{where}: site.from")
    for key, text in {"site.list": site.site.list, "archive.bcc": _bcc(site)}.items():
        if text is not None and address_of(text, f"{where}: {key}") != text.lower():
            raise InputError(f"{where}: {key}: expected an address without a name, not {text!r}")
        if text is not None and len(text) > LONGEST_RECIPIENT:
            raise InputError(
                f"{where}: {key}: {len(text)} characters (expected at most {LONGEST_RECIPIENT}, "
                "which fit on one line of a header); give a shorter address"
            )
    for text in (site.site.name, site.site.contact, site.site.base_url or ""):
        if clean(text) != text:
            raise InputError(
                f"{where}: site: {clean_line(text)!r} contains control characters; remove them"
            )
    for address in (*site.allow, *site.silenced):
        # A domain permits all its addresses.
        address_of(f"any{address}" if address.startswith("@") else address, f"{where}: allow")
    _check_archive(site, where)


def _bcc(site: MailSite) -> str | None:
    return site.archive.bcc if site.archive else None


def _check_archive(site: MailSite, where: str) -> None:
    archive = site.archive
    if archive is None:
        return
    if (archive.url is None) == (archive.maildir is None):
        raise InputError(f"{where}: archive: set either url or maildir")
    if archive.bcc is not None and isinstance(site.transport, CommandTransport):
        raise InputError(
            f"{where}: archive.bcc: a command takes the recipients from the header; use transport "
            "smtp, or let the site's list fill the Maildir"
        )
