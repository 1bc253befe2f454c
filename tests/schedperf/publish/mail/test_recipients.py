# SPDX-License-Identifier: GPL-2.0-or-later
"""Who gets a mail: only whom the site allows, trailers first, bounded; injection is refused."""

from email.headerregistry import Address

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.culprit.record import Commit, Trailer
from schedperf.publish.mail.recipients import (
    MOST_LISTS,
    MOST_PEOPLE,
    Maintainers,
    choose_recipients,
    own_list,
)
from tests.schedperf.publish.mail.records import AUTHOR, LIST, make_culprit, make_site

COMMIT = make_culprit().bad
SITE = make_site()


def addresses(found: tuple[Address, ...]) -> list[str]:
    return [address.addr_spec for address in found]


def test_author_trailers_and_own_list() -> None:
    chosen = choose_recipients(COMMIT, SITE, Maintainers())
    assert addresses(chosen.to) == ["ada@kernel.example"]
    assert addresses(chosen.cc) == ["max@kernel.example", "rita@kernel.example", LIST]
    assert chosen.left_out == ()
    assert chosen.is_public(SITE)


def test_nobody_is_allowed_at_first() -> None:
    site = make_site(allow=())
    chosen = choose_recipients(COMMIT, site, Maintainers())
    assert chosen == replace(own_list(site), left_out=chosen.left_out)
    assert "ada@kernel.example: not allowed by mail.toml" in chosen.left_out
    assert not chosen.is_public(site)


def test_people_and_lists_are_bounded() -> None:
    many = Maintainers(
        people=tuple(Address(addr_spec=f"p{number}@kernel.example") for number in range(30)),
        lists=tuple(Address(addr_spec=f"l{number}@kernel.example") for number in range(30)),
    )
    chosen = choose_recipients(COMMIT, SITE, many)
    everyone = addresses((*chosen.to, *chosen.cc))
    lists = [each for each in everyone if each.startswith("l") or each == LIST]
    assert len(lists) == MOST_LISTS
    assert len(everyone) == MOST_PEOPLE + MOST_LISTS
    # Trailers come first, and the site's own list is never cut.
    assert everyone[:3] == ["ada@kernel.example", "max@kernel.example", "rita@kernel.example"]
    assert LIST in everyone
    assert any("more than 10 people" in line for line in chosen.left_out)


@pytest.mark.parametrize(
    "value",
    [
        "Eve <eve@kernel.example>\r\nBcc: all@kernel.example",
        "Eve <eve@kernel.example>\nX: y",
        "Eve <eve@evil.example@kernel.example>",
        '"Eve <eve@evil.example>" <eve@kernel.example>',
        "Eve <eve@kernel.example>, <more@kernel.example>",
        "Eve \u202e<eve@kernel.example>",
        "Eve\0 <eve@kernel.example>",
    ],
)
def test_injection_is_refused(value: str) -> None:
    commit = replace(COMMIT, trailers=(Trailer(name="Signed-off-by", value=value),))
    with pytest.raises(InputError) as refused:
        choose_recipients(commit, SITE, Maintainers())
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "value",
    [
        "no address",
        "root <root@(none)>",
        "Eve <eve@kernel.example",
        "Eve <eve@k\xf6rnel.example>",
        "x" * 10_000 + " <eve@kernel.example>",
    ],
)
def test_a_person_without_a_mail_address_is_left_out(value: str) -> None:
    trailers = (*COMMIT.trailers[:2], Trailer(name="Signed-off-by", value=value))
    chosen = choose_recipients(replace(COMMIT, trailers=trailers), SITE, Maintainers())
    assert addresses(chosen.cc) == ["max@kernel.example", "rita@kernel.example", LIST]
    assert chosen.left_out == ("trailer 3, Signed-off-by: no mail address",)
    chosen = choose_recipients(replace(COMMIT, author=value), SITE, Maintainers())
    assert "author: no mail address" in chosen.left_out


@pytest.mark.parametrize("field", ["author", "committer"])
def test_injection_by_author_or_committer_is_refused(field: str) -> None:
    with pytest.raises(InputError):
        choose_recipients(replace(COMMIT, **{field: "A <a@b>\nBcc: <c@d>"}), SITE, Maintainers())


def test_remarks_of_trailers_are_left_out() -> None:
    value = "Rita Reviewer <rita@kernel.example> # for v1"
    commit = Commit(
        commit="1" * 40,
        subject="x",
        author=AUTHOR,
        trailers=(
            Trailer(name="Reviewed-By", value=value),
            Trailer(name="Link", value="https://x"),
        ),
    )
    chosen = choose_recipients(commit, SITE, Maintainers())
    assert addresses(chosen.cc) == ["rita@kernel.example", LIST]


def test_long_addresses_are_left_out() -> None:
    commit = Commit(commit="1" * 40, subject="x", author=f"{'a' * 100}@kernel.example")
    chosen = choose_recipients(commit, SITE, Maintainers())
    assert addresses(chosen.to) == [LIST]
    assert "longer than 70 characters" in chosen.left_out[0]
