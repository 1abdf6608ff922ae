"""The dashboard for Grafana."""

from __future__ import annotations

import json
import re

from spooltop.monitor.grafana import dashboard
from spooltop.monitor.metrics import Metrics
from tests.cli.streams import spooltop

_NAME = re.compile(r"\bspooltop_[a-z_]+")
_LABELS = re.compile(r"(spooltop_[a-z_]+)\{([^}]*)\}")


def exported() -> dict[str, set[str]]:
    """The names of all samples that there can be, each with its labels."""
    found: dict[str, set[str]] = {}
    for family in Metrics([]).collect():
        labels = set(getattr(family, "_labelnames", ()))
        names = {
            "counter": [f"{family.name}_total"], "histogram": [f"{family.name}_{end}" for end in ("bucket", "count", "sum")],
        }.get(family.type, [family.name])  # fmt: skip
        found |= {name: labels | ({"le"} if name.endswith("_bucket") else set()) for name in names}
    return found


def test_it_names_only_what_is_exported() -> None:
    known = exported()
    queries = [query for panel in dashboard()["panels"] for query in panel["targets"]]  # type: ignore[index,union-attr]
    assert len(queries) >= 14
    for query in queries:
        names = set(_NAME.findall(query["expr"]))
        assert names and names <= known.keys(), query
        for name, labels in _LABELS.findall(query["expr"]):
            assert set(re.findall(r"([a-z]+)[=!]", labels)) <= known[name], query
            assert 'target=~"$target"' in labels
        shown = set(re.findall(r"\{\{([a-z]+)\}\}", query["legendFormat"]))
        assert "target" in shown and shown <= set.union(*(known[name] for name in names))
    choice = dashboard()["templating"]["list"][0]  # type: ignore[index,call-overload]
    assert set(_NAME.findall(choice["query"]["query"])) <= known.keys()


def test_no_two_panels_overlap() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in dashboard()["panels"]]  # type: ignore[index,union-attr]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)


def test_the_command_prints_what_grafana_imports() -> None:
    done = spooltop("metrics", "--grafana")
    assert (done.code, done.err, json.loads(done.out)) == (0, "", dashboard())
