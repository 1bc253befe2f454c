"""What the golden files promise: a difference is shown, and CI never rewrites one."""

from collections.abc import Callable

import pytest

Golden = Callable[[str, str, str], None]


def test_a_difference_to_a_golden_file_is_shown_as_a_diff(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)--- expected.*\+another text"):
        golden("text", "regression", "another text")


def test_a_golden_file_is_not_rewritten_in_ci(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="must not be rewritten"):
        golden("text", "regression", "another text")


def test_a_golden_file_that_is_missing_fails(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    with pytest.raises(pytest.fail.Exception, match="SCHEDPERF_BLESS=1 writes it"):
        golden("text", "never-written", "text")
