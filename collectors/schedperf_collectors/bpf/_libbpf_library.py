"""The functions of ``libbpf.so.1`` that are called, and its log."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

from schedperf_collectors.bpf._libbpf_log import Log
from schedperf_collectors.contract import Unavailable

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
    "bpf_obj_get_info_by_fd": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "libbpf_num_possible_cpus": (),
}

log = Log()


@functools.lru_cache(maxsize=1)
def load_library() -> Any:
    """Return the library; its functions return as libbpf 1.0 says: null or a negative errno.

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
        raise Unavailable(f"{LIBRARY} cannot be used ({error}); apt-get install libbpf1") from error
    return library
