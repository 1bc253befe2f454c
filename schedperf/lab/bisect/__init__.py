# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the commits of a range that changed a result, from boots that vary."""
