"""Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Refused
from spooltop.model.plan import Candidates, Item, Refusal
from spooltop.model.progress import Progress
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.records import replace

from ..storage.folders import Folders
from ..storage.location import Place, safe_name
from .decision import Decider, Remark
from .packed_items import PackedItems
from .pinning import inodes_in_new, pin
from .plan_notes import Tally, notes_of
from .rules import RULES
from .selected_rows import Rows, SelectedRows

__all__ = ["find_candidates"]


def find_candidates(
    dirs: SpoolDirs,
    rows: Rows,
    action: Action,
    selection: Selection,
    *,
    force: bool,
    now: float,
    options: Mapping[str, Json],
    half_moved: frozenset[int],
    progress: Progress,
) -> Candidates:
    """Pins the messages of ``selection``. ``half_moved`` are inodes that may have a second name, which the first change takes
    away.

    Raises ``Refused`` for a box that ``action`` does not apply to, ``UsageError`` for a filter that makes no sense,
    ``Unreadable`` where nothing was found and a box could not be read, ``Stopped``.
    """
    rule = RULES[action]
    if selection.box is not None and selection.box not in rule.sources:
        advice = f"choose {', '.join(sorted(rule.sources))}"
        raise Refused(f"{action} is not possible for messages in {selection.box}", path=dirs.path, advice=advice)
    if selection.empty:
        return Candidates(())
    selected = SelectedRows(dirs, rows, selection, rule.sources, now=now, progress=progress)
    to_new = action is Action.RESTORE or rule.target is Box.NEW
    in_new = inodes_in_new(dirs, selected.ids(), progress) if to_new else {}
    by_now = bool(options.get("now"))
    decider = Decider(action, by_now, bool(options.get("hold_poison")), in_new, half_moved)
    folders = Folders(dirs)
    items = PackedItems()
    refused: list[Refusal] = []
    remarks: Counter[Remark] = Counter()
    disk_bytes = 0
    for row, metadata in selected:
        if not safe_name(row.name):
            refused.append(Refusal(row, "its name leads out of the box"))
            continue
        try:
            pinned = pin(folders, _place(row))
        except FileNotFoundError:
            continue  # gone since it was listed
        except OSError as error:
            refused.append(Refusal(row, f"cannot be accessed: {error.strerror}"))
            continue
        name = names.parse(row.name, claimed=row.box not in (Box.NEW, Box.TMP))
        decision = decider.decide(row, name, metadata, pinned.found, shares_its_id=selected.shares_its_id(row))
        if row.size is None:
            row = replace(row, size=pinned.found.st_size)
        if decision.blocked_by and not (decision.forceable and force):
            refused.append(Refusal(row, decision.blocked_by, decision.forceable))
            continue
        box, target_name = decision.destination[:2]
        target = None if box is None or target_name is None else Place(box, target_name)
        ref = pinned.ref(
            name.token if row.box is Box.CUR else None, target, decision.destination.meta, box if target is None else None
        )
        items.append(Item(row, ref, decision.warning))
        if decision.remarks:
            remarks.update(decision.remarks)
        disk_bytes += pinned.found.st_blocks * 512
    deletes = rule.target is None or by_now
    notes = notes_of(Tally(action, selection.box, deletes, len(items), disk_bytes, selected.without_age, remarks))
    notes += tuple(f"{error.what}: its messages are not in this plan." for error in selected.unread)
    return Candidates(items.as_list(), refused, notes, selected.missing, remarks[Remark.POISON])


def _place(row: Row) -> Place:
    folder = str(row.key[1]).rpartition("/")[0] if isinstance(row.key, tuple) else ""
    return Place(row.box, row.name, folder)
