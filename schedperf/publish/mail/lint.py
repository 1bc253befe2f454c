# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the form of a generated mail: the requirements of lists, and phrases to avoid."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.mail.headers import REPLY, SUBJECT_COLUMNS, parse
from schedperf.publish.mail.plain import COLUMNS

MOST_LINES = 100
MOST_BYTES = 12_000
# The first lines, which must contain the commits of the subject, and a CI.
FIRST_LINES = 20
_SHOWN = 40
# A marker in place of a quoted text, so that no phrase is matched across it.
_MASK = "\N{SYMBOL FOR SUBSTITUTE}"
# Minimum length of a quoted text: shorter ones contain no phrase, and are parts of our own words.
_SHORTEST = 4
_TOKEN = re.compile(r"\S+")
# Texts that a rule may match: intervals, percentages, commands of trackers, missing numbers.
_SUSPICIOUS = re.compile(r"\[[-+][^\]\s]*\]|\[|%|#\w*|nan|NaN|inf|Infinity|None|null")
_FIGURE = re.compile(r"(?!\[.*\])[\[(]?[-+]?\d+(?:\.\d+)?(?:e[+-]\d+)?%[\]),.:;]*")
_NO_NUMBER = re.compile(r"(?<![\w-])(?:nan|NaN|inf|Infinity|None|null)(?![\w-])")
_PERCENT = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?%")
_BLANK_PERCENT = re.compile(r"\d %(?!\w)")
# "[+16.1%, +27.9%]", the only form of an interval.
_INTERVAL = re.compile(r"\[(?:95% CI )?[-+](?:(?!\.\.\.)[^\]\[])*\]")
_SIGNED = r"[-+]\d+(?:\.\d+)?(?:e[+-]\d+)?%"
_GOOD_INTERVAL = re.compile(rf"\[(?:95% CI )?{_SIGNED},\s+{_SIGNED}\]")
_COMMIT = re.compile(r"\b[0-9a-f]{12}\b")
_REGZBOT = re.compile(r"#regzbot introduced: [0-9a-f]{12,40}")
# Lines of this form introduce a section.
_TITLE = re.compile(r"\S.*:\Z")


@cache
def refused_phrases() -> Mapping[str, str]:
    """Return the phrases that texts must not contain, as regular expressions, with replacements."""
    text = (files("schedperf.publish.mail") / "refused_phrases.toml").read_text(encoding="utf-8")
    return {phrase: str(instead) for phrase, instead in tomllib.loads(text).items()}


def lint(content: bytes, quoted: Iterable[str] = ()) -> list[str]:
    """Return one line per problem of a mail.

    :param quoted: texts of other people, such as commit subjects and names of benchmarks; only
        their encoding and their length are checked
    """
    try:
        mail = parse(content)
        text = content.decode("utf-8")
    except (InputError, UnicodeDecodeError) as error:
        return [clean_line(str(error))]
    header, _, body = text.partition("\n\n")
    subject = str(mail.get("Subject", ""))
    texts = [each for each in quoted if each.strip()]
    own = _mask(body, texts)
    return [
        *_encoding(mail.get_content_type(), header, body),
        *_columns(header, body),
        *_size(text, body, subject),
        *_numbers(own),
        *_percentages(own),
        *_subject(subject, body, _mask(subject, texts)),
        *_sections(own),
        *_words(own),
        *_regzbot(own),
    ]


def _mask(text: str, quoted: Iterable[str]) -> str:
    """Mask quoted texts, and those of their words that a rule would match.

    A mail may have wrapped or shortened the quoted texts.
    """
    texts = sorted(dict.fromkeys(quoted), key=len, reverse=True)
    for each in texts:
        words = each.split()
        # A quick test first: with 500 results, most of their texts are not in the mail.
        if len(each) >= _SHORTEST and all(word in text for word in words):
            text = re.sub(r"\s+".join(map(re.escape, words)), _MASK, text)
    known = "\n".join(texts)
    return _TOKEN.sub(lambda word: _MASK if _is_quoted(word[0], known) else word[0], text)


def _is_quoted(word: str, known: str) -> bool:
    """Return whether every part of a word that a rule might match is in the quoted texts.

    A word without such a part is not quoted. A percentage such as ``+3%`` is always the mail's own.

    :param known: the quoted texts, one per line
    """
    if _FIGURE.fullmatch(word):
        return False
    parts = _SUSPICIOUS.findall(word)
    return bool(parts) and all(part in known for part in parts)


def _encoding(kind: str, header: str, body: str) -> Iterator[str]:
    fields = " ".join(header.lower().split())
    if kind != "text/plain":
        yield f"content type {kind} (expected text/plain, one part)"
    if "base64" in fields or "quoted-printable" in fields:
        yield "body encoded as base64 or quoted-printable (expected 7bit or 8bit)"
    if not header.isascii():
        yield "header not in ASCII (expected encoded words)"
    is_declared = "charset=utf-8" in fields and "encoding: 8bit" in fields
    if not body.isascii() and not is_declared:
        yield "body not in ASCII (expected charset utf-8, 8bit, declared)"
    if "\r" in body or "\0" in body:
        yield "body has a carriage return or a NUL byte"


def _columns(header: str, body: str) -> Iterator[str]:
    # A folded header may contain a Message-ID that is longer.
    head = [line for line in header.splitlines() if " " in line.strip()]
    for line in (*head, *body.splitlines()):
        if len(line) > COLUMNS:
            shown = line[:_SHOWN]
            yield f"line of {len(line)} columns (expected at most {COLUMNS}): {shown}"


def _size(text: str, body: str, subject: str) -> Iterator[str]:
    if len(subject.removeprefix(REPLY)) > SUBJECT_COLUMNS:
        yield f"subject of {len(subject)} characters (expected at most {SUBJECT_COLUMNS})"
    lines = len(body.splitlines())
    if lines > MOST_LINES:
        yield f"{lines} lines (expected at most {MOST_LINES})"
    size = len(text.encode())
    if size > MOST_BYTES:
        yield f"{size} bytes (expected at most {MOST_BYTES})"


def _numbers(body: str) -> Iterator[str]:
    for found in sorted({match[0] for match in _NO_NUMBER.finditer(body)}):
        yield f"the mail says {found!r} (expected a number, or that it is not measured)"


def _percentages(body: str) -> Iterator[str]:
    if _BLANK_PERCENT.search(body):
        yield "blank before a percent sign (expected +21.8%)"
    for match in _INTERVAL.finditer(body):
        if "%" in match[0] and not _GOOD_INTERVAL.fullmatch(match[0]):
            yield f"interval {match[0][:_SHOWN]!r} (expected e.g. [+16.1%, +27.9%])"


def _subject(subject: str, body: str, own: str) -> Iterator[str]:
    """Yield a problem for each figure and commit of the subject that the body lacks.

    A percentage must be on a line that has a CI, and a commit in the first 20 lines. If the subject
    has a percentage, the first 20 lines must contain "95% CI". Subjects of replies are not checked.

    :param own: the subject without quoted texts
    """
    if subject.startswith(REPLY):
        return
    rows = [line for line in body.splitlines() if _GOOD_INTERVAL.search(line)]
    for figure in _PERCENT.findall(own):
        signed = re.compile(rf"(?<![\w.])[-+]{re.escape(figure)}")
        if not any(signed.search(line) for line in rows):
            yield f"figure {figure} of the subject is not in the table"
    first = " ".join(" ".join(body.splitlines()[:FIRST_LINES]).split())
    for commit in _COMMIT.findall(subject):
        if commit not in first:
            yield f"commit {commit} of the subject is not in the first {FIRST_LINES} lines"
    if _PERCENT.search(own) and "95% CI" not in first:
        yield f"no CI in the first {FIRST_LINES} lines"


def _sections(body: str) -> Iterator[str]:
    """Yield a problem for each section title that an empty line or nothing follows."""
    lines = body.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _TITLE.fullmatch(line) and not below.strip():
            yield f"empty section {line[:_SHOWN]!r}"


def _words(body: str) -> Iterator[str]:
    text = " ".join(body.split())
    for phrase, instead in refused_phrases().items():
        found = re.search(phrase, text)
        if found:
            yield f"the mail says {found[0][:_SHOWN]!r} (write: {instead})"


def _regzbot(body: str) -> Iterator[str]:
    for paragraph in body.split("\n\n"):
        if "#regzbot" in paragraph and not _REGZBOT.fullmatch(paragraph.strip()):
            yield "invalid regzbot line (expected a paragraph '#regzbot introduced: HASH')"
