"""A dashboard for Grafana over the metrics: a table of panels, and the JSON form that Grafana imports."""

from __future__ import annotations

from typing import NamedTuple

from spooltop.model.vocabulary import Json

__all__ = ["dashboard"]

_WIDTH, _HEIGHT = 12, 8
_HERE = '{target=~"$target"}'
_OVER = "[$__rate_interval]"


class _Panel(NamedTuple):
    """A graph: its title, what stands below it in the help, its unit, and queries with the legend of each."""

    title: str
    help: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    summed = f"sum by (le, target) (rate({metric}{_HERE}{_OVER}))"
    return tuple((f"histogram_quantile({share}, {summed})", f"{{{{target}}}} p{share * 100:.0f}") for share in (0.5, 0.99))


_PANELS = (
    _Panel(
        "Problems", "Lines of the list of problems, by code. Nothing is drawn where there are none.", "none",
        ((f"spooltop_problems{_HERE} > 0", "{{target}} {{code}}"),),
    ),
    _Panel(
        "Not looked at completely", "1 where a target cannot be looked at, or the last look is old or not complete.", "none",
        ((f"1 - spooltop_scan_complete{_HERE}", "{{target}}"),),
    ),
    _Panel(
        "Paused", "1 while consumers claim nothing because the spool is paused.", "none",
        ((f"spooltop_paused{_HERE}", "{{target}}"),),
    ),
    _Panel("Depth", "Messages in new.", "short", (('spooltop_messages{box="new",target=~"$target"}', "{{target}}"),)),
    _Panel(
        "Oldest message in new", "Its age.", "s",
        (('spooltop_oldest_age_seconds{box="new",target=~"$target"}', "{{target}}"),),
    ),
    _Panel("Claims", "By what is known of their holder.", "short", ((f"spooltop_claims{_HERE}", "{{target}} {{verdict}}"),)),
    _Panel(
        "Messages in the other boxes", "tmp, held, rejected, trash.", "short",
        (('spooltop_messages{box!~"new|cur",target=~"$target"}', "{{target}} {{box}}"),),
    ),
    _Panel("Waiting", "Time from the put to the claim.", "s", _quantiles("spooltop_wait_seconds_bucket")),
    _Panel("Processing", "Time from the claim to the end.", "s", _quantiles("spooltop_processing_seconds_bucket")),
    _Panel("Done", "Messages a second.", "ops", ((f"rate(spooltop_processing_seconds_count{_HERE}{_OVER})", "{{target}}"),)),
    _Panel(
        "Lost cursor updates", "Of each source.", "short",
        ((f"increase(spooltop_cursor_reverts_total{_HERE}{_OVER})", "{{target}} {{source}}"),),
    ),
    _Panel(
        "Cursors that do not advance", "Sources whose cursor is neither advancing nor idle.", "none",
        (
            ('spooltop_cursor_verdict{verdict!~"advancing|idle|new",target=~"$target"} > 0', "{{target}} {{source}} {{verdict}}"),
        ),
    ),
    _Panel(
        "Operations", "Items that operators moved, by outcome.", "short",
        ((f"increase(spooltop_operations_total{_HERE}{_OVER})", "{{target}} {{action}} {{outcome}}"),),
    ),
    _Panel("Free disk space", "For the user that looks.", "bytes", ((f"spooltop_disk_free_bytes{_HERE}", "{{target}}"),)),
    _Panel("Time of a look", "How long the last one took.", "s", ((f"spooltop_scan_seconds{_HERE}", "{{target}}"),)),
)  # fmt: skip


def dashboard() -> dict[str, Json]:
    """The dashboard as Grafana imports it; it asks for the Prometheus that it shows."""
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "title": "spooltop",
        "uid": "spooltop",
        "tags": ["spooltop"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_choice_of_targets()]},
        "panels": [_panel(place, one) for place, one in enumerate(_PANELS)],
    }


def _choice_of_targets() -> dict[str, Json]:
    return {
        "name": "target", "label": "Target", "type": "query", "datasource": _source(), "refresh": 2, "sort": 1,
        "query": {"query": "label_values(spooltop_scan_complete, target)", "refId": "target"}, "includeAll": True, "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _panel(place: int, one: _Panel) -> dict[str, Json]:
    row, column = divmod(place, 2)
    return {
        "id": place + 1, "type": "timeseries", "title": one.title, "description": one.help, "datasource": _source(),
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": one.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _source(), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(one.queries)
        ],
    }  # fmt: skip


def _source() -> dict[str, Json]:
    return {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
