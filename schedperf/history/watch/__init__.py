# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch series for lasting changes, with few false alarms whatever the distribution of the noise.

``nights`` adds nights to a series: ``detector`` bets on ranks, ``place`` finds where the level
changed and how much, ``levels`` decides what is reported, and ``state`` is what is kept. ``steps``
are the objects that people speak about, ``groups`` joins those that are likely to have one cause.
All are pure functions.
"""
