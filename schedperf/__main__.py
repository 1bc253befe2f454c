# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m schedperf`` is the command ``schedperf``."""

import sys

from schedperf.cli import main

if __name__ == "__main__":
    sys.exit(main())
