# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record that every report is drawn from, and the words, units and errors it uses."""
