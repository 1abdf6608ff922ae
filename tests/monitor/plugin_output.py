"""A strict parser of plugin output, written from the plugin guidelines alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_VALUE = re.compile(r"(U|-?[0-9]+(?:\.[0-9]+)?)(s|us|ms|%|B|KB|MB|GB|TB|c)?")
_LABEL = re.compile(r"'((?:[^'=]|'')+)'=([^ ]*)(?: |$)")
_RANGE = re.compile(r"@?(?:(?:~|-?[0-9.]+)?:)?(?:-?[0-9.]+)?")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|")


@dataclass
class Output:
    """State, text of the first line, further lines, and value, unit, warning, critical, minimum and maximum of each label."""

    state: str
    text: str
    more: list[str]
    data: dict[str, tuple[str, str, str, str, str, str]] = field(default_factory=dict)


def parse(out: str) -> Output:
    """Parses what a plugin printed; an ``AssertionError`` says which rule it breaks."""
    assert out.endswith("\n"), "the last line does not end"
    first, *more = out[:-1].split("\n")
    assert first.count("|") <= 1, "a | in the text"
    assert not any("|" in line for line in more), "a | in a further line"
    line, _, data = first.partition("|")
    assert ";" not in line + "".join(more), "a ; in the text, which Nagios writes as a :"
    head = re.fullmatch(r"SPOOL (\w+) - (.+)", line.strip())
    assert head is not None, first
    assert head[1] in STATES, head[1]
    found = Output(head[1], head[2], more)
    rest = data.strip()
    while rest:
        label = _LABEL.match(rest)
        assert label is not None, f"no label: {rest}"
        value, *fields = label[2].split(";")
        assert len(fields) <= 4, label[2]
        fields += [""] * (4 - len(fields))
        number = _VALUE.fullmatch(value)
        assert number is not None, value
        assert all(map(_RANGE.fullmatch, fields[:2])), fields
        assert all(map(_NUMBER.fullmatch, fields[2:])), fields
        name = label[1].replace("''", "'")
        assert name not in found.data, f"the label {name} stands twice"
        found.data[name] = (number[1], number[2] or "", fields[0], fields[1], fields[2], fields[3])
        rest = rest[label.end() :]
    return found
