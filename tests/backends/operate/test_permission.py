from __future__ import annotations

import os
import tempfile
from pathlib import Path

from spooltop.model.capabilities import Capabilities
from spooltop.model.vocabulary import Action
from tests.needs import needs

NOBODY = 65534


def as_nobody(ask) -> str:
    """Returns the answer of ``ask`` in a child that has given up being root."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "the child failed"
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            said = ask()
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@needs("root")
def test_who_may_not_write_is_told_whose_it_is_and_what_helps(desk):
    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        os.chmod(open_to_all, 0o755)
        desk.path = Path(open_to_all)
        for box in ("tmp", "new", "cur"):
            (desk.path / box).mkdir()
        operator = desk.operator()

        def why(action):
            return as_nobody(lambda: operator.capabilities().why_not(action) or "")

        for action in (Action.REQUEUE, Action.PURGE, Action.INJECT, Action.UNDO):
            assert why(action) == f"you are nobody, new belongs to root 0755. Try: sudo -u root spooltop {open_to_all}"
        os.chown(desk.path / "new", 424242, -1)
        assert why(Action.PURGE).endswith(f"belongs to 424242 0755. Try: sudo -u '#424242' spooltop {open_to_all}")
        for box in ("tmp", "new", "cur"):
            os.chmod(desk.path / box, 0o777)
        assert ".spooltop, which holds the journal, cannot be made" in why(Action.REQUEUE)
        (desk.path / ".spooltop").mkdir()
        os.chmod(desk.path / ".spooltop", 0o777)
        assert why(Action.REQUEUE) == ""
        os.chmod(desk.path / "tmp", 0o755)
        assert why(Action.REQUEUE) == ""
        assert "tmp belongs to root" in why(Action.INJECT)


def test_what_this_version_does_not_have_says_so(desk):
    capabilities = desk.operator().capabilities()
    assert [action for action in Action if capabilities.why_not(action) is not None] == [Action.SET_CURSOR]
    assert capabilities.change
    assert not Capabilities.nothing("no").change


def test_a_missing_box_or_a_planted_file_is_named(desk):
    (desk.path / "cur").rmdir()
    assert desk.operator().capabilities().why_not(Action.REQUEUE) == "cur is missing"
    (desk.path / ".spooltop").write_text("planted")
    assert ".spooltop is not a directory" in desk.operator().capabilities().why_not(Action.INJECT)
