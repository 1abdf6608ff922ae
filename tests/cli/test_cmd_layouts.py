"""``layouts`` and ``layouts try``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from spooltop.backends.layouts.definition import load
from spooltop.backends.layouts.definition.layout import BOXES
from spooltop.backends.layouts.definition.templates import TYPES
from spooltop.backends.layouts.definition.units import UNITS
from spooltop.layouts import known_layouts
from spooltop.model.vocabulary import Action, Box
from tests.backends.layouts.queues import ACTIONS, QUEUES

from .streams import spooltop

MINE = """\
name = "mine"
detect = ["queue/"]
[[match]]
box = "new"
path = "queue/{put:sec}-{id}.job"
"""


def test_the_layouts_are_listed() -> None:
    done = spooltop("layouts", environ={"LANG": "C.UTF-8"})
    assert (done.code, done.err) == (0, "")
    lines = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert lines["job-queue FileStorage"].split() == ["tmp", "new", "cur", "rejected", "comes", "with", "spooltop"]
    described = [json.loads(line) for line in spooltop("layouts", "--json", environ={}).out.splitlines()]
    assert {one["name"] for one in described} == {line[:22].strip() for line in done.out.splitlines()}
    assert all(one["ships"] and one["error"] is None and one["schema"] == 1 for one in described)


def test_the_form_is_a_layout_with_every_key_there_is() -> None:
    done = spooltop("layouts", "form", environ={})
    assert (done.code, done.err) == (0, "")
    layout = load.parse_layout("form.toml", done.out)
    assert {match.box for match in layout.matches} | layout.blind.keys() == set(BOXES)
    assert {name for match in layout.matches for name in match.facts} == set(load.FACTS)
    words = set(re.findall(r"[A-Za-z_-]+", done.out))
    kinds = {kind for kind in TYPES if kind and "|" not in kind}
    assert words >= {*load.VERBS, *load.COMMANDS, *load.CODES, *UNITS, *(kind.removesuffix("N") for kind in kinds)}
    keys = re.findall(r'\.(?:take|need|texts|some|table|tables)\("([a-z_]+)"', Path(load.__file__).read_text())
    assert len(keys) > 30 and words >= set(keys)


def test_a_known_layout_is_shown() -> None:
    done = spooltop("layouts", "show", "dirq-simple", environ={})
    assert done.code == 0 and 'name = "dirq simple"' in done.out.splitlines()


def test_try_shows_where_each_file_falls(real_spools: Path) -> None:
    done = spooltop("layouts", "try", "job-queue", str(real_spools / "jobqueue_filestorage"), environ={})
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert any(line.startswith("cur       processing/worker-1/slow-1.msg  [processing/{owner}/{id}.msg]") for line in lines)
    assert "—         workers/worker-1.worker  [nothing matches it]" in lines
    assert lines[-1] == "rejected 1 · cur 1 · tmp 1 · new 2 · in no box 12"


def test_try_takes_a_file_and_gives_objects(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    queue = tmp_path / "q" / "queue"
    queue.mkdir(parents=True)
    (queue / "1795220919-a\x1b.job").write_text("x")
    (queue / "other").write_text("x")
    done = spooltop("layouts", "try", str(file), str(tmp_path / "q"), "--json", environ={})
    assert (done.code, done.err) == (0, "")
    first, second = map(json.loads, done.out.splitlines())
    assert first == {
        "schema": 1, "path": "queue/1795220919-a\\x1b.job", "box": "new", "id": "a\\x1b", "rule": "queue/{put:sec}-{id}.job",
        "enqueued_at": 1795220919.0,
    }  # fmt: skip
    assert (second["box"], second["id"], second["rule"]) == (None, None, "nothing matches it")
    (queue / "1795220919-a\x1b.job").unlink()
    assert spooltop("layouts", "try", str(file), str(tmp_path / "q"), environ={}).code == 4


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("layouts", "list"), 2, "layouts: unknown word 'list'; spooltop layouts, or with one of form, show NAME, try FILE PATH"),
        (("layouts", "form", "x"), 2, "layouts form needs nothing more; spooltop layouts form"),
        (("layouts", "show"), 2, "layouts show needs a layout; spooltop layouts show NAME"),
        (("layouts", "show", "nothere"), 2, "nothere: cannot be read: No such file or directory; name a layout file, or"),
        (("layouts", "try", "x"), 2, "layouts try needs a layout and a directory; spooltop layouts try FILE PATH"),
        (("layouts", "try", "nothere", "."), 2, "nothere: cannot be read: No such file or directory; name a layout file, or"),
        (("layouts", "try", "huey", "/nothere"), 5, "/nothere: No such file or directory; name a directory"),
        (("layouts", "try", "huey", "/proc/self"), 5, "/proc/self: not a huey FileStorage: there is no queue/ in it (detect);"),
    ],
)
def test_wrong_words_are_one_line(words: tuple[str, ...], code: int, error: str) -> None:
    done = spooltop(*words, environ={})
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"spooltop: {error}") and done.err.count("\n") == 1


def test_an_invalid_file_is_named_and_one_of_a_known_name_comes_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "spooltop" / "layouts"
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text(MINE.replace('"new"', '"neu"'))
    (folder / "nq.toml").write_text(MINE.replace('"mine"', '"nq"'))
    known = known_layouts({"XDG_CONFIG_HOME": str(tmp_path)}, uid=folder.stat().st_uid or 1)
    bad, own, *others = [one for one in known if not one.path.startswith("/etc/")]
    assert bad.error.partition("bad.toml: ")[2] == (
        "line 4: box = 'neu': there are tmp, new, cur, held, rejected, delivered; mend it; spooltop layouts shows those that load"
    )
    assert (own.name, own.ships, own.shadowed) == ("nq", False, False)
    assert [one.name for one in others if one.shadowed] == ["nq"]


@pytest.mark.parametrize(("layout", "action", "box", "force"), ACTIONS)
def test_each_action_has_a_command_and_its_plan_gives_one_that_makes_it_again(
    layout: str, action: Action, box: Box, force: bool, tmp_path: Path
) -> None:
    queue = tmp_path / "queue"
    QUEUES[layout](queue)
    first = spooltop(action, queue, "--box", box, "ALL", *["--force"] * force, "--dry-run", environ={})
    assert (first.code, first.err) == (0, "")
    (command,) = re.findall("as a command: (.*)\n", first.out)
    again = spooltop(*shlex.split(command)[1:], "--dry-run", environ={})
    assert (again.code, re.findall("as a command: (.*)\n", again.out)) == (0, [command])


def test_a_box_that_a_queue_has_not_is_named_with_those_it_has(tmp_path: Path) -> None:
    QUEUES["nq"](tmp_path / "queue")
    assert "delivered" in spooltop("ls", tmp_path / "queue", "--box", "delivered", environ={}).out
    done = spooltop("ls", tmp_path / "queue", "--box", "held", environ={})
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("there is no held here, only new, cur, trash, delivered\n")
