# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch series for lasting changes, with few false alarms whatever the distribution of the noise.

``detector`` bets on ranks, ``place`` finds where the level changed and how much, ``state`` adds a
night to a series, ``steps`` keeps the objects that people speak about, ``groups`` joins those that
are likely to have one cause. All are pure functions.
"""
