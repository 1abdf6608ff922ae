"""The base of all screens, and the session that they may use: looks up keys in the table of commands, and says why a command is
not available. Below it the bases of screens of one list or one text, whose commands for moving are steps of a number of lines,
and what every screen opens: the palette, the menu of orders and the help."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.events import Callback, Click, Event, InputEvent, Key, MouseScrollDown, MouseScrollUp, Paste, Resize
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen, ScreenResultType
from textual.strip import Strip

from spooltop.control import Control
from spooltop.model import Clock, Result, Snapshot, Sort, SpooltopError

from ..commands import (
    GOES,
    VIEW_COMMANDS,
    CommandContext,
    HelpEntry,
    KeyCommand,
    View,
    by_id,
    character_of,
    command_for,
    commands_in,
    footer,
    help_entries,
    named,
    only_in,
    palette,
    tabs,
)
from ..commands import shown as key_name
from ..draw.elements import (
    BLANK,
    Line,
    Lines,
    Span,
    Style,
    Zone,
    clip,
    dim,
    filled,
    first_fit,
    join,
    labelled,
    line_text,
    line_width,
    notice_lines,
    numbered,
    pad,
    paragraph,
    restyle,
    shown,
    text_width,
    visible,
    within,
)
from ..messages import NOTHING_SEEN
from ..options import Options
from ..terminal.driver import TerminalDriver
from ..threads import SnapshotThread, Worker, deliver
from ..widgets import WHEEL, LinesView, VirtualList


class AppSession(Struct):
    """Everything that any screen may use besides Textual: no screen knows the app.

    ``leave`` ends the dashboard with an exit code. ``moment``: seconds that a plan is shown before a key confirms it.
    ``terminal`` gives the terminal, None where frames are drawn without one.
    """

    options: Options
    leaving: threading.Event
    """Set once the dashboard is being left; an operation under way stops after its current item."""
    leave: Callable[[int], object]
    moment: float
    terminal: Callable[[], TerminalDriver | None]
    results: list[Result] = []
    """The results of all operations so far, oldest first, of all targets. The worker appends to it."""
    snapshot: Snapshot = NOTHING_SEEN
    """The newest snapshot, whatever the main screen shows."""
    early: str = ""
    """The key that would confirm a plan and came before that plan was painted, as the last key; "" where none did."""
    next_view: str | None = None
    """The id of the command of the view for which the panels on the stack are being left."""


class Session(AppSession, kw_only=True):
    """Everything that a screen on an open target may use. ``now`` gives the time that ages are shown for (epoch seconds: that of
    the snapshot on the main screen), ``zone`` the time zone that times are shown in (None: local)."""

    control: Control
    snapshot_thread: SnapshotThread
    worker: Worker
    now: Clock
    zone: Callable[[], Zone]
    to_spools: Callable[[], object] | None = None
    """Leaves the target for the Spools view; None where it was not opened from there."""


BACKSPACES = ("backspace", "ctrl+h")


class LineEdit(Struct):
    """``text`` with the cursor always at its end; ``limit`` in characters."""

    text: str = ""
    limit: int = 500
    digits: bool = False

    def key(self, key: str, character: str | None) -> bool:
        """Handles a key; True where it edits text. Ctrl-U empties the line, Ctrl-W removes the last word."""
        if key in BACKSPACES:
            self.text = self.text[:-1]
        elif key == "ctrl+u":
            self.text = ""
        elif key == "ctrl+w":
            self.text = self.text.rstrip().rpartition(" ")[0]
        elif character is not None and character.isprintable() and len(character) == 1:
            if len(self.text) < self.limit and (not self.digits or character in "0123456789"):
                self.text += character
        else:
            return False
        return True

    def insert(self, text: str) -> None:
        """Inserts the first line of pasted text as if it had been typed."""
        for character in (text.splitlines() or [""])[0]:
            self.key("", character)


# The line of keys: as many entries of the table as fit.

ALWAYS = ("/", "z", "?", "q", "Esc")
"""Keys that are shown next to the views."""
_SHORT = {"consumers": "Cons", "cursors": "Curs"}
"""Labels of views where the whole line does not fit with the others."""


def footer_line(entries: list[tuple[str, str]], width: int) -> Line:
    """As many of the keys as fit, the most important first, and always the key to leave."""
    leaving = [entry for entry in entries if entry[0] == "Esc"]
    lines = []
    for most in reversed(range(len(entries) + 1)):
        some = dict.fromkeys([*entries[:most], *leaving])
        parts = [part for key, words in some for part in (" · ", Style.KEY(key), f" {words}")]
        lines.append(join(" ", *parts[1:]))
    return first_fit(width, *lines)


def tab_line(root: View, entries: list[tuple[str, str]], width: int, absent: Container[str] = ()) -> Line:
    """The views by number, the one in front reversed, and the keys that are always shown. Where space is short, labels of views
    are shortened first, then Esc goes, then keys lose theirs from the right on."""

    def views(labels: Mapping[str, str]) -> Line:
        """As many of the views as fit."""
        out: Line = (Span(" "),)
        for view, key, words in tabs(absent):
            label = labels.get(view, words)
            tab = (Span(f"{key}{label}", selected=True),) if view == root else join(Style.KEY(key), label)
            if line_width(longer := join(out, tab, " ")) > width:
                break
            out = longer
        return out

    shown_keys = [(key, join(" ", Style.KEY(key), f" {words}")) for key, words in entries if key in ALWAYS]
    whole, kept = [part for _, part in shown_keys], [part for key, part in shown_keys if key != "Esc"]
    short, bare = views(_SHORT), [part[:-1] for part in kept]
    return first_fit(
        width, join(views({}), *whole), join(short, *whole),
        *(join(short, *kept[:labels], *bare[labels:]) for labels in reversed(range(len(kept) + 1))),
        *(join(short, *bare[:keys]) for keys in reversed(range(len(bare)))),
    )  # fmt: skip


T = TypeVar("T")
Facts: TypeAlias = dict[str, Any]

LEAST = (40, 10)
"""The smallest window that anything is drawn in, columns and lines."""
LEAVING = ("escape", "q", "ctrl+c", "f10", "ctrl+z")
"""Keys that go back or quit: the only ones that work in a window that is too small."""
WAY_OUT = ("ctrl+c", "f10")
CONFIRMING = ("y", "Y")
"""Keys that confirm a plan. Where they come before it was painted they do nothing, and that is said."""
ANYWHERE = (*WAY_OUT, "ctrl+z", "ctrl+l")
"""Keys that work while text is typed, too."""


def too_small(width: int, height: int) -> Lines:
    """The text of a window that is too small."""
    words = f"spooltop needs {LEAST[0]}×{LEAST[1]}, this is {width}×{height}. q leaves."
    return paragraph(words, max(1, width))


def _key(key: str, character: str | None, event: Event) -> Key:
    """A key that was typed at the time of ``event``."""
    typed = Key(key, character)
    typed.time = event.time
    return typed


class TableScreen(Screen[ScreenResultType], inherit_bindings=False):
    """A screen whose keys come from the table of commands."""

    AUTO_FOCUS = ""
    VIEW: View
    """The view that a panel is."""
    PINNED = False
    """True where keys typed at another screen do not count here, nor keys typed here at another screen."""
    WHILE_TYPING: tuple[str, ...] = ANYWHERE
    """Keys that are commands while a line is typed, too."""

    typing: LineEdit | None = None
    """The line that is being typed into; None where keys are commands."""
    failed = ""
    """The reason why the last job that was asked for has no result."""
    message = ""
    dismissed = False
    """True from the moment it is dismissed; it stays on the stack a little longer."""

    def __init__(self, session: AppSession) -> None:
        super().__init__()
        self.session = session
        self._result: ScreenResultType | None = None
        self._changed: Callable[[str], object] = lambda text: None
        self._entered: Callable[[str | None], object] = lambda text: None

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leaves the stack with ``result``: at once where this screen is in front, else as soon as it is. Textual removes the
        screen in front, whichever it is."""
        if self.dismissed:
            return AwaitComplete()
        self.dismissed = True
        if self.on_top:
            return super().dismiss(result)
        self._result = result
        return AwaitComplete()

    def body(self) -> ComposeResult:
        """The widgets of this screen; by default one of lines."""
        yield LinesView(self.session.options, "panel")

    def compose(self) -> ComposeResult:
        yield from self.body()
        yield LinesView(self.session.options, "small", too_small)

    def on_mount(self) -> None:
        self.paint()

    def unwanted(self) -> Callable[[], bool]:
        """Returns a function for worker threads that tells whether the screen was left and its result is not needed any more."""
        leaving = self.session.leaving
        return lambda: self.dismissed or leaving.is_set()

    def on_unmount(self) -> None:
        self.refresh()  # releases what was drawn, as LinesView does

    @property
    def on_top(self) -> bool:
        """True where no other screen is in front of this one."""
        stack = self.app.screen_stack
        return bool(stack) and stack[-1] is self

    @property
    def small(self) -> bool:
        """True where the window is too small to show anything of this screen."""
        width, height = self.window_size
        return width < LEAST[0] or height < LEAST[1]

    @property
    def window_size(self) -> tuple[int, int]:
        """Columns and lines of the window."""
        return self.app.size

    @property
    def ready(self) -> bool:
        """True while there are widgets to paint on: looks arrive before a screen is composed and after it was left."""
        return self.is_mounted and any(isinstance(widget, LinesView) for widget in self.children)

    def context(self) -> CommandContext:
        """Returns the facts that the commands are judged by."""
        facts: Facts = {"snapshot": self.session.snapshot, "rows": 1, "depth": 1}
        return CommandContext(self.VIEW, **facts | self.facts())

    def facts(self) -> Facts:
        """The fields of the context in which a panel differs from others."""
        return {}

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The lines of this screen above the keys or the notice."""
        raise NotImplementedError

    def paint(self) -> None:
        if not self.ready:
            return
        width, height = self.window_size
        bottom = self.bottom_lines(width)
        room = max(1, height - len(bottom))
        lines = self.draw(width, room)[:room]  # what does not fit is left out
        self.query_one(LinesView).show([*lines, *[()] * (room - len(lines)), *bottom])

    def ask(self, run: Callable[..., object], job: Callable[[], T], take: Callable[[T], object]) -> None:
        """Has a thread ``run`` a job. Then ``take`` gets the result, or ``failed`` says why there is none."""
        run(job, partial(deliver, self, self._answered, take))

    def _answered(self, take: Callable[[T], object], found: T | SpooltopError) -> None:
        if isinstance(found, SpooltopError):
            self.failed = str(found)
        else:
            take(found)

    def read_line(self, edit: LineEdit, changed: Callable[[str], object], entered: Callable[[str | None], object]) -> None:
        """Has a line typed. ``changed`` gets its text after each key, ``entered`` once Enter was typed. With Esc or, as in less
        and vi, with Backspace in an empty line it is given up, and ``entered`` gets None."""
        self.typing, self._changed, self._entered = edit, changed, entered

    def typed(self, event: Key) -> bool:
        """Handles a key while a line is typed; True where it did."""
        edit = self.typing
        if edit is None or event.key in self.WHILE_TYPING:
            return False
        if event.key in ("enter", "escape") or (event.key in BACKSPACES and not edit.text):
            self.typing = None
            self._entered(edit.text if event.key == "enter" else None)
        else:
            edit.key(event.key, event.character)
            self._changed(edit.text)
        return True

    def on_paste(self, event: Paste) -> None:
        """Pasted text is never a command."""
        event.stop()
        if self.dismissed or not self.on_top:
            return
        if (edit := self.typing) is None:
            self.show_notice("paste ignored: there is no text field here; / opens the filter")
            return
        edit.insert(event.text)
        self._changed(edit.text)

    def ignores(self, event: Key) -> bool:
        """True for a key that must not count here (typed before this screen was seen)."""
        return False

    def bottom_lines(self, width: int) -> Lines:
        """The notice, or the keys."""
        return notice_lines(self.message, width) if self.message else [self.keys_line(width)]

    def keys_line(self, width: int) -> Line:
        """The keys that are available here."""
        return footer_line(footer(self.context()), width)

    def show_notice(self, message: str) -> None:
        """Shows a notice to the user, until the next key."""
        self.message = message
        self.paint()

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        stack = self.app.screen_stack  # not is_current: that is true for screens that are visible below others, too
        front = stack[-1] if stack else None
        if self.dismissed or front is not self:
            self._pass_on(event, front)
            return
        if (self.small and event.key not in LEAVING) or self.ignores(event):
            return
        self.session.early = ""
        notice, self.message = self.message, ""
        if not self.typed(event):
            self.command(event.key)
        if notice and not self.message:
            self.paint()

    # The mouse: a click on a key or a row does what a key would

    @property
    def _touchable(self) -> bool:
        return self.on_top and not (self.dismissed or self.small)

    def on_click(self, event: Click) -> None:
        event.stop()
        widget = event.widget
        if not self._touchable or event.button != 1 or not isinstance(widget, LinesView):
            return
        word = widget.key_at(event.x, event.y)
        key = named(word, (key for command in commands_in(self.view) for key in command.keys))
        if key is None:
            self.clicked(widget, event.x, event.y)
        elif not self._left_to_typing(key) if self.typing is None else key in ("enter", "escape"):
            self.on_key(_key(key, character_of(key), event))

    def _left_to_typing(self, key: str) -> bool:
        """True, with a notice, where this key answers a plan. The mouse answers none: a hand slips, and a terminal's window is
        clicked on only to bring it to the front."""
        for command in commands_in(self.view):
            if key in command.keys and command.dangerous and View.PLAN in command.views:
                does = "confirm" if command.id.startswith("confirm") else command.label
                self.show_notice(f"the mouse does not {does}: press {key_name(key)}")
                return True
        return False

    def clicked(self, widget: LinesView, x: int, y: int) -> None:
        """Chooses a row that was clicked on, or opens it where it is chosen already."""
        steps = widget.steps_to(x, y)
        if steps == 0:
            if not self._left_to_typing("enter"):
                self.command("enter")
        elif steps is not None:
            self.do_step(steps)

    def do_step(self, lines: int) -> None:
        """Moves this many lines down, up where negative. The number may be larger than the number of lines."""

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        if self._touchable:
            self.do_step(WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        if self._touchable:
            self.do_step(-WHEEL)

    def _pass_on(self, event: Key, front: object) -> None:
        """Hands on a key that was typed while another screen came to the front, to that screen. No key is handed to a plan or
        from a plan to the screen below: a plan counts only what was typed at it."""
        if event.key in WAY_OUT:
            self.do_quit()
            return
        if front is self or not isinstance(front, TableScreen):
            return
        if self.PINNED or front.PINNED:
            front.refuse_early(event)
            return
        front.post_message(_key(event.key, event.character, event))

    def refuse_confirming(self, event: Key, why: str) -> bool:
        """True, with a notice, for a key that would confirm a plan, where none is in front; one that opens says so again."""
        if event.key not in CONFIRMING or self.typing is not None:
            return False
        self.show_notice(f"{event.key}: {why}")
        self.session.early = event.key
        return True

    def refuse_early(self, event: Key) -> None:
        """Does nothing with a key that came before this screen was seen; a plan says that it would have been confirmed."""

    def command(self, key: str) -> None:
        """Runs the command of a key, or says why it is not available."""
        command, reason = command_for(key, self.context())
        if command is not None:
            self.attempt(command, reason)

    def attempt(self, command: KeyCommand, reason: str | None) -> None:
        """Runs a command unless there is a ``reason`` against it, which is said."""
        if reason is None:
            self.run_command(command.id)
        else:
            self.say_why_not(command, reason)

    def say_why_not(self, command: KeyCommand, reason: str) -> None:
        """Says why the command of a key is not available."""
        self.show_notice(reason)

    def run_command(self, id: str) -> None:
        """Calls the handler of a command, the method that the table names. A command that shows another view leaves a panel for
        it."""
        command = by_id(id)
        if id in VIEW_COMMANDS and not hasattr(self, command.handler):
            self.session.next_view = id
            self.command("escape")
        else:
            getattr(self, command.handler)(*command.does[1:])

    def choose(self, id: str | None) -> None:
        """Runs a command chosen in the palette, or says why it is not available; does nothing where none was chosen."""
        if id is not None:
            command, context = by_id(id), self.context()
            self.attempt(command, command.why_not(context) if context.view in command.views else only_in(command, context))

    def open_screen(self, screen: Screen[T], done: Callable[[T | None], Any] | None = None) -> None:
        """Puts another screen in front; ``done`` is called with its result, None where it was left without one."""
        self.message = ""  # it was about what opens now
        self.app.push_screen(screen, done)

    def copy(self, text: str, said: str = "") -> None:
        """Copies to the terminal's clipboard (OSC 52) and says what: ``said``, or all of it."""
        self.app.copy_to_clipboard(text)
        self.show_notice(f"copied: {said or text}")

    def copy_lines(self, lines: Sequence[Line], said: str) -> None:
        self.copy("\n".join(line_text(line).rstrip() for line in lines), said)

    async def on_event(self, event: Event) -> None:
        """Ignores a size that is no longer the terminal's. A screen sends itself each size that it was laid out in: two of them
        on their way at once would call each other up for ever, and nothing else would be heard, not even SIGTERM."""
        if not isinstance(event, Resize) or event.size == self.app.size:
            await super().on_event(event)
        if isinstance(event, (InputEvent, Paste, Callback)) and not self.dismissed:
            self.handled()

    def handled(self) -> None:
        """Shows what a key, the mouse or the answer of a thread has changed."""
        self.paint()

    def on_resize(self) -> None:
        self.set_class(self.small, "-small")
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        if self.dismissed and self.on_top:  # dismissed while another screen was in front
            super().dismiss(self._result)
            return
        view_command, self.session.next_view = self.session.next_view, None
        if view_command is not None and self.view in GOES:
            self.choose(view_command)
        else:
            self.paint()

    # Commands of every screen

    def do_quit(self) -> None:
        self.session.leave(0)

    def do_back(self) -> None:
        self.dismiss(None)

    def do_suspend(self) -> None:
        self.app.action_suspend_process()

    def do_redraw(self) -> None:
        if (terminal := self.session.terminal()) is not None:
            terminal.paint_all()

    def do_help(self) -> None:
        self.open_screen(HelpScreen(self.session, self.context))

    def do_palette(self) -> None:
        self.open_screen(PaletteScreen(self.session, self.context()), self.choose)

    @property
    def view(self) -> View:
        return self.context().view


class SteppingScreen(TableScreen[ScreenResultType]):
    """A screen that defines what a step is and what is listed."""

    FIXED_LINES = 4
    """Lines of the screen that do not move when it is paged."""
    at = 0
    """The place in ``listed`` of the line that is chosen or at the top."""

    @property
    def place(self) -> int:
        """The place in ``listed`` from which on a text is searched for."""
        return self.at

    @property
    def listed(self) -> Sequence[Any]:
        """The lines, or what each of them is about."""
        raise NotImplementedError

    def text_of(self, one: Any) -> str:
        """The text by which one of those listed is found."""
        return line_text(one)

    def do_find(self) -> None:
        self.read_line(LineEdit(), self._finding, self._find)
        self._finding("")

    def _finding(self, text: str) -> None:
        self.show_notice(f"/{text}_   Enter goes to the next match; Esc ends the search")

    def _find(self, text: str | None) -> None:
        if text is None:
            return
        listed, place = self.listed, self.place
        order = [*range(place + 1, len(listed)), *range(min(place + 1, len(listed)))]
        found = next((at for at in order if text and text.lower() in self.text_of(listed[at]).lower()), None)
        if found is None:
            self.show_notice(f"no line has {text}" if text else "no text to search for")
        else:
            self.do_step(found - place)

    def do_page(self, pages: float) -> None:
        """Moves a page or half a page down, up where negative."""
        height = self.window_size[1]
        lines = height - self.FIXED_LINES if abs(pages) == 1 else height // 2
        self.do_step(lines if pages > 0 else -lines)

class ListScreen(TableScreen[None]):
    """A screen with a list that is filtered and sorted."""

    WHILE_TYPING = (*ANYWHERE, "up", "down", "pageup", "pagedown", "f1")

    def handled(self) -> None:
        """Does nothing: a step of the cursor paints two rows."""

    @property
    def rows(self) -> VirtualList[Any]:
        return self.query_one(VirtualList)

    def lines(self, name: str) -> LinesView:
        """The widget with this id."""
        return self.query_one(f"#{name}", LinesView)

    @property
    def sort(self) -> Sort:
        """The order of the list in front."""
        raise NotImplementedError

    def set_sort(self, sort: Sort) -> None:
        """Sorts the list in front."""
        raise NotImplementedError

    def sort_columns(self) -> Mapping[str, str]:
        """The columns that the list in front can be sorted by: their ids and their titles, in their order."""
        raise NotImplementedError

    def column_at(self, x: int) -> str | None:
        """The id of the column whose title is at cell ``x``; None where there is none to sort by."""
        raise NotImplementedError

    @property
    def filter(self) -> str:
        """The filter of the list in front."""
        raise NotImplementedError

    def filter_by(self, text: str) -> None:
        """Filters the list in front by the part of the text that can be parsed."""
        raise NotImplementedError

    def do_filter(self) -> None:
        self.read_line(LineEdit(self.filter), self.filter_by, self._filtered)
        self.paint()

    def _filtered(self, text: str | None) -> None:
        if text is None:
            self.filter_by("")
        self.paint()

    def typed_line(self, hint: str) -> Line:
        """The filter while it is typed."""
        text = self.typing.text if self.typing is not None else ""
        return join(Style.KEY(" /"), shown(text), Style.KEY("█"), f"  {shown(hint)}")

    def on_virtual_list_activated(self) -> None:
        self.command("enter")

    def clicked(self, widget: LinesView, x: int, y: int) -> None:
        """Sorts by the column whose title was clicked on; inverts the order where that is the column already."""
        if widget.id != "top":
            super().clicked(widget, x, y)
        elif y == 1 and (column := self.column_at(x)):
            if column == self.sort.column:
                self.command("I")
            else:
                self.sort_by(column)

    def do_sort_menu(self) -> None:
        self.open_screen(SortScreen(self.session, tuple(self.sort_columns().items()), self.sort.column), self.sort_by)

    def do_sort(self, step: int) -> None:
        """Sorts by the column ``step`` places further right."""
        columns = list(self.sort_columns())
        at = columns.index(self.sort.column) if self.sort.column in columns else 0
        self.sort_by(columns[(at + step) % len(columns)])

    def do_sort_invert(self) -> None:
        self.set_sort(self.sort.replace(descending=not self.sort.descending))

    def sort_by(self, column: str | None) -> None:
        """Sorts the list in front by another column; None: as it is."""
        if column is not None:
            self.set_sort(self.sort.replace(column=column))


class ChoosingScreen(SteppingScreen[ScreenResultType]):
    """A list of entries, one of which is chosen."""

    def do_step(self, lines: int) -> None:
        # It is clamped as it is painted: a key may be typed before the entries are known.
        self.at += lines

    def clamp(self) -> None:
        """Chooses the nearest entry that there is."""
        self.at = within(self.at, len(self.listed))


# The palette, which names all commands of the view (``:q`` quits), and the menu of the columns that a list can be sorted by.


class PaletteScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen command, None where it was left."""

    VIEW = View.PALETTE
    FIXED_LINES = 3
    typing: LineEdit

    def __init__(self, session: AppSession, about: CommandContext) -> None:
        super().__init__(session)
        self.about = about
        self.typing = LineEdit()

    @property
    def listed(self) -> list[tuple[KeyCommand, str]]:
        """The commands that match: available ones first, among them those whose name begins with the text."""
        text = self.typing.text.strip().lower()
        return sorted(palette(self.about, text), key=lambda pair: (bool(pair[1]), not pair[0].id.startswith(text)))

    def facts(self) -> Facts:
        return {"rows": len(self.listed)}

    def typed(self, event: Key) -> bool:
        edited = self.typing.key(event.key, event.character)
        if edited:
            self.at = 0
        return edited

    def draw(self, width: int, height: int) -> Lines:
        found = self.listed
        self.clamp()
        lines = [join(Style.KEY(" :"), shown(self.typing.text), Style.KEY("█"))]
        for i in visible(len(found), height - 1, self.at):
            command, reason = found[i]
            words = Style.STRONG(pad(command.id, 17)), Style.KEY(pad(command.shown_keys, 12)), shown(reason or command.help)
            line = join(Style.KEY("▌" if i == self.at else " "), *words)
            lines.append(numbered(i, restyle(line, Style.DIM) if reason else line))
        return lines if found else [*lines, dim("  no action matches these words")]

    def bottom_lines(self, width: int) -> Lines:
        return [join(shown(self.message) or " ↑↓ choose · Enter run · Esc back · q and Enter quits")]

    def do_run(self) -> None:
        if self.typing.text.strip() in ("q", "quit"):
            self.session.leave(0)
        elif self.listed:
            self.dismiss(self.listed[self.at][0].id)


class SortScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen column, None where it was left. ``columns`` are (id, title)."""

    VIEW = View.SORT
    listed: Sequence[tuple[str, str]] = ()

    def __init__(self, session: AppSession, columns: Sequence[tuple[str, str]], present: str) -> None:
        super().__init__(session)
        self.listed = columns
        self.at = next((at for at, (word, _) in enumerate(columns) if word == present), 0)

    def draw(self, width: int, height: int) -> Lines:
        self.clamp()
        lines = [join(Style.TITLE(" Sort by")), ()]
        for at, (word, title) in enumerate(self.listed):
            line = join(Style.KEY("▌" if at == self.at else " "), title or word)
            lines.append(numbered(at, restyle(line, Style.STRONG) if at == self.at else line))
        return lines

    def do_choose_sort(self) -> None:
        self.dismiss(self.listed[self.at][0])


class ScrollingScreen(SteppingScreen[ScreenResultType]):
    """Lines that are scrolled."""

    def do_step(self, lines: int) -> None:
        self.at = max(0, min(self.at + lines, len(self.listed)))


# A screen with one text that scrolls.


class TextScreen(ScrollingScreen[ScreenResultType]):
    """Subclasses give the text; this class scrolls it."""

    def text(self, width: int) -> Lines:
        """The whole text, wrapped to ``width`` cells."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Lines:
        whole = self.text(width)
        self.at = max(0, min(self.at, len(whole) - height))
        return whole[self.at :]

    @property
    def listed(self) -> Lines:
        return self.text(self.window_size[0])


# The help screen: the keys of one view from the table. Commands that are not available are dim and say why.

_TWO_COLUMNS = 76


LEGEND = {
    "Signs": {
        "✗ ! ·": "critical problem, warning, note", "✓ ‖": "no problems, paused", "≥ ≤": "at least, at most",
        "…": "left out: no room, or the same in each row", "~": "estimate", "—": "none, or under 20 samples",
        "?": "not visible to you", "· in a bar": "not watched yet", "(5 ↓)": "5 of the writes went back",
    },
    "Claims": {
        "alive": "its consumer is running", "DEAD": "its consumer has exited: r", "unknown": "not known from here",
    },
    "Tmp": {
        "WRITING": "locked, open or growing", "abandoned": "its writer has exited: d", "unknown": "not known from here",
    },
    "Consumers": {
        "running": "may claim", "DEAD": "has exited and holds claims: r", "exited": "has exited, holds nothing",
        "stopped": "halted by a signal or a debugger", "unknown": "not known from here",
    },
    "Cursors": {
        "advancing": "advances as usual", "not advancing": "idle, or stalled", "idle": "has nothing new",
        "REVERTED": "an old value overwrote it", "REWOUND": "set back once, on purpose?",
        "STALLED": "polls, and does not advance", "STOPPED": "no longer polls",
        "MISSING": "its section or file is gone", "UNREADABLE": "its file does not parse",
    },
    "Locks": {
        "held": "a process holds it", "BLOCKED": "held long, others wait", "STALE": "its holder has exited: d",
        "free": "no process holds it", "unknown": "not known from here",
    },
}  # fmt: skip
"""The meaning of the signs and of the verdicts."""


MOUSE = {"Mouse": {"Shift": "selects text: mouse on (off: --no-mouse, mouse = false)"}}
"""The help where the mouse is on."""


def draw_help(sections: Mapping[str, Sequence[HelpEntry]], width: int) -> Lines:
    """The help, in two columns where they fit. ``sections`` are entries that belong together,
    by their titles. Commands that are not available are dim and say why."""
    every = [text_width(entry.keys) for entries in sections.values() for entry in entries]
    keys = min(max(every, default=0), 18, max(8, width // 4))
    half = width // 2
    lines: Lines = []
    for title, entries in sections.items():
        lines += [BLANK] * bool(lines) + [join(Style.TITLE(f" {shown(title)}"))]
        waits = False  # an entry for one next to it
        for entry in entries:
            drawn = _entry(entry, keys, width)
            short = width >= _TWO_COLUMNS and len(drawn) == 1 and line_width(drawn[0]) < half
            if short and waits:
                lines[-1] = join(filled(lines[-1], half), *drawn)
            else:
                lines += drawn
            waits = short and not waits
    return lines


def fit(lines: Lines, height: int) -> Lines:
    """At most ``height`` lines, of which the last says how many more there are."""
    more = len(lines) - height
    return [*lines[: height - 1], dim(f" … {more + 1} more lines, PgDn")] if more > 0 else lines


def _entry(entry: HelpEntry, cells: int, width: int) -> Lines:
    """The keys of a command, as many as fit uncut, its help and why it is not available here. A reason may begin with the
    command's name, which is left out."""
    keys, words, reason = map(shown, (entry.keys, entry.words, entry.why_not))
    name, colon, rest = reason.partition(": ")
    if colon and words.startswith(name):
        reason = rest
    while text_width(keys) > cells and " " in keys:
        keys = keys.rpartition(" ")[0]
    style, of_keys = (Style.DIM, Style.DIM) if reason else (Style.NORMAL, Style.KEY)
    label = of_keys(f"   {pad(clip(keys, cells), cells)}  ")
    return labelled(label, width - 1, f"{words}; not now: {reason}" if reason else words, style)


class HelpScreen(TextScreen[None]):
    """``about`` gives the context of the screen that help was asked from, which changes while help is shown: lists are read."""

    VIEW = View.HELP
    FIXED_LINES = 2

    def __init__(self, session: AppSession, about: Callable[[], CommandContext]) -> None:
        super().__init__(session)
        self.about = about

    def take(self, found: object) -> None:
        """Says what is available now."""
        self.paint()

    def bottom_lines(self, width: int) -> Lines:
        return super().bottom_lines(width) if self.message else []

    def text(self, width: int) -> Lines:
        context = self.about()
        # a view that this kind of queue does not have needs no legend
        legend = {title: signs for title, signs in LEGEND.items() if title.lower() not in context.absent}
        signs = (MOUSE if self.session.options.mouse else {}) | legend
        meanings = {title: [HelpEntry(*sign) for sign in words.items()] for title, words in signs.items()}
        return draw_help(help_entries(context) | meanings, width)

    def draw(self, width: int, height: int) -> Lines:
        return fit(super().draw(width, height), height)

    def typed(self, event: Key) -> bool:
        if super().typed(event):
            return True
        if event.key in ("question_mark", "f1"):
            self.dismiss(None)
            return True
        return False


class Panel(LinesView):
    """``painted_at`` is the time (of the event clock) at which the present lines were painted for a window of this size, None
    before. Painting while it is not ``readable`` does not count."""

    class Painted(Message):
        """The lines were painted for the first time."""

    readable: Callable[[], bool] = staticmethod(lambda: True)
    _painted: tuple[float, Size] | None = None

    @property
    def painted_at(self) -> float | None:
        return self._painted[0] if self._painted is not None and self._painted[1] == self.app.size else None

    def renew(self) -> None:
        """Makes the next lines count as not painted yet, even where they are the same as now."""
        self._painted = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self.painted_at is None and self.readable():
            self._painted = Message().time, self.app.size
            self.post_message(self.Painted())
        return super().render_line(y)
