# SPDX-License-Identifier: GPL-2.0-or-later
"""The samples in the docstrings of the parsers print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import schedperf.inputs.benchmarks

MODULES = [module.name for module in pkgutil.iter_modules(schedperf.inputs.benchmarks.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_samples_of_a_module_are_true(name: str) -> None:
    module = importlib.import_module(f"schedperf.inputs.benchmarks.{name}")
    assert doctest.testmod(module).failed == 0
