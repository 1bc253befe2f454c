# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw reports: sections select the content, formats draw it.

A section (``sections/NAME.py``) turns the record into blocks and knows no
format; a format (``formats/NAME.py``) draws blocks and knows no section.
"""
