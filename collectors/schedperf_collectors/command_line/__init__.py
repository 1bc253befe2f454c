# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse and run the command line of the recorder."""
