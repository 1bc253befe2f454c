# SPDX-License-Identifier: GPL-2.0-or-later
"""Render reports: sections select the content, formats render it.

A section (in ``evidence/``, ``results/`` or ``verdict/``) turns the record into blocks, independent
of the format; a format (``formats/NAME.py``) renders blocks, independent of the section.
"""
