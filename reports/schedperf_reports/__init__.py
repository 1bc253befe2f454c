# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports: sections say what to show, formats say how it looks.

A section (``sections/NAME.py``) turns the record into blocks and knows no
format; a format (``formats/NAME.py``) draws blocks and knows no section.
"""
