"""What is read from BTF: variables of a section, members of a struct."""

from dataclasses import dataclass
from typing import Literal

Linkage = Literal["static", "global", "extern"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfVariable:
    """One variable of a section.

    :param offset: bytes from the section's start
    :param size: bytes
    :param type: as C writes it; None where it was not asked for
    """

    offset: int
    size: int
    name: str
    linkage: Linkage
    type: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfSection:
    """One DATASEC.

    :param size: bytes
    :param variables: by offset
    """

    size: int
    variables: tuple[BtfVariable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfMember:
    """One member of a struct or union.

    :param name: "" of an anonymous struct or union
    :param bit_offset: from the start of its struct, as bytes lie in memory
    :param bit_size: of a bit field; None of any other member
    """

    name: str
    type_id: int
    bit_offset: int
    bit_size: int | None
