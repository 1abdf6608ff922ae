"""Templates of paths: typed pieces, no regular expressions, nothing that takes long or leads out of the queue."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from spooltop.backends.layouts.definition.filling import Filling
from spooltop.backends.layouts.definition.templates import InvalidTemplate, Template
from spooltop.backends.layouts.definition.units import time_of


@pytest.mark.parametrize(
    ("template", "path", "fields"),
    [
        ("queue/{seq:int}-{id}.msg", "queue/000000000004-retry-1.msg", {"seq": "000000000004", "id": "retry-1"}),
        ("queue/{seq:int}-{id}.msg", "queue/4-a.msg.msg", {"seq": "4", "id": "a.msg"}),
        ("queue/{seq:int}-{id}.msg", "queue/4-.msg", None),
        ("queue/{seq:int}-{id}.msg", "queue/x4-a.msg", None),
        ("queue/{seq:int}-{id}.msg", "other/queue/4-a.msg", None),
        ("queue/.{pid:int}.{n:int}", "queue/.4242.0", {"pid": "4242", "n": "0"}),
        ("processing/{owner}/{id}.msg", "processing/w/1/a.msg", None),
        ("processing/{owner}/{id}.msg", "processing/w.msg/a.msg", {"owner": "w.msg", "id": "a"}),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f", {"dir": "6b00e590", "id": "6b00e5b7c2149f"}),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f.lck", None),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f\n", None),
        (
            "in/{tick:int}_{id:uuid}.{source}.msg",
            "in/17_0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e.a.b.msg",
            {"tick": "17", "id": "0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e", "source": "a.b"},
        ),
        ("queue/{prio:hex}-{put:hexms}*", "queue/fffe-01a1fb81560dx.tmp", {"prio": "fffe", "put": "01a1fb81560d"}),
        ("deferred/*/{id:pfid}", "deferred/7/7F3AB12C4D", {"id": "7F3AB12C4D"}),
        ("{a}-{b}-{c}", "1-2-3-4", {"a": "1", "b": "2", "c": "3-4"}),
        ("{a}.txt*", "x.txt.txt", {"a": "x"}),
        ("{folder:in|out|in.2}/{id}", "in.2/a", {"folder": "in.2", "id": "a"}),
        ("{folder:in|out}/{id}", "inn/a", None),
    ],
)
def test_a_path_is_taken_apart(template: str, path: str, fields: dict[str, str] | None) -> None:
    assert Template.parse(template).match(path) == fields


def test_a_slash_at_the_end_asks_for_a_directory() -> None:
    template = Template.parse("{dir:hexsec}/{id:hex14}/")
    assert (template.directory, template.depth) == (True, 1)
    assert template.match("6b00e590/6b00e5b7c2149f") is not None


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("/etc/{id}", "it must lie below the directory: it begins with /"),
        ("../{id}", "it has an empty part, . or .."),
        ("a//{id}", "it has an empty part, . or .."),
        ("a/{id", "'{' opens or closes no piece: write {name} or {name:type}"),
        ("a/id}", "'}' opens or closes no piece: write {name} or {name:type}"),
        ("{id}-{id}", "{id} stands twice"),
        ("{id:regex}", "{id:regex}: unknown type 'regex'; there are int, hex, hexN, sec, ms, hexsec, hexms, uuid, pfid, A|B"),
        ("{Id}", "{Id}: a name is small letters, digits and _"),
        ("{a}{b}", "{a} stands beside another piece: put a character between them, or give it a type"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(template: str, why: str) -> None:
    with pytest.raises(InvalidTemplate) as raised:
        Template.parse(template)
    assert str(raised.value) == why


def test_no_template_takes_longer_than_a_name_is_long() -> None:
    """With a regular expression that goes back, each of these would take longer than any test lasts."""
    pieces = [f"{{p{i}}}a" for i in range(30)]
    template = Template.parse("".join(pieces) + "{last}b")
    assert template.match("a" * 255) is None
    assert Template.parse("*a" * 60 + "b").match("a" * 255) is None
    assert Template.parse("{x:int}{y:hex}{z:int}" * 1 + "q").match("1" * 255) is None


@pytest.mark.parametrize(
    ("unit", "text", "at"),
    [
        ("sec", "1795220919", 1795220919.0),
        ("ms", "1795220980725", 1795220980.725),
        ("us", "1795220980725001", 1795220980.725001),
        ("hexsec", "6b00e590", 1795220880.0),
        ("hexms", "01a1fb81560d", 1795220919.821),
        ("dirq", "6b00e5b7c2149f", 1795220919.794953),
        ("ms", "1795220980725\n", 1795220980.725),
        ("ms", "soon", None),
        ("sec", "nan", None),
        ("sec", "1e99", None),
        ("sec", "-1", None),
        ("hexms", "", None),
    ],
)
def test_a_time_is_read_in_its_unit(unit: str, text: str, at: float | None) -> None:
    assert time_of(unit, text) == at


def test_a_path_is_filled_in() -> None:
    fields = {"id": "wait-1", "seq": "5", "path": "processing/w/wait-1.msg", "name": "wait-1.msg"}
    path = Filling.path("queue/{seq:next:012}-{id}.msg", ("seq", "id"))
    assert path.path_of(fields, next_number=lambda piece: {"seq": 6}[piece]) == "queue/000000000006-wait-1.msg"
    assert Filling.path("queue/{name}").path_of(fields) == "queue/wait-1.msg"
    assert Filling.parse("queued:{now:ms}").fill(fields, now=1.5) == "queued:1500"


@pytest.mark.parametrize("piece", ["..", ".", "", "a/../..", "/etc", "a\0b"])
def test_no_name_leads_out_of_the_queue(piece: str) -> None:
    assert Filling.path("jobs/{id}/state", ("id",)).path_of({"id": piece}) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/etc/passwd", "it must lie below the directory: no / at the beginning, no . or .. in it"),
        ("a/../b", "it must lie below the directory: no / at the beginning, no . or .. in it"),
        ("{owner}.worker", "{owner}: no such piece; there are path, name, now, id"),
        ("{id:upper}", "{id:upper}: after the name only next or next:WIDTH may stand"),
        ("{now:days}", "{now:days}: the time is written as sec, ms, us"),
        ("{id", "'{' opens or closes no piece"),
    ],
)
def test_a_filling_that_cannot_be_used_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidTemplate) as raised:
        Filling.path(text, ("id",))
    assert str(raised.value) == why


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("America/New_York", 5), ("Asia/Kolkata", -5.5)])
def test_the_time_of_a_scheduled_task_of_huey(zone: str, hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes UTC of the time, and takes that for local time."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        naive = datetime.fromtimestamp(1795224519.821, UTC).replace(tzinfo=None)
        written = time.mktime(naive.timetuple()) + naive.microsecond / 1e6
        assert written == pytest.approx(1795224519.821 + hours * 3600)
        assert time_of("hexlocal", f"{int(written * 1000):012x}") == pytest.approx(1795224519.821, abs=0.002)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("template", "folder", "leads"),
    [
        ("in/{id}", "in", True), ("in/{id}", "out", False), ("in/{id}", "in/a", False), ("{id}", "in", False),
        ("{queue:in|out}/{hash}/{id:hex14}", "out", True), ("{queue:in|out}/{hash}/{id:hex14}", "out/0", True),
        ("{queue:in|out}/{hash}/{id:hex14}", "private", False), ("{dir:hexsec}/{id:hex14}/", "65a1b2c3", True),
        ("{dir:hexsec}/{id:hex14}/", "65a1b2c3/65a1b2c3d4e5f0", False),
    ],
)  # fmt: skip
def test_which_folders_lead_to_a_match(template: str, folder: str, leads: bool) -> None:
    assert Template.parse(template).leads_through(folder) is leads
