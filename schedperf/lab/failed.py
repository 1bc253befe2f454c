# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the base of exceptions of what may fail in a lab without an error of the user."""


class Failed(Exception):
    """Something failed, e.g. a build or a guest; others may succeed.

    :param reason: one line
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
