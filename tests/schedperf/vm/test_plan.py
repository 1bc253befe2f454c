"""The order of boots."""

import pytest

from schedperf.vm.plan import plan_boots


@pytest.mark.parametrize(("kernels", "boots"), [(2, 1), (2, 4), (3, 3), (5, 2)])
def test_each_round_boots_each_kernel_once(kernels: int, boots: int) -> None:
    plan = plan_boots(kernels, boots)
    for number in range(boots):
        in_round = [boot.kernel for boot in plan if boot.round == number]
        assert sorted(in_round) == list(range(kernels))
    assert [boot.round for boot in plan] == sorted(boot.round for boot in plan)


@pytest.mark.parametrize(("kernels", "boots"), [(2, 2), (2, 6), (4, 4)])
def test_with_an_even_number_of_rounds_a_linear_drift_hits_all_kernels_alike(
    kernels: int, boots: int
) -> None:
    plan = plan_boots(kernels, boots)
    places = [
        sum(place for place, boot in enumerate(plan) if boot.kernel == kernel)
        for kernel in range(kernels)
    ]
    assert len(set(places)) == 1
