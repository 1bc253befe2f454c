# SPDX-License-Identifier: GPL-2.0-or-later
"""Record a first bad commit: which commit changed a result, and the evidence for it."""
