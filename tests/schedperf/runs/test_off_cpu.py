# SPDX-License-Identifier: GPL-2.0-or-later
"""The user function of a pause is that of the program, not of the C library."""

import pytest

from schedperf.runs.off_cpu import UNKNOWN, UserFunction, is_cut, user_function
from schedperf.runs.stacks import Frame

LIBC, APP = "/lib/libc.so.6", "/opt/app"


def test_the_function_is_the_innermost_one_outside_of_the_c_library() -> None:
    stack = (Frame("read", LIBC), Frame("fill", APP), Frame("main", APP))
    assert user_function(stack) == UserFunction("fill", "app")


@pytest.mark.parametrize(
    "file", [LIBC, "/lib/ld-linux-x86-64.so.2", "/lib/libc-2.31.so", "/lib/ld-musl-x86_64.so.1"]
)
def test_a_stack_inside_of_the_c_library_has_its_function(file: str) -> None:
    stack = (Frame("poll", file),)
    assert user_function(stack) == UserFunction("poll", file.rpartition("/")[2])
    assert is_cut(stack)


def test_other_libraries_belong_to_the_program() -> None:
    stack = (Frame("clone", LIBC), Frame("work", "/usr/lib/libcrypto.so.3"))
    assert user_function(stack) == UserFunction("work", "libcrypto.so.3")
    assert not is_cut(stack)


def test_long_stacks_of_the_c_library_are_not_cut() -> None:
    assert not is_cut((Frame("a", LIBC), Frame("b", LIBC), Frame("c", LIBC)))


def test_a_function_without_a_symbol_is_unknown() -> None:
    assert user_function((Frame(None, APP),)) == UserFunction(UNKNOWN, "app")
    assert user_function((Frame(None, None),)) == UserFunction(UNKNOWN, "")
    assert user_function(()) is None
    assert user_function(None) is None
    assert not is_cut(None)
