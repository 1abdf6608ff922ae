"""Names of a list that are too long: what differs stays in sight, and nothing flickers while a list is scrolled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spooltop.tui.draw.elements.apart import common_ends, cut_apart
from spooltop.tui.draw.elements.spans import text_width
from tests.tui.driving import dashboard
from tests.tui.fake import FakeControl, waiting

NAMES = st.lists(st.text("ab-./7日", min_size=1, max_size=14), min_size=1, max_size=6)


@given(NAMES, st.integers(0, 16))
def test_no_name_is_wider_than_its_room(names: list[str], width: int) -> None:
    ends = common_ends(names)
    for name in names:
        assert text_width(cut_apart(name, width, ends)) <= width
        assert cut_apart(name, 60, ends) == name


@given(st.text("ab-./", max_size=9), st.lists(st.integers(1000, 9999), min_size=2, unique=True), st.text("ab-./", max_size=9))
def test_names_that_differ_in_the_middle_look_different(head: str, numbers: list[int], tail: str) -> None:
    names = [f"{head}/{number}.{tail}" for number in numbers]
    ends = common_ends(names)
    assert len({cut_apart(name, 6, ends) for name in names}) == len(names)


async def test_ids_of_others_are_told_apart_at_80_columns_and_stay_as_they_are_while_scrolling() -> None:
    fake = FakeControl([waiting(n, id=f"webserver-production-{n:06d}-of-all-the-mail.json") for n in range(200)])
    async with dashboard(fake) as driver:
        await driver.press("2")
        await driver.see("…000000-of-all")
        assert "…000001-of-all" in driver.text
        await driver.press("end")
        await driver.see("…000199-of-all")
        await driver.press("home")
        await driver.see("…000000-of-all")
