"""Draws what the screens show: pure functions from model values to lines of styled spans. No Textual, no clock, no file.

A ``Line`` is a tuple of ``Span(text, style)``; ``Style`` is a closed set of meanings. A line may be wider than the window:
widgets and frames cut it. Every name from a spool has gone through ``safe``. Times are epoch seconds; ``zone`` None is the local
time zone. One module draws one view (``overview``, ``lists``, ``detail``, ...); what views share is in ``elements``, what is on
every screen in ``header``. Screens that lie on top of a view draw themselves.

Everything is drawn with signs (``✗ ▌ █ ─ ·``). For ``--ascii`` the widgets pass each line through ``in_ascii``, which keeps the
widths.
"""
