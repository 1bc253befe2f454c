# SPDX-License-Identifier: GPL-2.0-or-later
"""Files are read by URL within limits, and no message has a password or a signature."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from schedperf.inputs.many.urls import is_url, list_names, local_copy, local_path, redact
from schedperf.model.errors import BundleError, InputError
from tests.web_files import serve

SECRET = "swordfish"  # noqa: S105 # of no one
LIMIT = 1 << 20


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    """Give the file system in memory, empty."""
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def error_of(url: str, limit: int = LIMIT) -> str:
    with pytest.raises(InputError) as error, local_copy(url, limit):
        pass
    text = str(error.value)
    assert SECRET not in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a/base.tar", "s3://bucket/a/base.tar"),
        (f"https://me:{SECRET}@host:8080/x", "https://host:8080/x"),
        (f"https://host/x?X-Amz-Signature={SECRET}#part", "https://host/x?..."),
        ("http://host/\x1b[31m", "http://host/[31m"),
        (f"http://[{SECRET}/x", "(invalid URL)"),
    ],
)
def test_urls_are_shown_without_their_secrets(url: str, shown: str) -> None:
    assert is_url(url)
    assert redact(url) == shown


@pytest.mark.parametrize(
    "name", ["base.tar", "mmtests:work/log", "C:/x", "postgresql://h/d", "s3:"]
)
def test_other_names_are_paths(name: str) -> None:
    assert not is_url(name)
    assert local_path(name) == Path(name)


def test_file_urls_are_paths() -> None:
    assert local_path("file:///srv/a%20b.tar") == Path("/srv/a b.tar")
    assert local_path("s3://bucket/base.tar") is None


def test_a_file_is_copied_for_the_block(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/nights/base.tar", b"content")
    with local_copy("memory://nights/base.tar", LIMIT) as path:
        assert path.name == "base.tar"
        assert path.read_bytes() == b"content"
    assert not path.exists()
    assert list_names("memory://nights/") == ["base.tar"]


def test_errors_in_the_block_name_the_url(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/base.tar", b"content")
    with pytest.raises(BundleError) as error, local_copy("memory://base.tar", LIMIT) as path:
        raise BundleError(f"{path}: damaged", f"see {path}")
    assert str(error.value) == "memory://base.tar: damaged; see memory://base.tar"


def test_a_file_is_read_up_to_the_limit(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/large", bytes(LIMIT + 1))
    assert (
        error_of("memory://large") == f"memory://large: larger than {LIMIT} bytes; check the file"
    )
    with local_copy("memory://large", LIMIT + 1) as path:
        assert path.stat().st_size == LIMIT + 1


def test_a_web_server_is_read() -> None:
    with serve({"/a/base.tar": b"content"}) as address:
        with local_copy(f"http://{address}/a/base.tar?key={SECRET}", LIMIT) as path:
            assert path.read_bytes() == b"content"
        missing = error_of(f"http://me:{SECRET}@{address}/none?key={SECRET}")
        assert missing.startswith(f"http://{address}/none?...: cannot be used: HTTP status 404;")
        assert "HTTP status 403" in error_of(f"http://{address}/secret?key={SECRET}")
    assert "connection refused" in error_of(f"http://{address}/a/base.tar?key={SECRET}")


def test_a_cut_answer_is_an_error() -> None:
    with serve({"/base.tar": b"content"}, cut=3) as address:
        assert "ClientPayloadError" in error_of(f"http://{address}/base.tar?key={SECRET}")


def test_s3_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "here",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with serve({"/bucket/night/base.tar": b"content", "/bucket/other": b""}) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        assert list_names("s3://bucket/night/") == ["base.tar"]
        with local_copy("s3://bucket/night/base.tar", LIMIT) as path:
            assert path.read_bytes() == b"content"
        assert "no such file" in error_of("s3://bucket/none.tar")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"http://[{SECRET}/x", "invalid URL"),
        ("http://host/a::memory://b", "expected one protocol"),
        ("memory://none", "no such file"),
    ],
)
def test_what_cannot_be_opened_is_one_line(url: str, problem: str) -> None:
    assert problem in error_of(url)


def test_without_the_extra_one_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert error_of("s3://bucket/base.tar") == (
        "s3fs: not installed (s3://bucket/base.tar needs it); run: pip install 'schedperf[scale]'"
    )
