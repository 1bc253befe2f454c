# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.inputs.bundle.host: what host.json holds, with names of Arm cores."""

import json

import pytest

from schedperf.inputs.bundle.host import name_model, parse_host
from schedperf.model.errors import BundleError


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("implementer 0x41 part 0xd0c", "Neoverse-N1"),
        ("implementer 0x48 part 0xd01", "Kunpeng-920"),
        ("implementer 0xc0 part 0xac3", "Ampere-1"),
        ("implementer 0x41 part 0xfff", "implementer 0x41 part 0xfff"),
        ("implementer 0x41 part 0xd0c1234567", "implementer 0x41 part 0xd0c1234567"),
        ("AMD EPYC 7763", "AMD EPYC 7763"),
        ("", ""),
    ],
)
def test_names_of_models(model: str, name: str) -> None:
    assert name_model(model) == name


def test_the_model_of_a_host_json_is_named() -> None:
    cpu = {"model": "implementer 0x41 part 0xd0c", "count_online": 4}
    host = parse_host(json.dumps({"cpu": cpu}).encode(), "h")
    assert host == {"cpu": {"model": "Neoverse-N1", "count_online": 4}}


@pytest.mark.parametrize(
    ("group", "key", "value"), [("topology", "nodes", 7), ("cpu", "mitigations", "off")]
)
def test_a_host_json_of_another_shape_is_refused(group: str, key: str, value: object) -> None:
    content = json.dumps({group: {key: value}}).encode()
    with pytest.raises(BundleError, match=rf"^h: \$\.{group}\.{key} is .* \(expected object"):
        parse_host(content, "h")
    parse_host(json.dumps({group: {key: None}}).encode(), "h")
