# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulated nights: log(new / reference), with two boots per kernel and five kinds of noise."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Noise = Literal["normal", "outliers", "bimodal", "night effect", "log-normal"]
Floats = NDArray[np.float64]

NOISES: tuple[Noise, ...] = ("normal", "outliers", "bimodal", "night effect", "log-normal")
BOOT_SDS = (0.012, 0.02)
CHANGES = (0.03, 0.05, 0.10)
BOOTS = 2
# Nights before a step, and the nights that are watched from it on.
CLEAN_NIGHTS = 60
STEP_NIGHTS = 40

# In this share of nights, the new kernel is slower by this factor, e.g. because a service runs.
_OUTLIERS, _SLOW = 0.03, 1.15
# This share of boots is slower by this factor.
_MODES, _SLOW_MODE = 0.30, 1.08
# Autocorrelation of the machine's own level, whose sd is that of boots.
_MEMORY = 0.6
# sd of the logarithm of the log-normal noise, before it is scaled.
_SKEW = 1.0


def simulate(
    noise: Noise, series: int, nights: int, sd: float, generator: np.random.Generator
) -> Floats:
    """Return levels without a change, shape (series, nights).

    :param sd: standard deviation of boots of one kernel
    """
    shape = (series, nights)
    new, reference = (_kernel(noise, shape, sd, generator) for _ in range(2))
    levels = new - reference
    if noise == "outliers":
        levels += np.where(generator.random(shape) < _OUTLIERS, math.log(_SLOW), 0.0)
    if noise == "night effect":
        # Both kernels have it, so that it cancels but for rounding.
        night = _autocorrelated(shape, sd, generator)
        levels = (new + night) - (reference + night)
    return levels


def add_step(levels: Floats, change: float) -> Floats:
    """Return levels that rise by a change from night ``CLEAN_NIGHTS`` on."""
    changed = levels.copy()
    changed[:, CLEAN_NIGHTS:] += math.log1p(change)
    return changed


def _kernel(
    noise: Noise, shape: tuple[int, int], sd: float, generator: np.random.Generator
) -> Floats:
    """Return the mean of the boots of one kernel in each night."""
    boots = generator.standard_normal((*shape, BOOTS))
    if noise == "log-normal":
        variance = math.expm1(_SKEW**2) * math.exp(_SKEW**2)
        boots = (np.exp(_SKEW * boots) - math.exp(_SKEW**2 / 2.0)) / math.sqrt(variance)
    boots *= sd
    if noise == "bimodal":
        boots += np.where(generator.random(boots.shape) < _MODES, math.log(_SLOW_MODE), 0.0)
    return np.asarray(boots.mean(axis=2))


def _autocorrelated(shape: tuple[int, int], sd: float, generator: np.random.Generator) -> Floats:
    innovations = sd * math.sqrt(1.0 - _MEMORY**2) * generator.standard_normal(shape)
    levels = np.empty(shape)
    levels[:, 0] = sd * generator.standard_normal(shape[0])
    for night in range(1, shape[1]):
        levels[:, night] = _MEMORY * levels[:, night - 1] + innovations[:, night]
    return levels
