# SPDX-License-Identifier: GPL-2.0-or-later
"""Which options of the kernel's configuration differ between two sides.

The hash in host.json says only that some do; the file that stands with the layout says which.
"""

import re
from collections.abc import Sequence

from schedperf.bundle.open import Bundle
from schedperf.model.comparison import OptionDifference
from schedperf.model.errors import InputError
from schedperf.runs.side import Side

MEMBER = "boots/0/layout/config"
# A configuration with everything in it has 400 kB.
LIMIT_BYTES = 8 << 20

# "# CONFIG_X is not set" says the same as no line: both are no.
_OPTION = re.compile(r"^(CONFIG_\w+)=(.*)$", re.MULTILINE)


def option_differences(sides: Sequence[Side]) -> tuple[OptionDifference, ...]:
    """Return what differs between base and each new side, in the order of the names.

    A side whose bundle holds no configuration, or none that can be read, differs in nothing.
    """
    base = _options_of(sides[0].bundle)
    differences = []
    for side in sides[1:]:
        new = _options_of(side.bundle)
        if base and new:
            differences += [
                OptionDifference(side=side.name, name=name, base=base.get(name), new=new.get(name))
                for name in sorted({**base, **new})
                if base.get(name) != new.get(name)
            ]
    return tuple(differences)


def _options_of(bundle: Bundle) -> dict[str, str]:
    if MEMBER not in bundle.names(MEMBER):
        return {}
    try:
        text = bundle.read_text(MEMBER, LIMIT_BYTES)
    except InputError:
        # The section of the layout reads it too, and says what is wrong with it.
        return {}
    return dict(_OPTION.findall(text))
