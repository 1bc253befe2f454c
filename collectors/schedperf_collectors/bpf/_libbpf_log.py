"""What libbpf says while it works, made one short line.

libbpf prints warnings, and of a program that the verifier refuses its whole log. The reason is
the last sentence of the verifier, else the last warning that says more than that it failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from typing import Any

LEVEL_WARN = 0
# One message; the log of a verifier is longer and its end is what matters.
MESSAGE_BYTES = 1 << 20
# libbpf's longest advice, of a kernel that refuses all, has 206.
LONGEST_REASON = 300

_PREFIX = re.compile(
    r"(?:libbpf: (?:prog|map) '[^']*': |libbpf: (?:elf: )?)(?:BPF program load failed: )?"
)
# They only repeat the errno that is given beside them, or guess.
_EMPTY = re.compile(
    r"failed to load object|failed to load: -|failed to (?:auto-)?attach|permission error while"
)
_LOAD_LOG = re.compile(r"-- BEGIN PROG LOAD LOG --\n(.*)-- END PROG LOAD LOG --", re.DOTALL)
# The verifier's own accounts, and what it prints of each instruction.
_NOT_A_SENTENCE = re.compile(
    r"processed \d+ insns|verification time|stack depth|\d+: |from \d+ to|;|R\d+[_=]|func#|"
    r"last_idx|regs=|max_states"
)
# The third argument is a va_list; x86-64, arm64, riscv64, ppc64 and s390x pass its address.
_Printer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Log:
    """The warnings of the library; one object for the process, as the library has one printer."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._is_listening = False
        self._format = ctypes.CDLL(None).vsnprintf
        self._format.argtypes = (
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
        )  # fmt: skip
        self._buffer = ctypes.create_string_buffer(MESSAGE_BYTES)
        # The library calls it as long as it is there.
        self._printer = _Printer(self._print)

    def install(self, library: Any) -> None:
        """Let the library print here."""
        library.libbpf_set_print.argtypes = (_Printer,)
        library.libbpf_set_print(self._printer)

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """Collect what is printed meanwhile; what was collected before is forgotten."""
        self._messages.clear()
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False

    def explain(self, error: int) -> str:
        """Return why the last thing failed: what libbpf said, and the kernel's answer.

        :param error: errno
        """
        answer = os.strerror(error).lower()
        said = self._last_words()
        text = said if answer in said.lower() else ": ".join(filter(None, (said, answer)))
        return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"

    def _last_words(self) -> str:
        text = "".join(self._messages)
        for log in reversed(_LOAD_LOG.findall(text)):
            for line in reversed(log.splitlines()):
                if line.strip() and not _NOT_A_SENTENCE.match(line.strip()):
                    return " ".join(line.split())
        lines = _LOAD_LOG.sub("", text).splitlines()
        warnings = [_PREFIX.sub("", line, count=1) for line in lines]
        said = [line for line in warnings if line.strip() and not _EMPTY.search(line)]
        return " ".join(said[-1].split()) if said else ""

    def _print(self, level: int, template: int, arguments: int) -> int:
        if level == LEVEL_WARN and self._is_listening:
            self._format(self._buffer, MESSAGE_BYTES, template, arguments)
            self._messages.append(self._buffer.value.decode("utf-8", "replace"))
        return 0
