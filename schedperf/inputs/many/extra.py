# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the extra that a missing package belongs to."""

import importlib.util

from schedperf.model.errors import InputError

EXTRA = "scale"


def require(package: str, needed_by: str) -> None:
    """Check that a package of the extra is installed.

    :param needed_by: what needs it, e.g. an option
    :raises InputError: it is not
    """
    if importlib.util.find_spec(package) is None:
        raise InputError(
            f"{package}: not installed ({needed_by} needs it); run: pip install "
            f"'schedperf[{EXTRA}]'"
        )
