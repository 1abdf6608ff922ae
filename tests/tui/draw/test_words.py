"""The texts of the drawings: every figure has its window of time, every verdict its reason, nothing unmeasured is 0."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

import pytest

from spooltop.cli.render import changes_text, snapshot_text
from spooltop.model.capabilities import Capabilities
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.observation import Viewer, Watch
from spooltop.model.look.pause import Pause
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.operations.plan import Confirm, ItemResult, NotDone, Outcome, Refusal
from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.protocols import Sort
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import Action, Box
from spooltop.observe.observer import Observer
from spooltop.tui.availability import purge
from spooltop.tui.context import CommandContext, View
from spooltop.tui.draw.boxes import spark
from spooltop.tui.draw.columns import columns_for
from spooltop.tui.draw.cursors import cursor_glance, cursor_table
from spooltop.tui.draw.detail import detail
from spooltop.tui.draw.elements.spans import Line, Span, Style, line_text, line_width
from spooltop.tui.draw.every_screen.freshness import Freshness, Times, freshness_line
from spooltop.tui.draw.every_screen.header import header
from spooltop.tui.draw.help import HelpEntry, HelpSection, help_lines
from spooltop.tui.draw.lists import list_header, row_line, title_line
from spooltop.tui.draw.locks import lock_lines, lock_table
from spooltop.tui.draw.one_cursor import cursor_detail
from spooltop.tui.draw.operating.operations import operations_lines
from spooltop.tui.draw.operating.plan import plan_lines
from spooltop.tui.draw.operating.result import result_lines
from spooltop.tui.draw.overview import overview
from spooltop.tui.draw.problems import problem_hint
from spooltop.tui.threads.messages import MessagesTracked
from spooltop.tui.tracking.status import FOLLOWED_AT_MOST, followed_ids, since_then, waiting
from spooltop.tui.widgets.styles import COLOURED, UNCOLOURED

from ...observe.observations import T0, look
from ...snapshots import asked, states, values
from ...snapshots.values import NOW, ZONE

T = TypeVar("T")


def text(lines: Sequence[Line]) -> str:
    return "\n".join(line_text(line).rstrip() for line in lines)


def top(width: int = 80, freshness: Freshness = Freshness(), **changes: object) -> str:  # noqa: B008  frozen
    base = values.trouble()
    return text(header(replace(base, **changes), width, target="/var/spool/memex", now=NOW, freshness=freshness, zone=ZONE))


def test_the_header_says_which_how_fresh_and_who() -> None:
    assert top().splitlines() == [
        " spooltop /var/spool/memex      live · as of 02:41:09 +0100 · watched for 5m12s",
        " ext4 12GB free 41%, inodes free 88% · you are memex, read-write",
    ]


def test_a_look_that_does_not_come_back_takes_the_lamp() -> None:
    stale = top(100, Freshness(stale_for=41, stale_why="readdir of new does not answer"))
    assert "STALE 41s: readdir of new does not answer" in stale
    assert "live" not in stale
    assert "FROZEN" in top(freshness=Freshness(frozen_at=NOW))


def test_scanning_says_how_often_and_why() -> None:
    base = values.trouble()
    watch = Watch("scan", "nfs4 sends no events", 5.0, NOW - 60)
    assert "every 5s (nfs4 sends no events)" in top(100, observation=replace(base.observation, watch=watch))


def test_stale_figures_are_dimmed_and_the_trouble_is_not() -> None:
    lines = overview(values.trouble(), 80, 20, now=NOW, freshness=Freshness(stale_for=41))
    boxes = next(line for line in lines if line_text(line).startswith(" new "))
    assert {span.style for span in boxes} == {Style.DIM}
    assert Style.BAD in {span.style for span in lines[1]}


def test_the_overview_shows_four_troubles_and_counts_the_rest() -> None:
    lines = text(overview(values.trouble(), 80, 20, now=NOW)).splitlines()
    assert lines[0].startswith(" 6 PROBLEMS, worst first")
    assert lines[1].startswith("▌✗ 2 claims of dead consumers") and lines[1].endswith("r requeue 2")
    assert lines[5].startswith("   2 more, ! shows all: tmp abandoned 3")


def test_a_trouble_further_down_can_be_chosen() -> None:
    lines = text(overview(values.trouble(), 80, 20, now=NOW, chosen=5)).splitlines()
    assert [line[:2] for line in lines[1:5]] == [" ✗", " !", " !", "▌·"]
    assert "2 more, ! shows all: claims dead 2" in lines[5]


def test_figures_say_over_what() -> None:
    words = text(overview(values.trouble(), 80, 20, now=NOW))
    assert "+1.8/s over 5m, growing" in words
    assert " over 1m   in   11.9/s  done   10.1/s  retried      0" in words
    assert "of 606  worked p50 0.1s p99 0.6s" in words
    assert "2 alive 2 DEAD 0 unknown" in words


def test_what_is_not_measured_is_not_zero() -> None:
    words = text(overview(states.first_seconds(), 80, 20, now=NOW))
    assert "✓ no problems detected (watched for 12s).\n   Not judged yet: rates (need 60s)," in words
    assert "\n   Not visible: nothing." in words
    assert "growth not measured yet" in words
    assert "···················▁" in words
    assert "0.0/s" not in words


def test_a_mail_folder_is_not_judged() -> None:
    snapshot = states.mail()
    words = text(overview(snapshot, 80, 20, now=NOW))
    assert words.startswith(" This is a mail folder (cur has :2,S flags; dovecot-uidlist): its cur is read\n mail")
    assert words.replace("\n", "").count("spooltop --as spool") == 1
    assert "DEAD" not in words
    assert "\n If it is a job spool all the same: spooltop --as spool /home/ann/Maildir\n" in words
    for who in ("READ-ONLY", "read-only"):  # what opened it may call it so too
        observation = replace(snapshot.observation, who=Viewer("ann", 1004, who))
        for width, target in ((80, "x"), (80, "/var/spool/" + "long/" * 20), (40, "/var/spool/" + "long/" * 20)):
            assert text(header(replace(snapshot, observation=observation), width, target=target, now=NOW)).count("READ-ONLY") == 1


def test_nobody_holds_read_mail() -> None:
    titles = text([title_line(columns_for(Box.CUR, 80, mail=True), 80)])
    assert titles.split() == ["age", "in", "cur", "size", "message"]


def test_a_key_in_a_mail_folder_says_why_not_in_a_line() -> None:
    why = purge(CommandContext(View.CLAIMS, snapshot=states.mail(), rows=1))
    assert why is not None and why.startswith("purge: this is a mail folder") and len(why) < 110


def test_a_cursor_file_alone_has_no_boxes_and_no_flow() -> None:
    whole = values.trouble()
    words = text(overview(replace(whole, observation=replace(whole.observation, layout="cursors")), 80, 20, now=NOW))
    assert "depth" not in words and "requeued" not in words
    assert "REVERTED 5×" in words


def test_bars_show_their_own_highest_and_what_was_not_watched() -> None:
    assert spark((None, 0, 1, 50, 100), 7) == "···▁▂▄▇"
    assert spark((), 3) == "···"
    assert spark((0, 0), 2) == "▁▁"


@pytest.mark.parametrize(
    ("index", "hint"), [(0, ("r", "requeue 2")), (1, ("Enter", "")), (4, ("d", "purge 3")), (5, ("d", "remove"))]
)
def test_a_line_of_trouble_offers_what_does_most(index: int, hint: tuple[str, str]) -> None:
    assert problem_hint(values.problems()[index], Capabilities()) == hint


def test_where_nothing_may_be_changed_it_offers_to_look() -> None:
    assert problem_hint(values.problems()[0], Capabilities.nothing("read-only")) == ("Enter", "")


def test_of_claims_that_are_too_many_to_judge_it_takes_those_too_that_were_not():
    problem = next(one for one in values.problems() if one.code == "claims-dead")
    key, words = problem_hint(problem, Capabilities())
    assert problem_hint(replace(problem, at_least=True), Capabilities()) == (key, words.replace("requeue ", "requeue ≥"))


def test_reverted_cursors_are_loud_and_first_when_room_is_short() -> None:
    words = text(cursor_glance(values.trouble(), 80, 3, now=NOW)).splitlines()
    assert words[1].endswith("REVERTED 5×: 89636→89632")
    assert words[2].strip() == "4 more, 5 shows all"


def test_one_cursor_shows_its_writes_newest_first() -> None:
    snapshot = values.trouble()
    words = text(cursor_detail(snapshot.cursors[0], snapshot, 80, 20, now=NOW, zone=ZONE)).splitlines()
    first = next(i for i, line in enumerate(words) if line.startswith("▌"))
    assert "02:41:07  89636 → 89632 ↓" in words[first] and "email" in words[first]
    assert "89632 → 89636" in words[first + 1]


def test_claims_stand_as_verdict_then_evidence() -> None:
    columns = columns_for(Box.CUR, 80)
    assert [column.key for column in columns] == ["verdict", "held", "tries", "owner", "evidence", "message"]
    title = line_text(title_line(columns, 80, sort=Sort("held")))
    assert "held↓" in title
    row = line_text(row_line(values.claims()[2], columns, 80, now=NOW, marked=True))
    assert row.startswith(" * DEAD        41m       4  4313 worker.py      exited ")


def test_narrow_screens_lose_columns_from_the_right_but_never_the_name() -> None:
    assert [column.key for column in columns_for(Box.CUR, 40)] == ["verdict", "held", "message"]
    assert [column.key for column in columns_for(Box.TMP, 60)][-1] == "file"


def test_times_can_be_shown_instead_of_ages() -> None:
    columns = columns_for(Box.CUR, 80, times=Times.LOCAL)
    words = line_text(row_line(values.claims()[1], columns, 80, now=NOW, zone=ZONE, times=Times.LOCAL))
    assert "02:00:03" in words
    old = values.claim(held=86400 * 3)
    assert "11-18 02:41" in line_text(row_line(old, columns, 80, now=NOW, zone=ZONE, times=Times.LOCAL))


def test_an_age_that_is_a_bound_says_so_and_a_count_nobody_keeps_is_a_dash() -> None:
    row = replace(values.claim(2460, attempt=None), since_is_bound=True)
    words = line_text(row_line(row, columns_for(Box.CUR, 80), 80, now=NOW))
    assert "≤41m" in words
    assert words.split()[2] == "—"


def test_the_line_above_a_list_counts_sorts_and_marks() -> None:
    late = list_header(
        values.trouble(), "New", None, 80, now=NOW, sort=Sort("size"), filter="abc", total=12412, pending=True, zone=ZONE
    )
    assert line_text(late).startswith(" New … of 12,412 match abc · sorting by size ↓")
    now = list_header(
        values.trouble(), "New", 1234, 80, now=NOW, sort=Sort("age"), filter="abc", total=12412, complete=False, share=0.458
    )
    assert line_text(now).startswith(" New ≥1,234 … of 12,412 match abc · sorting by age ↓ 45%")
    some = list_header(values.trouble(), "New", 20_000, 80, now=NOW, sort=Sort("size"), complete=False, ordered_over=20_000)
    assert line_text(some).startswith(" New ≥20,000 · first 20,000 sorted by size ↓")
    words = line_text(list_header(values.trouble(), "Claims", 4, 80, now=NOW, sort=Sort("held"), marked=0, zone=ZONE))
    assert words == " Claims 4 · sorted by held ↓ · 0 marked        new 4,310 +1.8/s · live 02:41:09"
    for box, order, title in ((Box.TMP, "verdict", "state"), (Box.CUR, "verdict", "verdict"), (Box.CUR, "size", "size")):
        columns = columns_for(box, 80)
        head = list_header(values.trouble(), "Tmp", 4, 80, now=NOW, sort=Sort(order), columns=columns, zone=ZONE)
        assert f"sorted by {title} ↓" in line_text(head)  # as its column is called


def test_a_detail_tells_the_whole_story() -> None:
    payload = Payload(b'{\n  "rowid": 1\n}\n\x1b[31m', 1200, True, (("owner", "pid 4312 of this host has exited"),))
    words = text(detail(values.claims()[1], payload, 80, 20, now=NOW, zone=ZONE)).splitlines()
    assert words[0].startswith(" ─ 1795222801446548.P4290R00000cf8e525dd13.vm ─") and words[0].endswith("1.2kB imessage ─")
    assert words[1] == " enqueued 02:00:01, 41m ago · claimed 02:00:03, held 41m · attempts: 1"
    assert words[2] == " verdict  DEAD: exited"
    assert words[3] == " owner    pid 4312 of this host has exited"
    assert "   \"rowid\": 1" in words
    assert " \\x1b[31m" in words
    assert words[-1] == " … the first 22 of 1,200 bytes"


def test_what_a_reader_tells_is_not_told_twice() -> None:
    put = "2026-11-21 01:20:07 +0100 (last written; its name contains no time)"
    facts = (("enqueued", put), ("holder", "exited"), ("file", "root 0644"))
    words = text(detail(values.claims()[1], Payload(b"", 0, False, facts), 80, 20, now=NOW, zone=ZONE)).splitlines()
    assert words[1:] == [
        f" enqueued {put}",
        " age      41m since put · held 41m · attempts: 1",
        " verdict  DEAD: exited",
        " owner    4312 worker.py on vm, memex",
        " file     root 0644",
        " payload  empty",
    ]


def test_a_message_that_is_held_from_the_put_on_was_not_claimed() -> None:
    row = replace(values.claims()[1], enqueued_at=NOW - 300, in_box_since=NOW - 300)
    (line,) = [line for line in text(detail(row, None, 80, 20, now=NOW, zone=ZONE)).splitlines() if "enqueued" in line]
    assert "5m ago · held 5m" in line and "claimed" not in line


def test_a_detail_that_has_no_room_says_how_much_is_missing_and_scrolls() -> None:
    payload = Payload(b"\n".join(b"line %d" % i for i in range(50)), 500, False)
    assert text(detail(values.claims()[1], payload, 80, 10, now=NOW)).splitlines()[-1] == " … 45 more lines"
    assert text(detail(values.claims()[1], payload, 80, 10, now=NOW, scroll=999)).splitlines()[-1] == " line 49"
    assert "being read" in text(detail(values.claims()[1], None, 80, 10, now=NOW))


def test_a_plan_says_what_it_does_refuses_and_wants() -> None:
    words = text(plan_lines(asked.plan(), 80, 20, now=NOW, zone=ZONE))
    assert "Requeue 2 of 3 claims" in words
    assert "! 4 consumers died while processing it: h holds it instead" in words
    assert "Refused 1: 5200 worker.py: running, holds" in words
    assert "Once 5200 exits, it is DEAD; f takes it from a running owner" in words
    assert "c copy as command: spooltop requeue /var/spool/memex" in words
    assert "[Esc Cancel]   y requeue 2" in words


@pytest.mark.parametrize(("count", "wanted"), [(1, "f takes it all the same"), (2, "f takes 2 all the same")])
def test_a_plan_names_no_owner_of_what_was_delivered(count: int, wanted: str) -> None:
    row = replace(values.claims()[1], box=Box.DELIVERED, owner=None, verdict=None)
    refused = [Refusal(row, "what was delivered may be done, running or lost", True)] * count
    words = text(plan_lines(replace(asked.plan(items=0), refused=tuple(refused)), 80, 20, now=NOW, zone=ZONE))
    assert wanted in words and "owner" not in words


@pytest.mark.parametrize(
    ("confirm", "items", "wanted"),
    [
        (Confirm.LARGE, 12, "[Esc Cancel]   Y requeue 12"),
        (Confirm.NUMBER, 312, "[Esc Cancel]   type 312 to requeue 312: 31_"),
        (Confirm.NOTHING, 0, "[Esc Close]   nothing to do"),
    ],
)
@pytest.mark.parametrize("height", [8, 12, 23])
def test_how_a_plan_is_confirmed_is_always_in_sight(confirm: Confirm, items: int, wanted: str, height: int) -> None:
    lines = text(plan_lines(asked.plan(items=items, confirm=confirm), 80, height, now=NOW, typed="31")).splitlines()
    assert wanted in lines[-2]


@pytest.mark.parametrize("height", [8, 23])
def test_a_plan_says_how_fast_it_is_done_and_how_long_that_takes(height: int) -> None:
    slow = replace(asked.plan(items=312), options={"rate": 1000 / 60})
    assert "s rate limit 16.7/s: takes 19s or longer" in text(plan_lines(slow, 80, height, now=NOW))
    assert "rate limit 16.7/s: takes 19s or longer" in changes_text.plan(slow)
    assert "at most" not in text(plan_lines(asked.plan(items=312), 80, height, now=NOW))


def test_a_plan_for_one_speaks_of_one() -> None:
    words = text(plan_lines(asked.plan(items=1), 80, 20, now=NOW))
    assert "It moves back to new with the same id; claimed next." in words


def test_a_long_plan_counts_what_is_above_and_below() -> None:
    words = text(plan_lines(asked.plan(items=312), 80, 23, now=NOW, scroll=5))
    assert "more below, 5 above" in words


class Asked(Sequence[T]):
    """A sequence of items or results that counts those that were read."""

    def __init__(self, one: T, length: int) -> None:
        self.one, self.length, self.looked_at = one, length, 0
        self.warnings: dict[str, int] = {}
        self.not_done = NotDone()
        self.oldest_at = 1.0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self.length))]
        if not -self.length <= index < self.length:
            raise IndexError(index)
        self.looked_at += 1
        return self.one


def test_a_plan_of_a_million_is_drawn_by_those_that_are_seen() -> None:
    """It is drawn at each key and each look: otherwise the screen would freeze for seconds."""
    one = asked.plan(items=1)
    items = Asked(one.items[0], 1_000_000)
    whole = replace(one, items=items, notes=("They wait.",))
    assert "Requeue 1,000,000" in text(plan_lines(whole, 80, 23, now=NOW, scroll=500_000))
    printed = "\n".join(changes_text.plan(whole))
    assert "requeue 1,000,000" in printed and "oldest in its box for" in printed
    assert items.looked_at < 100


def test_a_result_of_a_million_is_drawn_by_those_that_are_seen() -> None:
    """Otherwise the last key before it, and each key at it, would wait for seconds."""
    items = Asked(ItemResult("id", "id", Outcome.DONE), 1_000_000)
    items.not_done.note(500_000, [Outcome.DONE, Outcome.SKIPPED], ["", "gone"])
    whole = replace(asked.result(), action=Action.REQUEUE, items=items)
    tracked = MessagesTracked(whole.finished_at + 1, {"id": TrackedMessage("id", Box.NEW, 1, 2)})
    ids = followed_ids(whole)
    words = text(result_lines(whole, 80, 20, since=since_then(whole, tracked, ids), waiting=waiting(whole, tracked, ids)))
    assert "done 999,999 · skipped 1" in words and "skipped 1: gone" in words
    assert items.looked_at <= FOLLOWED_AT_MOST + 20


def test_a_result_of_many_that_were_not_done_draws_those_that_are_seen() -> None:
    drawn: list[str] = []

    class Name(str):
        __slots__ = ()

        def isprintable(self) -> bool:
            drawn.append(str(self))
            return super().isprintable()

    items = [ItemResult(Name(f"id{n}"), f"id{n}", Outcome.SKIPPED, "gone") for n in range(5_000)]
    words = text(result_lines(replace(asked.result(), items=items), 80, 20, zone=ZONE, scroll=2_000))
    assert "id2005" in words and "done 0 · skipped 5,000" in words
    assert 0 < len(set(drawn)) <= 20


def test_a_result_names_each_that_was_not_done() -> None:
    words = text(result_lines(asked.result(), 80, 20, since=("1 waits in new",), zone=ZONE))
    assert "Requeued 1 · operation c41d0a7e92" in words
    assert "done 1 · skipped 1 · failed 1" in words
    failed, skipped = "failed 1: a file of that name is in new already", "skipped 1: acknowledged or moved meanwhile"
    assert words.index(failed) < words.index(skipped)
    assert "a3" in words and "a2" in words
    assert "since then  1 waits in new" in words
    assert "undo: spooltop undo /var/spool/memex c41d0a7e92" in words


def test_help_says_why_something_is_not_there_and_dims_it() -> None:
    sections = [HelpSection("Claims", (HelpEntry("r", "requeue", "cur belongs to memex 0750"), HelpEntry("q", "back")))]
    lines = help_lines(sections, 80, 10)
    refused = next(line for line in lines if "requeue" in line_text(line))
    assert "cur belongs to memex 0750" in line_text(refused)
    assert {span.style for span in refused} == {Style.DIM}
    assert "… 2 more lines" in text(help_lines(sections, 80, 2))


def test_operations_say_whether_they_can_be_undone() -> None:
    words = text(operations_lines(asked.operations(), 140, 10, now=NOW, zone=ZONE)).splitlines()
    assert words[0].rstrip() == " Operations 5 · newest first"
    whole = text(operations_lines(asked.operations(), 140, 10, now=NOW, zone=ZONE, older=True)).splitlines()
    assert whole[0].rstrip() == " Operations 5 · newest first · all: spooltop ops --all" and whole[1:] == words[1:]
    assert "2 of 3" in words[2] and "can be undone" in words[2]
    assert "no: all 5 were done since" in words[3]
    assert "undone by 70f3b5d8aa" in words[5]
    assert "17 of 40" in words[6] and "NOT FINISHED" in words[6]


def test_the_chosen_trouble_is_seen_without_colour_and_keeps_its_sign() -> None:
    chosen, other = overview(values.trouble(), 80, 20, now=NOW)[1:3]
    assert line_text(chosen).startswith("▌✗ 2 claims")
    assert {span.style for span in chosen[2:]} == {Style.SELECTED, Style.SELECTED_KEY}
    assert line_width(chosen) == 80
    assert Style.BAD in {span.style for span in chosen}
    assert Style.SELECTED not in {span.style for span in other}


def test_the_chosen_row_keeps_the_colour_of_its_verdict_and_the_weight_of_its_mark() -> None:
    columns = columns_for(Box.CUR, 80)
    dead = {
        word: span.style
        for marked in (False, True)
        for span in row_line(values.claims()[1], columns, 80, now=NOW, selected=True, marked=marked)
        for word in span.text.split()
    }
    assert dead["DEAD"] is Style.SELECTED_BAD and dead["*"] is Style.SELECTED_STRONG and dead["exited"] is Style.SELECTED
    abandoned = row_line(values.tmp_files()[0], columns_for(Box.TMP, 80), 80, now=NOW, selected=True)
    assert Span("abandoned", Style.SELECTED_WARN) in [Span(span.text.strip(), span.style) for span in abandoned]
    reverted = cursor_table(values.trouble(), 80, 20, now=NOW, chosen=0)[2]
    assert any("REVERTED" in span.text and span.style is Style.SELECTED_BAD for span in reverted)
    assert {line_width(line) for line in (abandoned, reverted)} == {80}


def test_a_chosen_row_shows_its_verdict_in_every_palette() -> None:
    for loud, chosen in ((Style.BAD, Style.SELECTED_BAD), (Style.WARN, Style.SELECTED_WARN), (Style.GOOD, Style.SELECTED_GOOD)):
        assert COLOURED[chosen].color == COLOURED[loud].color is not None
        assert COLOURED[chosen].bold == COLOURED[loud].bold
        for palette in (COLOURED, UNCOLOURED):
            assert palette[chosen].reverse and palette[chosen].bgcolor is None
        assert UNCOLOURED[chosen].color is None


def test_a_24th_row_tells_of_the_locks() -> None:
    lines = text(overview(values.trouble(), 80, 21, now=NOW)).splitlines()
    assert lines[-1] == " locks      STALE leader.lock · held import.lock, 1 wait · 1 free"


def test_the_locks_view_names_each_who_holds_and_each_who_waits() -> None:
    words = text(lock_table(values.trouble(), 80, 40, now=NOW, chosen=1))
    assert " STALE     /opt/memex/leader.lock soft" in words
    assert "pid 99 has exited; the file is the lock" in words
    assert "   held by 5304 import.py of memex, for ≥10s" in words
    assert "   waits   5307 import.py of memex, for ≥10s" in words


def test_the_locks_view_tells_the_share_of_tries_that_were_in_vain() -> None:
    whole = values.trouble()
    expected = {
        (604, 3): " the engine's own locks: 3 timed out (<1%) of 607 attempts over 5m",
        (9, 10): "10 timed out (—) of 19 attempts",
        (15, 5): "5 timed out (25%) of 20 attempts",
    }  # fmt: skip
    for (had, given_up), words in expected.items():
        observation = replace(whole.observation, locks_had=had, locks_given_up=given_up)
        assert words in text(lock_table(replace(whole, observation=observation), 80, 40, now=NOW))
    unused = replace(whole, observation=replace(whole.observation, locks_had=0, locks_given_up=0))
    assert "own locks" not in text(lock_table(unused, 80, 40, now=NOW))


def test_a_muted_source_says_until_when_in_its_row() -> None:
    whole = values.trouble()
    soon, later = (
        text(cursor_table(replace(whole, muted={"imessage": NOW + end}), 80, 10, now=NOW, zone=ZONE)).splitlines()[1]
        for end in (3600, 90_000)
    )
    assert soon.endswith("REVERTED · muted to 03:41")
    assert later.endswith("REVERTED · muted to 11-22")


def test_one_cursor_says_what_is_unsafe_about_its_writers() -> None:
    snapshot = values.trouble()
    words = text(cursor_detail(snapshot.cursors[0], snapshot, 80, 20, now=NOW, zone=ZONE))
    assert " unsafe    no lock seen held in 5 of 5 · common temp cursors.json.tmp seen\n" in words
    assert " suspect   email, which advanced in 3 of those 5 writes; 2 changed nothing else\n" in words
    assert " poll log  same start 6×   02:41:06 poll ok: 4 new (cursor 89632 -> 89636)\n" in words
    assert " writer    not seen; needs root and --who-writes (fanotify)\n" in words
    calm = text(cursor_detail(snapshot.cursors[2], snapshot, 80, 20, now=NOW, zone=ZONE))
    assert "unsafe" not in calm and "suspect " not in calm


@pytest.mark.parametrize(
    ("write", "lock", "writer"),
    [
        ({}, "not seen", "not seen"),
        ({"lock_there": True}, "not seen", "not seen"),
        ({"lock_there": False}, "nobody", "not seen"),
        ({"held_by": (LockHolder(77, "python3 /opt/poll.py"),)}, "77 poll.…", "not seen"),
        ({"writer": LockHolder(4290, "python3 /opt/memex/poll_email.py")}, "not seen", "4290 poll_email…"),
        ({"writer": LockHolder(4290)}, "not seen", "4290"),
        ({"writer": LockHolder(4290), "held_by": (LockHolder(4290),)}, "by writer", "4290"),
        ({"writer": LockHolder(4290), "held_by": (LockHolder(77, "poller"),)}, "77 poller", "4290"),
    ],
)
def test_a_row_says_who_held_the_lock_and_who_wrote_only_where_that_was_seen(
    write: dict[str, Any], lock: str, writer: str
) -> None:
    snapshot = values.trouble()
    cursor = replace(snapshot.cursors[2], history=tuple(replace(one, **write) for one in snapshot.cursors[2].history))
    lines = text(cursor_detail(cursor, snapshot, 80, 20, now=NOW, zone=ZONE)).splitlines()
    title = next(line for line in lines if "writer" in line)
    row = next(line for line in lines if "5117 → 5120" in line)
    assert (row[title.index("lock") : title.index("writer")].strip(), row[title.index("writer") :].strip()) == (lock, writer)


def test_a_lost_update_shows_what_its_write_made_of_the_other_source() -> None:
    snapshot = values.trouble()
    words = text(cursor_detail(snapshot.cursors[0], snapshot, 80, 20, now=NOW, zone=ZONE))
    assert "02:41:07  89636 → 89632 ↓  email 204510 → 204511" in words


def test_both_moments_of_a_claim_share_their_day_and_offset() -> None:
    facts = (("enqueued", "2026-11-21 02:00:01 +0100 · claimed 2026-11-21 02:00:03 +0100"),)
    words = text(detail(values.claims()[1], Payload(b"", 0, False, facts), 80, 20, now=NOW, zone=ZONE))
    assert " enqueued 2026-11-21 02:00:01 +0100 · claimed 02:00:03\n" in words
    other = (("enqueued", "2026-11-20 23:59:01 +0100 · claimed 2026-11-21 02:00:03 +0100"),)
    assert "claimed 2026-11-21 02:00:03 +0100" in text(
        detail(values.claims()[1], Payload(b"", 0, False, other), 80, 20, now=NOW, zone=ZONE)
    )


def test_how_long_a_claim_is_held_stands_beside_how_long_others_took() -> None:
    worked = values.trouble().rates.worked
    words = text(detail(values.claims()[1], Payload(b"", 0, False), 100, 20, now=NOW, zone=ZONE, worked=worked))
    assert "others 0.6s (p99 of 606)" in words


@pytest.mark.parametrize(
    ("short", "words"),
    [(False, "STALE 41s: readdir of new does not answer · as of 02:41:09 +0100"), (True, "STALE 41s · 02:41:09 +0100")],
)
def test_a_look_that_hangs_says_why_where_there_is_room(short: bool, words: str) -> None:
    freshness = Freshness(stale_for=41, stale_why="readdir of new does not answer")
    assert line_text(freshness_line(values.trouble(), freshness=freshness, zone=ZONE, short=short)) == words


LOCKS = (
    Lock("/s/calm.lock", "flock", (LockHolder(1, since=T0 - 59),), (LockHolder(2),), "blocked", "1 waits for it"),
    Lock("/s/import.lock", "flock", (LockHolder(3, "import.py", since=T0 - 61),), (LockHolder(4),), "blocked", "1 waits for it"),
    Lock("/s/just.lock", "soft", (LockHolder(5, since=T0 - 300, alive=False),), (), "stale", "pid 5 has exited"),
    Lock("/s/leader.lock", "soft", (LockHolder(6, since=T0 - 301, alive=False),), (), "stale", "pid 6 has exited"),
    Lock("/s/x.lck", "mkdir", (LockHolder(7, since=T0 - 999, alive=False),), (), "stale", "pid 7 has exited"),
    Lock("/s/job.lock.queue", "ticket", (LockHolder(8, since=T0 - 1, alive=False),), (LockHolder(9),), "stale",
         "pid 8 has exited"),
    Lock("/s/long.lock", "flock", (LockHolder(10, since=T0 - 999),), (), "held"),
    Lock("/s/free.lock", "none", verdict="free"),
)
PROBLEM_VERDICTS = {"/s/import.lock": "BLOCKED", "/s/leader.lock": "STALE", "/s/x.lck": "STALE", "/s/job.lock.queue": "STALE"}


@pytest.mark.parametrize("many", range(len(LOCKS) + 1))
def test_every_screen_judges_a_lock_by_the_rule_of_the_problems(many: int) -> None:
    """Never "no problems detected" above a lock that is BLOCKED or STALE. The Locks view counts the locks with problems."""
    for locks in itertools.combinations(LOCKS, many):
        snapshot = Observer().add(look(0, locks=locks))
        loud = {lock.path: PROBLEM_VERDICTS[lock.path] for lock in locks if lock.path in PROBLEM_VERDICTS}
        counts = {"lock-blocked": 0, "lock-stale": 0, "ticket-orphan": 0}
        for problem in snapshot.problems:
            counts[problem.code] += 1 if problem.code != "lock-stale" else problem.count
        assert sum(counts.values()) == len(loud)
        table = text(lock_table(snapshot, 80, 60, now=T0))
        for shown in (table, text(lock_lines(snapshot, 200, 20, now=T0)), "\n".join(snapshot_text.locks(snapshot))):
            words = [(line, word) for line in shown.splitlines() for word in ("BLOCKED", "STALE") if word in line]
            assert {path: word for line, word in words for path in loud if path in line} == loud
            assert len(re.findall("BLOCKED|STALE", shown)) == len(loud)
        assert (f"{len(loud)} with problems" in table) is bool(loud)
        assert ("no problems detected" in text(overview(snapshot, 80, 20, now=T0))) is not bool(loud)
        assert ("no problems detected" in "\n".join(snapshot_text.status(snapshot, "/s"))) is not bool(loud)


def paused(seconds: float, by: str | None = "root") -> dict[str, object]:
    return {"observation": replace(values.trouble().observation, paused=Pause(by, values.trouble().taken_at - seconds, "why"))}


def test_a_pause_is_beside_the_lamp_at_every_width() -> None:
    assert top(100, **paused(7300)).splitlines()[0] == (
        " spooltop /var/spool/memex  PAUSED by root for 2h · live · as of 02:41:09 +0100 · watched for 5m12s"
    )
    assert "PAUSED by root for 2h · live · as of 02:41:09" in top(80, **paused(7300))
    for width in range(40, 200):
        first = top(width, **paused(7300)).splitlines()[0]
        assert "PAUSED" in first and ("02:41:09" in first or width < 50) and len(first) < width
    assert "PAUSED by a\\x1bb for 4s" in top(120, **paused(4, "a\x1bb")) and "PAUSED for 4s" in top(120, **paused(4, None))
    assert "PAUSED" not in top(120)


def test_a_pause_never_takes_the_place_of_what_is_stale() -> None:
    stale = top(80, Freshness(stale_for=41, stale_why="readdir of new does not answer"), **paused(7300))
    assert "STALE 41s: readdir of new does not answer" in stale and "PAUSED" not in stale
    assert "PAUSED by root for 2h · FROZEN" in top(120, Freshness(frozen_at=NOW), **paused(7300))


def test_the_line_of_a_pause_offers_to_resume() -> None:
    line = Problem("paused", Severity.WARNING, "paused by root for 2h", view="new")
    assert problem_hint(line, Capabilities()) == ("P", "resume")
    assert problem_hint(line, Capabilities.nothing("read-only")) == ("Enter", "")


def test_a_message_whose_put_time_is_not_known_says_so() -> None:
    row = Row(("new", "4"), Box.NEW, "4", "4")
    words = "\n".join(line_text(line) for line in detail(row, None, 80, 10, now=NOW, zone=ZONE))
    assert "enqueued not known" in words and "ago" not in words
