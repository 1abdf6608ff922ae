"""Lines of the Spools view without Textual: what is cut, what makes room, how it is sorted."""

from __future__ import annotations

import pytest

from spooltop.monitor.glance import Glance
from spooltop.tui.draw.elements.spans import line_text, line_width
from spooltop.tui.draw.spools import SORTS, chosen_line, column_at, frame, in_order, matching, spool_line, title_line
from tests.snapshots.several import glances
from tests.snapshots.values import NOW


@pytest.mark.parametrize(
    ("targets", "place", "names"),
    [
        (["/var/spool/a", "/var/spool/b"], "/var/spool/", ["a", "b"]),
        (["/srv/a/spool", "/srv/b/spool"], "/srv/*/spool", ["a", "b"]),
        (["/srv/a", "/var/b"], "", ["/srv/a", "/var/b"]),
        (["/srv/q", "/srv/q/in"], "/srv/", ["q", "q/in"]),
        (["redis://h/0#a", "/srv/q"], "", ["redis://h/0#a", "/srv/q"]),
        (["/srv/a"], "", ["/srv/a"]),
    ],
)
def test_names_are_what_differs(targets: list[str], place: str, names: list[str]) -> None:
    layout = frame(targets, 120)
    assert (layout.place, [layout.distinct[target] for target in targets]) == (place, names)


@pytest.mark.parametrize(
    ("names", "cut"),
    [
        (["customer-orders-europe-1", "customer-orders-europe-2"], ["…", "…"]),
        (["europe-customer-orders-x-y", "asia-customer-orders-x-y"], ["europe", "asia"]),
    ],
)
def test_too_long_names_are_cut_where_they_are_the_same(names: list[str], cut: list[str]) -> None:
    layout = frame([f"/var/spool/{name}" for name in names], 60)
    shown = list(layout.names.values())
    assert len(set(shown)) == 2 and all(name.startswith(start) for name, start in zip(shown, cut, strict=True))


@pytest.mark.parametrize("width", [40, 56, 60, 70, 80, 100, 120, 160, 200])
def test_every_line_fits_and_its_columns_stand_below_their_titles(width: int) -> None:
    several = glances()
    layout = frame([one.target for one in several], width)
    title = line_text(title_line(layout, width, sort="worst", descending=True))
    assert "new" in title and "problem" in title and len(title) <= width
    for one in several:
        line = spool_line(one, layout, width, now=NOW)
        assert line_width(line) <= width and line_width(spool_line(one, layout, width, now=NOW, chosen=True)) == width
        assert line_width(chosen_line(one, width)) <= width
    memex = line_text(spool_line(several[0], layout, width, now=NOW))
    edge = title.index("new") + 3
    assert memex[:edge].endswith("4,310") and memex[edge] == " "
    assert column_at(layout, edge - 1) == "new" and column_at(layout, 4) == "name" and column_at(layout, width - 1) == "worst"


def test_orders() -> None:
    several = glances()

    def names(sort: str, *, descending: bool = True) -> list[str]:
        return [one.target.rpartition("/")[2] for one in in_order(several, sort, descending=descending)]

    assert names("worst") == ["far", "memex", "svc", "batch", "import", "mailout", "fresh"]
    assert names("worst", descending=False) == names("worst")[::-1]
    assert names("name", descending=False) == sorted(names("name"))
    assert names("new")[:3] == ["fresh", "batch", "memex"] and names("new")[-1] == "svc"
    assert names("oldest")[:2] == ["batch", "memex"] and names("dead")[0] == "memex"
    for sort in SORTS:
        assert sorted(names(sort)) == sorted(names(sort, descending=False)) and len(names(sort)) == len(several)
    assert names("done", descending=False)[:1] == ["batch"] and names("done", descending=False)[-1] in ("svc", "fresh")


def test_filters() -> None:
    several = glances()
    layout = frame([one.target for one in several], 80)

    def names(words: str, *, troubled: bool = False) -> list[str]:
        return [one.target.rpartition("/")[2] for one in matching(several, words, layout.distinct, troubled=troubled)]

    assert names("dead") == ["memex"] and names("claims-dead") == ["memex"] and names("MeM mE") == ["memex"]
    assert names("spool") == [] and names("!claims !a") == ["svc", "fresh"]
    assert names("", troubled=True) == ["memex", "import", "batch", "far", "svc"]


def test_a_hostile_name_and_error_draw_nothing_of_their_own() -> None:
    one = Glance("/var/spool/\x1b[31mx\n", error="\x1b[2J oh")
    layout = frame([one.target, "/var/spool/b"], 80)
    assert line_text(spool_line(one, layout, 80, now=NOW)).isprintable() and line_text(chosen_line(one, 80)).isprintable()
