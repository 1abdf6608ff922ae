"""``layouts`` and ``layouts try``, beyond what is recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .streams import ROOT, spooltop

MINE = """\
name = "mine"
detect = ["queue/"]
[[match]]
box = "new"
path = "queue/{put:sec}-{id}.job"
"""
def test_the_form_is_a_layout_with_every_key_there_is(tmp_path: Path) -> None:
    form = spooltop("layouts", "form", environ={})
    assert (form.code, form.err) == (0, "")
    (tmp_path / "form.toml").write_text(form.out)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/7.job").touch()
    assert spooltop("layouts", "try", tmp_path / "form.toml", tmp_path, environ={}).code in (0, 4)
    source = "".join(path.read_text() for path in (ROOT / "spooltop/backends/layouts").rglob("*.py"))
    keys = re.findall(r'\.(?:take|need|text|choice|texts|some|table|tables)\("([a-z_]+)"', source)
    words = set(re.findall(r"[A-Za-z_-]+", form.out))
    assert len(keys) > 30 and set(keys) <= words
    assert {"rename", "trash", "poke", "requeue", "release", "conflict", "lock-stale", "failing"} <= words


def test_try_takes_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    job = tmp_path / "q" / "queue" / "1795220919-a\x1b.job"
    job.parent.mkdir(parents=True)
    job.touch()
    words = ("layouts", "try", tmp_path / "mine.toml", tmp_path / "q", "--json")
    tried = json.loads(spooltop(*words, environ={}).out)
    assert (tried["box"], tried["id"], tried["enqueued_at"]) == ("new", "a\\x1b", 1795220919.0)
    job.unlink()
    assert spooltop(*words, environ={}).code == 4
