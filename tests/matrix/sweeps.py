"""Sweeps over a scene: the act is cut off, or fails, at each of its calls; a census and the next act tell what came of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from spooltop.model.plan import Selection
from spooltop.model.vocabulary import ASIDE, Action
from tests.builders import LayoutWorld, SpoolWorld

from .cuts import HITS, Mode, Site, calls_of, cut, fail, interposed
from .scenes import Scene, Stage
from .works import Work

__all__ = ["sweep_cuts", "sweep_errors", "sweep_work"]


def sweep_cuts(scene: Scene, mode: Mode, folder: Path, repair: str, *, new: bool = False) -> int:
    """Cuts the act off at each of its calls, or at the ``new`` ones of sites that no sweep has reached: each file is at one
    place, and ``repair``, "rerun" or "undo", finishes. Returns the number of cuts."""
    sites, final = _whole(scene, mode, folder)
    places = list(_chosen(sites, scene.each, HITS["cut"] if new and not mode.error else ()))
    for at in places:
        stage = scene.prepare(folder / str(at))
        with stage.world:
            before, everything, known = stage.world.census(), scene.view(stage, exact=True), _operations(stage)
            case = (scene.name, str(mode), repair, at, sites[at - 1])
            assert cut(partial(scene.act, stage), mode, at) or mode.error, case
            scene.check_one_place(stage, before)
            with interposed(mode._replace(seen=frozenset()), lambda number, name, do: do()):  # in the same file system
                if repair == "undo":
                    _undo(scene, stage, known)
                    assert scene.view(stage, exact=True) == everything, (case, scene.view(stage, exact=True), everything)
                else:
                    _finish(scene, stage, known, final, case)
            scene.check_one_place(stage, before)
            _check_order(stage, case, emptied=scene.deletes)
    return len(places)


def sweep_errors(scene: Scene, mode: Mode, folder: Path, *, new: bool = False) -> int:
    """Fails each call of the act: each file is at one place, the error is told in a line, and the next act finishes. Returns the
    number of errors."""
    sites, final = _whole(scene, mode, folder)
    places = list(_chosen(sites, scene.each, HITS["failed"] if new and not mode.lasting else ()))
    for at in places:
        stage = scene.prepare(folder / str(at))
        with stage.world:
            before, known = stage.world.census(), _operations(stage)
            case = (scene.name, str(mode), at, sites[at - 1])
            told, reached = fail(partial(scene.act, stage), mode, at)
            assert reached, case
            scene.check_one_place(stage, before)
            assert all(words and "\n" not in words for words in told), (case, told)
            assert told or scene.view(stage) == final, (case, scene.view(stage), final)
            if scene.action is not Action.UNLOCK:  # a lock that cannot be removed names this process, which lives, till it ends
                _finish(scene, stage, known, final, case)
            _check_order(stage, case)
    return len(places)


def sweep_work(work: Work, mode: Mode, folder: Path, *, is_cut: bool, new: bool = False) -> int:
    """Cuts the work off at each of its calls, or fails them: what can be counted on then is between what was and what is to be,
    and the same again finishes. Returns the number of calls."""
    with work.build(folder / "before") as world:
        before = work.view(world)
    with work.build(folder / "whole") as world:
        sites = calls_of(lambda: work.act(world), mode)
        final = work.view(world)
    is_known = new and not mode.lasting and not (is_cut and mode.error)  # else errors lead to calls that are not known yet
    places = list(_chosen(sites, None, HITS["cut" if is_cut else "failed"] if is_known else ()))
    for at in places:
        with work.build(folder / str(at)) as world:
            case, told, act = (str(mode), at, sites[at - 1]), ["it was cut off"], partial(work.act, world)
            if is_cut:
                assert cut(act, mode, at) or mode.error or mode.short, case
            else:
                told, _ = fail(act, mode, at)
                assert all(words and "\n" not in words for words in told), (case, told)
            if work.between or not work.again or not (told or work.is_silent):
                now = work.view(world)
                assert told or work.is_silent or now == final, (case, now, final)
                if work.between:
                    _check_between(case, before, now, final)
            if work.again:
                work.act(world)
                assert work.view(world) == final, (case, work.view(world), final)
    return len(places)


def _check_between(case: object, before: Counter[str], now: Counter[str], final: Counter[str]) -> None:
    for name in before.keys() | now.keys() | final.keys():
        assert min(before[name], final[name]) <= now[name] <= max(before[name], final[name]), (case, before, now, final)
    counts = sorted((before.total(), final.total()))
    assert counts[0] <= now.total() <= counts[1], (case, before, now, final)


def _whole(scene: Scene, mode: Mode, folder: Path) -> tuple[list[tuple[Site, ...]], object]:
    """Runs the act whole: the sites of its calls, and how the queue is then."""
    stage = scene.prepare(folder / "whole")
    with stage.world:
        before = scene.view(stage, exact=True)
        sites = calls_of(lambda: scene.act(stage), mode)
        assert scene.adds or scene.view(stage, exact=True) != before, scene.name
        return sites, scene.view(stage)


def _chosen(sites: Sequence[tuple[Site, ...]], each: int | None, known: Set[Site] | tuple[()]) -> Iterator[int]:
    """Yields the numbers of the calls, those of a site only ``each`` times, and the last one of each site; only those of sites
    that are not ``known`` if any are."""
    counts, last = Counter[tuple[Site, ...]](), {site: number for number, site in enumerate(sites, 1)}
    for number, site in enumerate(sites, 1):
        counts[site] += 1
        if known and set(site) <= known:
            continue
        if each is None or counts[site] <= each or last[site] == number:
            yield number


def _operations(stage: Stage) -> Mapping[str, bool]:
    """Returns the operations that are listed, newest first, and if each can be undone."""
    with stage.world.control() as control:
        return {record.operation: record.why_not_undo is None for record in control.operations()}


def _undo(scene: Scene, stage: Stage, known: Mapping[str, bool]) -> None:
    """Undoes what was begun since ``known``."""
    for operation, can_be_undone in _operations(stage).items():
        if operation not in known and can_be_undone:
            stage.world.undo(operation, force=scene.force)


def _finish(scene: Scene, stage: Stage, known: Mapping[str, bool], final: object, case: object) -> None:
    """Finishes by doing it again. What is locked since the cut is first set free by undo, in a queue with locks of its own."""
    told: list[str] = []
    for is_last in (False, True):
        if scene.view(stage) != final:
            told = scene.act(stage)
        if scene.view(stage) != final and isinstance(stage.world, LayoutWorld) and not is_last:
            _undo(scene, stage, known)
    assert scene.view(stage) == final, (case, told, scene.view(stage), final)


def _check_order(stage: Stage, case: object, *, emptied: bool = False) -> None:
    """Any change puts in order what a crash has left: no message has two names, and no metadata are without their message."""
    world = stage.world
    if not isinstance(world, SpoolWorld):
        return
    world.put("another")
    world.do(Action.HOLD, Selection(ids=("another",)))
    assert not [place for places in world.census().values() for place in places if " = " in place], (case, world.census())
    for box in ASIDE:
        above = world.path / ".spooltop" / box
        for folder in above.glob("[!.]*"):
            names = set(os.listdir(folder))
            metadata = {f".{name}.meta" for name in names if not name.startswith(".")}
            assert metadata <= names or (above / f".{folder.name}.meta").read_bytes().endswith(b"}\n"), (case, names)
        for path in above.glob(".*.meta"):
            assert (above / path.name[1:-5]).is_dir(), (case, path)
    assert not emptied or not list((world.path / ".spooltop/trash").rglob(".*.meta")), case
