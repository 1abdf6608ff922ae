"""``python -m tests.mutate``: a sample of mutations, each tried in a scratch copy; prints the survivors and the rate."""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tests.mutate as package

from .by_record import PREFIX, Record, measured_worlds
from .mutations import Mutation, mutations
from .reach import REPOSITORY, Reach
from .trial import Job, Outcome

FIRST = ("spooltop",)
"""Folders that a sample comes from without a path."""
MEASURED = (
    "tests/engine", "tests/backends", "tests/operate", "tests/observe", "tests/model", "tests/control", "tests/cli",
    "tests/contract", "tests/monitor", "tests/tui", "tests/snapshots", "tests/test_waiting.py", "tests/test_structure.py",
)  # fmt: skip
"""The tests that a mutation is tried with."""
COPIED = ("spooltop", "tests", "screenshots", "pyproject.toml", "README.md", ".ci")
TABLE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "spooltop" / "reach.json"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
SWEEPS = ("matrix/test_*.py",)
"""Sweeps that take minutes. A mutation that only they notice deserves a smaller test."""
PYTEST = ("-m", "pytest", "-q", "--all", "--no-header", "--tb=no", *(f"--ignore-glob=*/{name}" for name in SWEEPS))
PASSED, FAILED = 0, 1
PRINTED = ("survived", "no test", "notices", "only by it")
"""How the lines begin that name a mutation."""
BATCH = 20
"""Mutations that one pytest tries."""
LOAD = 120
"""Seconds in which pytest starts, at the slowest."""


@dataclass(frozen=True)
class Tried:
    """``how`` it came out: "noticed", "hangs" (noticed as well), "survived", "no test"; ``ran`` of ``reaching`` tests were to
    run."""

    mutation: Mutation
    how: str
    ran: int
    reaching: int
    test: str = ""

    @property
    def is_noticed(self) -> bool:
        return self.how in ("noticed", "hangs")

    def __str__(self) -> str:
        return f"{self.mutation}  [{self.ran} of {self.reaching} tests] {self.test}".rstrip()


def is_of(test: str, name: str) -> bool:
    """True if ``name`` is the test (with or without its parameters), its file or its folder."""
    return test == name or test.startswith((f"{name}::", f"{name}[", f"{name}/"))


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}


def measured(tests: Sequence[str]) -> Reach:
    """Runs the tests once, one after the other: which function each enters."""
    with tempfile.TemporaryDirectory(prefix="spooltop-mutate-") as scratch:
        to = Path(scratch) / "reach.json"
        command = [sys.executable, *PYTEST, "-p", "tests.mutate.reach", *tests]
        given = {**environment(REPOSITORY), "SPOOLTOP_REACH": str(to)}
        ran = subprocess.run(command, cwd=REPOSITORY, env=given, check=False, stdout=sys.stderr)
        if ran.returncode not in (PASSED, FAILED):
            raise SystemExit(f"mutate: the tests cannot be run: pytest ended with {ran.returncode}")
        return Reach.load(to)


def by_record(tried: Tried, worlds: Reach, record: Record, budget: float) -> Tried:
    """Tries one that survived with the record of behaviour, the worlds that enter its function."""
    mutation = tried.mutation
    entering, reaching = worlds.tests(mutation.path, mutation.function, budget)
    shown = record.shown_by(entering, mutation)
    how = "noticed" if shown else tried.how
    return Tried(mutation, how, tried.ran + len(entering), tried.reaching + reaching, shown)


def copied(to: Path) -> Path:
    """A copy of the tree whose compiled files are valid by content, not by time: mutations come and go within a second."""
    for name in COPIED:
        if (source := REPOSITORY / name).is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        elif source.exists():
            shutil.copy2(source, to / name)
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "spooltop"]
    subprocess.run(command, cwd=to, check=True)
    return to


def known_equivalent(path: Path) -> dict[str, str]:
    """``file  kind: before → after`` → why no test can notice it."""
    found = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            what, _, why = line.partition("  # ")
            found[what.strip()] = why.strip()
    return found


def named(mutation: Mutation) -> str:
    """Returns the name of a mutation in ``equivalent.txt``: without the line, which moves."""
    return str(mutation).replace(f"{mutation.path}:{mutation.line}", mutation.path, 1)


def sources(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for path in paths:
        at = REPOSITORY / path
        if not at.exists():
            raise SystemExit(f"mutate: {path} is not in {REPOSITORY}")
        files = sorted(at.rglob("*.py")) if at.is_dir() else [at]
        found += [(str(file.relative_to(REPOSITORY)), file.read_bytes()) for file in files]
    return found


def printed(text: str) -> list[Mutation]:
    """The mutations that stand in the output of a run, as far as the source has them still."""
    lines = [line for line in text.splitlines() if line.startswith(PRINTED)]
    descriptions = [line.partition(": ")[2].rpartition("  [")[0] for line in lines]
    places = [place for line in descriptions if (place := re.match(r"([^:]+):([0-9]+)(  .*)", line)) is not None]
    possible: dict[str, list[Mutation]] = {}
    for path, source in sources(sorted({place[1] for place in places})):
        for one in mutations(path, source):
            possible.setdefault(named(one), []).append(one)
    found = [(int(place[2]), possible.get(f"{place[1]}{place[3]}", [])) for place in places]
    nearest = [min(same, key=lambda one: abs(one.line - line)) for line, same in found if same]  # the source may have moved
    return list(dict.fromkeys(nearest))


def parses(mutation: Mutation) -> bool:
    try:
        ast.parse(mutation.applied((REPOSITORY / mutation.path).read_bytes()))
    except SyntaxError:
        return False
    return True


def sampled(
    paths: Sequence[str], count: int, seed: int, is_wanted: Callable[[Mutation], bool] = lambda _: True
) -> list[Mutation]:
    """So many at random, at most one on a line."""
    possible = [one for path, source in sources(paths) for one in mutations(path, source) if is_wanted(one)]
    random.Random(seed).shuffle(possible)
    chosen: dict[tuple[str, int], Mutation] = {}
    for one in possible:
        if len(chosen) == count:
            break
        if (one.path, one.line) not in chosen and parses(one):
            chosen[one.path, one.line] = one
    return list(chosen.values())


def planned(mutation: Mutation, reach: Reach, budget: float) -> tuple[Job, int]:
    """The job, and how many tests enter the function."""
    tests, reaching = reach.tests(mutation.path, mutation.function, budget)
    limit = 60 + 5 * sum(reach.seconds[test] for test in tests)
    return Job(mutation, tests, limit, loaded=not mutation.function), reaching


def outcomes(jobs: Sequence[Job], tree: Path) -> list[Outcome]:
    """Runs the jobs in one pytest and returns their outcomes; "broken" for those that it did not reach."""
    with tempfile.TemporaryDirectory(prefix="spooltop-mutate-") as scratch:
        asked, reported = Path(scratch) / "jobs", Path(scratch) / "outcomes"
        asked.write_text(json.dumps([asdict(job) for job in jobs]))
        reported.touch()
        files = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
        extra = {"SPOOLTOP_JOBS": str(asked), "SPOOLTOP_OUTCOMES": str(reported), "TMPDIR": scratch}
        command = [sys.executable, *PYTEST, "-p", "tests.mutate.trial", *files]
        log = tree / "pytest.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command, cwd=tree, env={**environment(tree), **extra}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            try:
                process.wait(LOAD + sum(job.limit for job in jobs))
            finally:
                process.kill()
                process.wait()
        found = [Outcome(**json.loads(line)) for line in reported.read_text().splitlines()]
    return found + [Outcome("broken", log.read_text()[-300:])] * (len(jobs) - len(found))


def run(chosen: Sequence[Mutation], reach: Reach, *, budget: float, tree: Path) -> Iterator[Tried]:
    """Tries them, those at import last."""
    plans = [planned(one, reach, budget) for one in chosen]

    def tried(job: Job, reaching: int, outcome: Outcome) -> Tried:
        return Tried(job.mutation, outcome.how, len(job.tests), reaching, outcome.test)

    for job, reaching in plans:
        if not job.tests:
            yield tried(job, reaching, Outcome("no test"))
    forked = [(job, reaching) for job, reaching in plans if job.tests and not job.loaded]
    for start in range(0, len(forked), BATCH):
        batch = forked[start : start + BATCH]
        for (job, reaching), outcome in zip(batch, outcomes([job for job, _ in batch], tree), strict=True):
            yield tried(job, reaching, outcome)
    for job, reaching in ((job, reaching) for job, reaching in plans if job.tests and job.loaded):
        at = tree / job.mutation.path
        source = at.read_bytes()
        at.write_bytes(job.mutation.applied(source))
        try:
            outcome = outcomes([job], tree)[0]
        finally:
            at.write_bytes(source)
        # A file that no longer loads is noticed by everybody.
        yield tried(job, reaching, Outcome("noticed") if outcome.how == "broken" else outcome)


def printed_outcomes(chosen: Sequence[Mutation], reach: Reach, *, budget: float, tree: Path) -> list[Tried]:
    """Tries them, and prints how each came out, and by which test, as soon as it is known."""
    found = []
    record = Record(tree, environment(tree))
    worlds = reach.only(lambda test: test.startswith(PREFIX))
    tests = reach.only(lambda test: not test.startswith(PREFIX))
    for one in run(chosen, tests, budget=budget, tree=tree):
        if not one.is_noticed:
            one = by_record(one, worlds, record, budget)
        found.append(one)
        print(f"{one.how}: {one}", flush=True)
    return found


def print_leaving(leaving: Sequence[str], chosen: Sequence[Mutation], reach: Reach, *, budget: float, tree: Path) -> bool:
    """Prints, for each file of tests that is to leave, the mutations that it notices: by which of the tests that stay they are
    noticed as well, or "only by it". Returns True if nothing is noticed by leaving files alone."""
    stays = reach.only(lambda test: not any(is_of(test, file) for file in leaving))
    noticed = {}
    for file in leaving:
        its = reach.only(lambda test, file=file: is_of(test, file))  # type: ignore[misc]
        entered = [one for one in chosen if its.enters(one.path, one.function)]
        noticed[file] = (entered, [one for one in run(entered, its, budget=budget, tree=tree) if one.is_noticed])
    asked = list(dict.fromkeys(one.mutation for _, ones in noticed.values() for one in ones))
    others = {one.mutation: one for one in run(asked, stays, budget=budget, tree=tree)}
    alone = 0
    for file, (entered, ones) in noticed.items():
        lost = [one for one in ones if not others[one.mutation].is_noticed]
        alone += len(lost)
        print(f"{file}: notices {len(ones)} of {len(entered)} that it enters, {len(lost)} only by it")
        for one in sorted(ones, key=lambda one: one in lost):
            print(f"{'only by it' if one in lost else 'notices'}: {others[one.mutation]}; it: {one.test}", flush=True)
    return not alone


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutate", description=package.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders of spooltop/")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the sample (1)")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="mutations to try (100)")
    parser.add_argument("--budget", type=float, default=40, metavar="SECONDS", help="tests of a mutation, as measured (40)")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="exit 1 below this rate")
    parser.add_argument("--measure", action="store_true", help="measure anew which test enters which function")
    parser.add_argument("--add", action="append", default=[], metavar="TEST", help="measure this file of tests and add it")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try those that a run printed to FILE, in place of a sample")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE", help="where that is kept")
    parser.add_argument("--list", action="store_true", help="print the sample and try nothing")
    parser.add_argument(
        "--leave", nargs="+", default=[], metavar="TEST",
        help="files, folders or names of tests that are to leave: print what they notice, and what nobody else does",
    )  # fmt: skip
    args = parser.parse_args()
    is_new = args.measure or not (args.list or args.table.exists())
    reach = measured(MEASURED) if is_new else Reach.load(args.table) if args.table.exists() else Reach()
    if is_new:
        reach.add(measured_worlds(environment(REPOSITORY)))
    if args.add:
        reach.add(measured(args.add))
    if args.add or is_new:
        reach.store(args.table)
    reach = reach.only(lambda test: test.startswith(PREFIX) or (REPOSITORY / test.partition("::")[0]).exists())
    leaving = reach.only(lambda test: any(is_of(test, name) for name in args.leave))
    if args.again:
        chosen = printed(args.again.read_text())
    else:
        entered = {key.partition(":")[0] for key in leaving.functions}
        paths = args.paths or [path for path in sorted(entered) if (REPOSITORY / path).exists()] or FIRST
        chosen = sampled(paths, args.count, args.seed, lambda one: not args.leave or leaving.enters(one.path, one.function))
    known = known_equivalent(EQUIVALENT)
    equal = [one for one in chosen if named(one) in known]
    chosen = [one for one in chosen if named(one) not in known]
    if args.list:
        print("\n".join(map(str, chosen)))
        return 0
    with tempfile.TemporaryDirectory(prefix="spooltop-mutate-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        os.chmod(folder, 0o755)  # parts of the record run as another user
        tree = copied(Path(folder))
        if args.leave:
            return 0 if print_leaving(args.leave, chosen, reach, budget=args.budget, tree=tree) else 1
        found = printed_outcomes(chosen, reach, budget=args.budget, tree=tree)
    noticed = sum(one.is_noticed for one in found)
    hanging = sum(one.how == "hangs" for one in found)
    rate = 100 * noticed / len(found) if found else 100.0
    print(f"{noticed} of {len(found)} noticed ({rate:.0f} %), {hanging} of them by hanging; {len(equal)} more are equivalent")
    return 1 if rate < args.least else 0


if __name__ == "__main__":
    sys.exit(main())
