# SPDX-License-Identifier: GPL-2.0-or-later
"""Name Arm cores, which report numbers instead of a model name.

>>> name_model("implementer 0x41 part 0xd07")
'Cortex-A57'
"""

import re

from schedperf_collectors.contract import ARM_CORES

_MIDR = re.compile(r"implementer (0x[0-9a-f]{1,4}) part (0x[0-9a-f]{1,4})")


def name_model(model: str) -> str:
    """Return a CPU's model; an Arm core that has only numbers by its name, where that is known."""
    midr = _MIDR.fullmatch(model)
    key = (int(midr[1], 16), int(midr[2], 16)) if midr else (0, 0)
    return ARM_CORES.get(key, model)
