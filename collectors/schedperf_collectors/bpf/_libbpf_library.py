# SPDX-License-Identifier: GPL-2.0-or-later
"""Load ``libbpf.so.1``, declare the functions that are called, and reduce its log to one line.

libbpf prints warnings and, for a rejected program, the whole verifier log. The reason is the
verifier's last sentence; without one, the last warning that contains more than "failed".
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from schedperf_collectors.contract import Unavailable, cut

_LEVEL_WARN = 0
# One message; only the end of a verifier log matters.
_MESSAGE_BYTES = 1 << 20
# The longest advice of libbpf, for a kernel that rejects all programs, has 206 characters.
_LONGEST_REASON = 300

_PREFIX = re.compile(
    r"(?:libbpf: (?:prog|map) '[^']*': |libbpf: (?:elf: )?)(?:BPF program load failed: )?"
)
# Messages that only repeat the errno, or guess.
_EMPTY = re.compile(
    r"failed to load object|failed to load: -|failed to (?:auto-)?attach|permission error while"
)
_LOAD_LOG = re.compile(r"-- BEGIN PROG LOAD LOG --\n(.*)-- END PROG LOAD LOG --", re.DOTALL)
# The verifier's statistics, and its output for each instruction.
_NOT_A_SENTENCE = re.compile(
    r"processed \d+ insns|verification time|stack depth|\d+: |from \d+ to|;|R\d+[_=]|func#|"
    r"last_idx|regs=|max_states"
)
# The third argument is a va_list; x86-64, arm64, riscv64, ppc64 and s390x pass its address.
_Printer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Log:
    """Collects the library's warnings; a single object, because the library has one printer."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._is_listening = False
        self._format = ctypes.CDLL(None).vsnprintf
        self._format.argtypes = (
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
        )  # fmt: skip
        self._buffer = ctypes.create_string_buffer(_MESSAGE_BYTES)
        # Kept alive because the library may call it as long as it is loaded.
        self._printer = _Printer(self._print)

    def install(self, library: Any) -> None:
        """Make libbpf pass its messages to this object."""
        library.libbpf_set_print.argtypes = (_Printer,)
        library.libbpf_set_print(self._printer)

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """Collect the warnings that libbpf logs in the block; forget earlier ones."""
        self._messages.clear()
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False

    def explain(self, error: int) -> str:
        """Return why the last call failed: libbpf's message and the kernel's error.

        :param error: errno
        """
        answer = os.strerror(error).lower()
        said = self._last_words()
        text = said if answer in said.lower() else ": ".join(filter(None, (said, answer)))
        return cut(text, _LONGEST_REASON)

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
        if level == _LEVEL_WARN and self._is_listening:
            self._format(self._buffer, _MESSAGE_BYTES, template, arguments)
            self._messages.append(self._buffer.value.decode("utf-8", "replace"))
        return 0


LIBRARY = "libbpf.so.1"

_Arguments = Mapping[str, tuple[Any, ...]]
_POINTER_FUNCTIONS: _Arguments = {
    "bpf_object__open_mem": (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p),
    "bpf_object__next_program": (ctypes.c_void_p, ctypes.c_void_p),
    "bpf_object__find_map_by_name": (ctypes.c_void_p, ctypes.c_char_p),
    "bpf_program__attach": (ctypes.c_void_p,),
    "bpf_program__attach_kprobe": (ctypes.c_void_p, ctypes.c_bool, ctypes.c_char_p),
}
_INTEGER_FUNCTIONS: _Arguments = {
    "bpf_object__load": (ctypes.c_void_p,),
    "bpf_program__fd": (ctypes.c_void_p,),
    "bpf_program__set_autoload": (ctypes.c_void_p, ctypes.c_bool),
    "bpf_program__set_attach_target": (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p),
    "bpf_map__fd": (ctypes.c_void_p,),
    "bpf_map__reuse_fd": (ctypes.c_void_p, ctypes.c_int),
    "bpf_map__type": (ctypes.c_void_p,),
    "bpf_map__key_size": (ctypes.c_void_p,),
    "bpf_map__value_size": (ctypes.c_void_p,),
    "bpf_map__max_entries": (ctypes.c_void_p,),
    "bpf_map__set_max_entries": (ctypes.c_void_p, ctypes.c_uint32),
    "bpf_map__set_initial_value": (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
    "bpf_map_lookup_elem": (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p),
    "bpf_map_update_elem": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64),
    "bpf_map_get_next_key": (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p),
    "bpf_enable_stats": (ctypes.c_int,),
    "bpf_obj_get_info_by_fd": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "libbpf_num_possible_cpus": (),
}

log = _Log()


@functools.lru_cache(maxsize=1)
def load_library() -> Any:
    """Return libbpf as a :mod:`ctypes` library.

    On an error, its functions return null or a negative errno, as in libbpf 1.0.

    :raises Unavailable: it is not installed, or lacks a function
    """
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
        for name, arguments in _POINTER_FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, ctypes.c_void_p
        for name, arguments in _INTEGER_FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        for name in ("bpf_object__close", "bpf_link__destroy"):
            getattr(library, name).argtypes = (ctypes.c_void_p,)
        library.bpf_program__name.argtypes = (ctypes.c_void_p,)
        library.bpf_program__name.restype = ctypes.c_char_p
        log.install(library)
    except (OSError, AttributeError) as error:
        raise Unavailable(
            f"{LIBRARY} cannot be loaded ({error}); run `apt-get install libbpf1`"
        ) from error
    return library
