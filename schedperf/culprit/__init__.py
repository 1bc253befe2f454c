# SPDX-License-Identifier: GPL-2.0-or-later
"""The record about a first bad commit: which commit changed a result, and how that was shown."""
