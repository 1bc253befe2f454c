"""The value of a record's field that a document leaves out, key and all."""

from enum import Enum
from typing import Final


class Unset(Enum):
    """The type of ``UNSET``: a field ``node: int | Unset`` is no key where it is unset."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
