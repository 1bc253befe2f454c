# SPDX-License-Identifier: GPL-2.0-or-later
"""Why the result changed: rules that read the evidence, and the order of their findings."""
