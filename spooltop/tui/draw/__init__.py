"""What the screens show, as pure functions from model values to lines of styled spans. No Textual, no clock, no file.

A ``Line`` is a tuple of ``Span(text, style)``; ``Style`` is a closed set of meanings. No line is wider than asked, in cells, and
every name from a spool has gone through ``safe``. Times are epoch seconds; ``zone`` None is the local time zone.

Everything is drawn with signs (``✗ ▌ █ ─ ·``). For ``--ascii`` the widgets (their ``glyphs``) pass each line through
``ASCII.line``, which keeps the widths; ``ASCII.text`` does the same for a string of a footer or a title.

Screens (each in the module of its name: ``header``, ``overview``, ``trouble``, ``detail``, ``cursors``, ``plan``, ``result``,
``help``, ``operations``, ``operation``, ``follow``, ``setting``, ``holders``)::

    header(snapshot, width, *, target, now, lamp=Lamp(), zone=None) -> [Line, Line]      snapshot None before the first
    overview(snapshot, width, height, *, now, chosen=0, lamp=Lamp(), zone=None) -> [Line]   all below the header
    problem_lines(snapshot, width, height, *, chosen=0) -> [Line]             ``!``: all problems
    problem_hint(problem, can) -> (key, words)                                "r", "requeue 2"
    detail(row, payload, width, height, *, now, zone=None, error="", scroll=0, worked=None)      payload None: being read
    cursor_table(snapshot, width, height, *, now, chosen=0, zone=None) -> [Line]  the Cursors view
    cursor_detail(cursor, snapshot, width, height, *, now, chosen=0, zone=None) -> [Line]
    plan_lines(plan, width, height, *, now, typed="", zone=None, scroll=0, busy="") -> [Line]
    result_lines(result, width, height, *, since=(), zone=None, scroll=0) -> [Line]
    follow_lines(ids, steps, now, width, height, *, since, zone=None, scroll=0) -> [Line]
    setting_lines(cursor, text, value, width, height) -> [Line]                the form of a cursor's value
    holders_lines(name, holders, width, *, at, error="", zone=None) -> [Line]  as many as it takes; so does
    operation_lines(record, plan, why_not, command, width, *, now, zone=None) -> [Line]
    help_lines(sections, width, height, *, scroll=0) -> [Line]                HelpSection(title, entries)
                                                                              HelpEntry(keys, words, why_not="")
    form_lines(fields, width, height) -> [Line]                               the form of inject: Field(name, text, hint, chosen)
    lock_table(snapshot, width, *, now) -> [Line]                             the Locks view
    operations_lines(records, width, height, *, now, chosen=0, zone=None) -> [Line]

``lamp.Lamp(frozen_at=None, stale_for=None, stale_why="")`` is what the screen knows of itself: ``frozen_at`` after ``Z``,
``stale_for`` seconds since a look has not come back, ``stale_why`` what does not answer.

Lists (``lists``: one row each, for ``VirtualList``)::

    columns_for(box, width) -> tuple[Column, ...]          those that fit; the last one is as wide as is left
    list_header(snapshot, title, length, width, *, now, sort=None, marked=0, complete=True, filter="", lamp=Lamp(), zone=None)
    title_line(columns, width, *, sort=None) -> Line       sort: model.kind.Sort; Column.sort is the column's word there
    row_line(row, columns, width, *, now, marked=False, selected=False, zone=None, times=Times.AGE) -> Line
    COLUMNS: Mapping[Box, tuple[Column, ...]]              Column(key, title, width, align, min_screen, value, sort)

Widgets (``spooltop.tui.widgets``)::

    LinesView(draw=None, *, glyphs=UNICODE, colour=True)   draw(width, height) -> lines, where given, on redraw() and on resize
      .show(lines) -> int  .redraw() -> int                repaints only the rows that differ; how many
    VirtualList(draw, key, *, glyphs, colour, empty)       draw(item, width, selected, marked) -> Line; key(item) -> Key
      .set_list(length, generation, *, cursor=None, anchor=None, start=0, items=())
                                                           another listing; cursor: the index of the key ``anchor`` in it
      .set_rows(start, items, generation)                  what RowsWanted asked for; of another generation: ignored
      .set_marks(keys)  .tick()  .move_by(n)  .page(±1)  .home()  .end()  .go_to(index)  .activate()
      .cursor_index  .cursor_key  .cursor_item  .top
      posts RowsWanted(generation, start, end), CursorMoved(index, key), Activated(index, key), Resized()
"""
