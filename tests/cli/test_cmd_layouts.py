"""``layouts`` and ``layouts try``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.layouts.definition import library, load
from spooltop.backends.layouts.definition.layout import BOXES
from tests.builders import LAYOUTS

from .streams import spooltop

MINE = """\
name = "mine"
detect = ["queue/"]
[[match]]
box = "new"
path = "queue/{put:sec}-{id}.job"
"""


def test_the_form_is_a_layout_with_every_key_there_is() -> None:
    done = spooltop("layouts", "form", environ={})
    assert (done.code, done.err) == (0, "")
    layout = load.parse_layout("form.toml", done.out)
    assert {match.box for match in layout.matches} | layout.blind.keys() == set(BOXES)
    assert {name for match in layout.matches for name in match.facts} == set(load.FACTS)
    words = set(re.findall(r"[A-Za-z_-]+", done.out))
    keys = re.findall(r'\.(?:take|need|texts|some|table|tables)\("([a-z_]+)"', Path(load.__file__).read_text())
    assert len(keys) > 30 and words >= {*keys, *load.VERBS, *load.COMMANDS, *load.CODES}


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
        "enqueued_at": 1795220919.0, "in_box_age": first["in_box_age"], "in_box_is_bound": False, "verdict": None,
        "evidence": "", "owner": None,
    }  # fmt: skip
    assert first["in_box_age"] > 0 and "verdict" not in second
    assert (second["box"], second["id"], second["rule"]) == (None, None, "nothing matches it")
    (queue / "1795220919-a\x1b.job").unlink()
    assert spooltop("layouts", "try", str(file), str(tmp_path / "q"), environ={}).code == 4


HOLDS = """\
name = "mine"
detect = ["queue/"]
[[match]]
box = "new"
path = "queue/{id}.job"
[[match]]
box = "held"
path = "hold/{id}.job"
[[action]]
name = "hold"
from = "new"
steps = ["rename {path} hold/{name}"]
"""


@pytest.fixture
def layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the user's own layouts, for root too."""
    folder = tmp_path / "layouts"
    folder.mkdir()
    folders = library.folders({}, uid=0)
    monkeypatch.setattr(library, "folders", lambda environ, uid=None: (str(folder), *folders))
    return folder


def test_a_layout_with_a_folder_for_held_messages_has_their_release(layouts: Path, tmp_path: Path) -> None:
    """Holds, releases and undoes by the same rename both ways."""
    (layouts / "mine.toml").write_text(HOLDS)
    for name in ("queue", "hold"):
        (tmp_path / "q" / name).mkdir(parents=True)
    (tmp_path / "q/queue/7.job").write_text("x")
    tried = spooltop("layouts", "try", layouts / "mine.toml", tmp_path / "q", environ={})
    assert (tried.code, tried.err.count("\n")) == (0, 1)
    assert tried.err.startswith(f"spooltop: warning: {layouts}/mine.toml: line 5: queue/{{id}}.job says no time of the put")

    def run(*words: str, code: int = 0) -> Any:
        done = spooltop(words[0], tmp_path / "q", *words[1:], "--as", "mine", "--yes", "--json", environ={})
        assert done.code == code, done
        return json.loads(done.out)

    def lies() -> list[str]:
        return [f"{one.parent.name}/{one.name}" for one in sorted((tmp_path / "q").glob("*/*.job"))]

    run("hold", "ALL")
    assert lies() == ["hold/7.job"]
    released = run("release", "ALL")["operation"]
    assert lies() == ["queue/7.job"]
    run("undo", released)
    assert lies() == ["hold/7.job"]
    (tmp_path / "q/queue/7.job").write_text("another one")
    (refusal,) = run("release", "ALL", code=3)["refused"]
    assert refusal["reason"] == "conflict: another message with this id waits; both are kept"


def test_an_invalid_file_is_named_and_one_of_a_known_name_comes_before_it(layouts: Path) -> None:
    (layouts / "bad.toml").write_text(MINE.replace('"new"', '"neu"'))
    (layouts / "nq.toml").write_text(MINE.replace('"mine"', '"nq"'))
    bad, own, *others = map(json.loads, spooltop("layouts", "--json", environ={}).out.splitlines())
    assert bad["error"].partition("bad.toml: ")[2].startswith("line 4: box = 'neu': there are tmp, new, cur, held, rejected")
    assert (own["name"], own["ships"], own["shadowed"]) == ("nq", False, False)
    assert [one["name"] for one in others if one["shadowed"]] == ["nq"]


def test_a_box_that_a_queue_has_not_is_named_with_those_it_has(tmp_path: Path) -> None:
    LAYOUTS["nq"](tmp_path / "queue")
    assert "delivered" in spooltop("ls", tmp_path / "queue", "--box", "delivered", environ={}).out
    done = spooltop("ls", tmp_path / "queue", "--box", "held", environ={})
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("there is no held here, only new, cur, trash, delivered\n")
