"""``config show`` where settings come from a file or hold secrets, beyond what is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .streams import spooltop

FILE = """\
claim_long = "90m"
read_only = ["/var/*", "/srv"]
redis_tickets = ["redis://ann:secret@h/0#q"]
redis_password = "secret"
[new]
old = "1d"
"""


def shown(environ: dict[str, str]) -> dict[str, tuple[str | None, str]]:
    done = spooltop("config", "show", "--json", environ={"TERM": "xterm", "LANG": "C.UTF-8", **environ})
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in done.out.splitlines()]
    return {line["name"]: (line["value"], line["origin"]) for line in lines}


def test_each_setting_has_its_value_and_where_it_is_set(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "spooltop" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    file.chmod(0o600)
    environ = {"HOME": str(tmp_path), "SPOOLTOP_TMP_OLD": "90", "SPOOLTOP_NEW_OLD": "2h"}
    expected = {
        "claim_long": ("90m", f"claim_long in {file}"), "new_old": ("2h", "SPOOLTOP_NEW_OLD"), "poll_log": (None, "default"),
        "tmp_old": ("90s", "SPOOLTOP_TMP_OLD"), "read_only": ("/var/*:/srv", f"read_only in {file}"),
        "redis_tickets": ("redis://…@h/0#q", f"redis_tickets in {file}"), "redis_password": ("…", f"redis_password in {file}"),
    }  # fmt: skip
    assert shown(environ).items() >= expected.items()
    top, *lines = spooltop("config", environ={"TERM": "xterm", **environ}).out.splitlines()
    assert top == f"{file}: read" and "secret" not in "".join(lines)


@pytest.mark.parametrize(
    ("url", "shown_as"),
    [
        ("redis://h/0?password=secret#q", "redis://h/0?…#q"), ("rediss://:sec/ret@h:7/0?a=1", "rediss://…@h:7/0?…"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock?…"),
        ("redis://h#q redis://u:secret@i#r", "redis://h#q redis://…@i#r"),
    ],
)  # fmt: skip
def test_no_password_is_shown(url: str, shown_as: str) -> None:
    assert shown({"SPOOLTOP_REDIS_TICKETS": url})["redis_tickets"] == (shown_as, "SPOOLTOP_REDIS_TICKETS")


def test_what_it_shows_can_be_set_so() -> None:
    values = {name: value for name, (value, _) in shown({}).items()}
    again = shown({f"SPOOLTOP_{name.upper()}": value for name, value in values.items() if value is not None})
    assert {name: value for name, (value, _) in again.items()} == values
