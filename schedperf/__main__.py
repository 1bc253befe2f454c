# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the command ``schedperf`` as ``python -m schedperf``."""

import sys

from schedperf.cli import main

if __name__ == "__main__":
    sys.exit(main())
