"""The Spools view: several targets, of which one is opened, left and opened again."""

from __future__ import annotations

import threading

import pytest

from spooltop.errors import Unreadable
from spooltop.model.snapshot import Problem, Severity

from .driving import Driver, dashboard, several
from .fake import FakeControl, FakeSpools, Glance, claim, waiting

DEAD = Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers", 2)
OLD = Problem("tmp-old", Severity.WARNING, "1 old file in tmp", 1)


def spools() -> FakeSpools:
    controls = {
        f"/var/spool/{name}": FakeControl(rows, target=f"/var/spool/{name}")
        for name, rows in (("quiet", []), ("bad", [claim(1), claim(2), *map(waiting, range(30))]), ("mail", [waiting(1)]))
    }
    controls["/var/spool/bad"].problems = (DEAD,)
    controls["/var/spool/mail"].problems = (OLD,)
    return FakeSpools(controls, [Glance("/var/spool/shut", error="permission denied (owner svc, mode 0700)")])


def names(driver: Driver) -> list[str]:
    """The names on the lines of the list."""
    return [line[1:].split()[1] for line in driver.lines[2:-2] if line[1:2] in tuple("✗!?✓")]


async def open_first(driver: Driver) -> None:
    await driver.press("enter")
    await driver.until(lambda: driver.at_main and driver.looked, "its first look")


async def back(driver: Driver, key: str) -> None:
    await driver.press(key)
    await driver.see("4 spools", "open")


@pytest.mark.parametrize("size", [(40, 10), (60, 18), (80, 23), (120, 30), (160, 50)])
async def test_the_worst_is_first_in_every_window_and_each_line_says_why(size: tuple[int, int]) -> None:
    async with several(spools(), size) as driver:
        assert all(len(line) <= size[0] for line in driver.lines)
        assert names(driver)[:4] == ["bad", "shut", "mail", "quiet"]
        if size[0] >= 80:
            assert "3 with problems" in driver.lines[0] and "/var/spool/" in driver.lines[0]
            assert "2 claims of dead" in driver.lines[2] and "permission denied" in driver.lines[3]


@pytest.mark.parametrize("key", ["escape", "q", "0"])
async def test_one_is_opened_and_left_to_the_same_row_filter_and_sort(key: str) -> None:
    watched = spools()
    async with several(watched) as driver:
        await driver.press("slash", *"a", "enter", "greater_than_sign", "I", "j")
        before = driver.lines[1:-2]
        await open_first(driver)
        assert watched.opened == ["/var/spool/bad"] and watched.calmed == [True]
        await driver.press(key)
        await driver.see("2 of 4 spools")
        assert driver.lines[1:-2] == before and "▌✗ bad" in driver.text
        assert watched.calmed == [True, False]


async def test_an_opened_one_keeps_its_view_filter_sort_and_row() -> None:
    async with several(spools()) as driver:
        await open_first(driver)
        await driver.walk(("2 slash e m a i l enter greater_than_sign", "match email", '"source"'), ("j j", "▌"))
        before = driver.lines[:10]
        await back(driver, "0")
        await open_first(driver)
        await driver.until(lambda: driver.lines[:10] == before, before)


async def test_esc_goes_back_step_by_step_and_0_leaves_from_everywhere() -> None:
    async with several(spools()) as driver:
        await open_first(driver)
        await driver.walk(("3", "Claims 2"), ("escape", "box       depth"))
        assert "q quit" not in driver.text
        await back(driver, "escape")
        await open_first(driver)
        await driver.walk(("question_mark 0", "4 spools", "open"))
        await open_first(driver)
        await driver.walk(("2", '"source"'), ("enter 0", "4 spools", "open"))


async def test_one_that_cannot_be_opened_says_why_and_stays_in_the_list() -> None:
    async with several(spools()) as driver:
        await driver.walk(("j enter", "/var/spool/shut: permission denied"))
        assert not driver.at_main


async def test_one_that_does_not_open_keeps_no_key_and_is_given_up() -> None:
    watched = spools()
    watched.gate.clear()
    async with several(watched) as driver:
        await driver.walk(("enter", "opening /var/spool/bad"), ("j escape j slash m a i l enter", "1 of 4"))
        watched.gate.set()
        await driver.press("escape")
        await driver.until(watched.controls["/var/spool/bad"].closed.is_set, "it to be closed")
        assert not driver.at_main and not driver.leaving


async def test_an_attempt_that_was_given_up_says_nothing_about_the_next() -> None:
    gates = [threading.Event(), threading.Event()]

    class Recovering(FakeSpools):
        def open(self, target: str) -> FakeControl:
            self.opened.append(target)
            earlier = len(self.opened) - 1
            gates[earlier].wait()
            if not earlier:
                raise Unreadable("no answer", path=target)
            return self.controls[target]

    watched = Recovering(spools().controls)
    async with several(watched) as driver:
        await driver.press("enter")
        await driver.until(lambda: watched.opened)
        await driver.press("escape", "enter")
        await driver.until(lambda: len(watched.opened) == 2)
        gates[0].set()
        await driver.see("opening /var/spool/bad")
        gates[1].set()
        await driver.until(lambda: driver.at_main, "the second attempt")


async def test_no_key_changes_anything_there() -> None:
    async with several(spools()) as driver:
        await driver.walk(
            ("r", "requeue: open a spool first"), ("d", "purge: open a spool first"), ("2", "New: open a spool")
        )  # fmt: skip


async def test_a_filter_matches_paths_and_problems() -> None:
    async with several(spools()) as driver:
        for words, found in [
            ("dead", ["bad"]), ("claims-dead", ["bad"]), ("MaIl", ["mail"]), ("spool", []), ("!claims !i", []),
        ]:  # fmt: skip
            keys = [{" ": "space", "!": "exclamation_mark", "-": "minus"}.get(key, key) for key in words]
            await driver.press("slash", *keys, "enter")
            assert names(driver) == found
            assert f"{len(found)} of 4 spools match {words}" in driver.lines[0]
            await driver.press("escape")
        await driver.press("exclamation_mark")
        assert names(driver) == ["bad", "shut", "mail"] and "problems only" in driver.lines[0]
        await driver.press("escape")
        assert len(names(driver)) == 4


async def test_it_is_sorted_by_key_menu_and_click() -> None:
    async with several(spools()) as driver:
        await driver.press("greater_than_sign")
        assert names(driver) == ["bad", "mail", "quiet", "shut"] and "spool↑" in driver.lines[1]
        await driver.press("s", "j", "enter")
        assert names(driver)[:2] == ["bad", "mail"] and "new↓" in driver.lines[1]
        await driver.press("I")
        assert names(driver)[0] == "quiet"
        await driver.click(*driver.place("spool "))
        await driver.see("spool↑")


@pytest.mark.parametrize("moved", [(), ("slash", "u", "escape", "s", "escape")], ids=["no key", "keys that move nothing"])
async def test_the_first_screen_shows_the_worst_until_the_cursor_is_moved(moved: tuple[str, ...]) -> None:
    many = [f"q{number}" for number in range(60)]
    watched = FakeSpools({f"/var/spool/{name}": FakeControl([], target=f"/var/spool/{name}") for name in many}, [])
    async with several(watched) as driver:
        assert names(driver)[:3] == ["q0", "q1", "q2"]
        await driver.press(*moved)
        for name in many[20:50]:  # as where they are judged one by one
            watched.controls[f"/var/spool/{name}"].problems = (DEAD,)
        watched.change()
        await driver.until(lambda: names(driver)[:2] == ["q20", "q21"])
        assert "q20" in driver.chosen
        await driver.press("j", "k")
        watched.controls["/var/spool/q59"].problems = (DEAD, OLD)
        watched.change()
        await driver.see("31 with problems")
        assert "q20" in driver.chosen


async def test_new_glances_keep_the_cursor_on_its_target_and_a_frozen_view_as_it_is() -> None:
    watched = spools()
    async with several(watched) as driver:
        await driver.walk(("j j j Z", "FROZEN"))
        watched.controls["/var/spool/quiet"].problems = (DEAD,)
        watched.change()
        await driver.press("R")
        assert watched.looked_again == 1 and names(driver)[-1] == "quiet"
        await driver.press("Z")
        assert names(driver)[:2] == ["bad", "quiet"] and "quiet" in driver.chosen


async def test_0_of_a_single_target_says_why_not() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.walk(("0", "there is one spool only"))


@pytest.mark.parametrize(
    ("targets", "place", "shown"),
    [
        (["/var/spool/a", "/var/spool/b"], " /var/spool/ ", ["a", "b"]),
        (["/srv/a/spool", "/srv/b/spool"], " /srv/*/spool ", ["a", "b"]),
        (["/srv/a", "/var/b"], "spooltop  ", ["/srv/a", "/var/b"]),
        (["/srv/q", "/srv/q/in"], " /srv/ ", ["q", "q/in"]),
        (["redis://h/0#a", "/srv/q"], "spooltop  ", ["/srv/q", "redis://h/0#a"]),
        (["/s/customer-orders-asia-1", "/s/customer-orders-asia-2"], " /s/ ", ["…tomer-orders-asia-1", "…tomer-orders-asia-2"]),
        (["/s/1-customer-orders-asia", "/s/2-customer-orders-asia"], " /s/ ", ["1-customer-orders-a…", "2-customer-orders-a…"]),
    ],
)  # fmt: skip
async def test_names_are_what_differs(targets: list[str], place: str, shown: list[str]) -> None:
    async with several(FakeSpools({target: FakeControl(target=target) for target in targets})) as driver:
        assert (place in driver.lines[0].replace("spooltop 2", "spooltop  2"), names(driver)) == (True, shown)


async def test_a_hostile_name_draws_nothing_of_its_own_and_a_long_one_leaves_room_for_what_is_wrong() -> None:
    long = "/srv/" + "x" * 200
    strange = [Glance("/srv/\x1b[31mx\n", error="\x1b[2J oh"), Glance(long, error="permission denied")]
    async with several(FakeSpools({}, strange)) as driver:
        assert all(map(str.isprintable, driver.lines)) and "\\x1b[2J oh" in driver.lines[-2]
        await driver.press("j")
        assert "x" * 30 in driver.lines[-2] and driver.lines[-2].endswith("permission denied")
