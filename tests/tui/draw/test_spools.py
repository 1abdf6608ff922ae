"""Lines of the Spools view without Textual: what is cut, what makes room, how it is sorted."""

from __future__ import annotations

import pytest

from spooltop.monitor.glance import Glance
from spooltop.tui.draw.elements.spans import line_text
from spooltop.tui.draw.spools import chosen_line, frame, matching, spool_line
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


def test_a_long_path_leaves_half_of_the_line_to_what_is_wrong() -> None:
    line = line_text(chosen_line(Glance("/srv/" + "x" * 200, error="permission denied"), 80))
    assert "x" * 30 in line and line.rstrip().endswith("permission denied")
