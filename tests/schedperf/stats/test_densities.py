# SPDX-License-Identifier: GPL-2.0-or-later
"""Densities and tails equal those of scipy.stats, which no comparison imports."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._densities import fisher_p, log_chi_squared, log_f, normal_tail

X = np.geomspace(1e-9, 1e6, 40)


@pytest.mark.parametrize("df", [1.0, 1.5, 2.0, 7.0, 400.0])
def test_densities_equal_scipy(df: float) -> None:
    np.testing.assert_allclose(
        log_chi_squared(X, df), stats.chi2.logpdf(X, df), rtol=1e-10, atol=1e-12
    )
    for other in (1.0, 3.0, 24.0):
        np.testing.assert_allclose(
            log_f(X, df, other), stats.f.logpdf(X, df, other), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("z", [0.0, 1.0, -1.96, 8.0, -30.0])
def test_the_tail_of_the_normal_distribution_equals_scipy(z: float) -> None:
    assert normal_tail(z) == pytest.approx(2.0 * stats.norm.sf(abs(z)), rel=1e-12)


@pytest.mark.parametrize("n", [(1, 1), (3, 3), (5, 9), (40, 17)])
def test_fishers_test_equals_scipy(n: tuple[int, int]) -> None:
    for base in range(n[0] + 1):
        for new in range(n[1] + 1):
            table = np.array([[base, n[0] - base], [new, n[1] - new]])
            expected = stats.fisher_exact(table).pvalue
            assert fisher_p((base, new), n) == pytest.approx(expected, rel=1e-9)


def test_a_comparison_does_not_import_scipy_stats() -> None:
    code = (
        "import sys, contextlib, io\n"
        "from schedperf.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['compare', *sys.argv[1:]])\n"
        "print(sorted({'scipy.stats', 'asyncio', 'http.client'} & sys.modules.keys()))\n"
    )
    files = [f"examples/deep-cgroup/{side}.tar.xz" for side in ("base", "new")]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True)
    assert done.stdout == "[]\n"
