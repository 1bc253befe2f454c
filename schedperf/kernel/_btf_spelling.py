"""Types of BTF as C writes them, from the inside out: ``int (*)(struct rq *, int)``."""

from typing import Protocol

from schedperf.kernel._btf_index import Kind
from schedperf.model.errors import InputError

# Parameters of one function that are spelled; the kernel's functions have up to a dozen.
MOST_PARAMETERS = 16
# Steps from a type to its innermost name: pointers, arrays and qualifiers.
MOST_STEPS = 32

# By plain numbers: the hash of an enumeration's member is slow.
_TAGGED: dict[int, str] = {
    int(Kind.STRUCT): "struct",
    int(Kind.UNION): "union",
    int(Kind.ENUM): "enum",
    int(Kind.ENUM64): "enum",
    int(Kind.FWD): "struct",
}
_QUALIFIERS: dict[int, str] = {
    int(Kind.CONST): "const",
    int(Kind.VOLATILE): "volatile",
    int(Kind.RESTRICT): "restrict",
}
_TAGS = frozenset({int(Kind.TYPE_TAG), int(Kind.DECL_TAG)})
_SUFFIXED = frozenset({int(Kind.ARRAY), int(Kind.FUNC_PROTO)})


class _Types(Protocol):
    # What of a Btf is needed here.
    label: str

    def kind(self, type_id: int) -> int: ...
    def name(self, type_id: int) -> str: ...
    def reference(self, type_id: int) -> int: ...
    def array(self, type_id: int) -> tuple[int, int]: ...
    def parameters(self, type_id: int) -> list[int]: ...
    def endless(self, type_id: int) -> InputError: ...
    def is_union(self, type_id: int) -> bool: ...


def spell_type(types: _Types, type_id: int, *, with_parameters: bool = True) -> str:
    """Return a type as C writes it, without the name of what has it.

    :param with_parameters: False: a function's are ``...``, which bounds functions that take
        functions
    :raises InputError: the blob is damaged
    """
    inner, before = "", ""
    for _ in range(MOST_STEPS):
        kind = types.kind(type_id)
        if kind == Kind.ARRAY:
            type_id, count = types.array(type_id)
            inner += f"[{count}]"
        elif kind == Kind.FUNC_PROTO:
            inner += f"({_parameters(types, type_id) if with_parameters else '...'})"
            type_id = types.reference(type_id)
        elif kind == Kind.PTR:
            type_id = types.reference(type_id)
            inner = f"*{inner}"
            if types.kind(type_id) in _SUFFIXED:
                inner = f"({inner})"
        elif kind in _QUALIFIERS:
            type_id = types.reference(type_id)
            word = _QUALIFIERS[kind]
            # Of a pointer it stands behind the star, of anything else in front of the name.
            if types.kind(type_id) == Kind.PTR:
                inner = f" {word}{_joint(inner)}{inner}"
            else:
                before += f"{word} "
        elif kind in _TAGS:
            type_id = types.reference(type_id)
        else:
            return f"{before}{_base(types, type_id, kind)}{_joint(inner)}{inner}"
    raise types.endless(type_id)


def _joint(inner: str) -> str:
    return "" if inner[:1] in {"", "[", " "} else " "


def _parameters(types: _Types, type_id: int) -> str:
    parameters = types.parameters(type_id)
    if not parameters:
        return "void"
    spelled = [
        spell_type(types, one, with_parameters=False) if one else "..."
        for one in parameters[:MOST_PARAMETERS]
    ]
    return ", ".join([*spelled, "..."] if len(parameters) > MOST_PARAMETERS else spelled)


def _base(types: _Types, type_id: int, kind: int) -> str:
    if kind == Kind.VOID:
        return "void"
    tag = _TAGGED.get(kind)
    if tag is None:
        # A number, a typedef, or a kind that this reader does not know.
        return types.name(type_id) or "?"
    if kind == Kind.FWD and types.is_union(type_id):
        tag = "union"
    return f"{tag} {types.name(type_id) or '{...}'}"
