"""spooltop: watch a spool directory live, see what is stuck and why, and requeue it safely.

The packages, from the lowest layer to the highest. Imports go down only (``import-linter`` holds it in CI):

- ``errors`` exceptions that the user must see; ``stop_event`` an event for threads that wait on descriptors
- ``model`` values, frozen and pure
- ``engine`` the queue itself: put, claim, ack, cursors, tickets; usable without the layers above it
- ``backends`` kinds of spools: how they are read, watched and changed
- ``observe`` rates, histories, problems worst first
- ``operate`` plan, confirm, apply in batches, result, audit, undo
- ``cursors``, ``locks`` each a feature beside messages, whole: what one is, how it is read, watched, judged, changed, drawn and
  printed; without its line in ``features`` the program works without it
- ``settings`` what the user has set: environment, configuration files
- ``layouts`` which files describe other programs' queues, and what one makes of a directory
- ``targets`` what the words of a user name
- ``queues`` a queue to put and to work, whatever its kind: ``spooltop.open_queue``
- ``control`` the application's API: open, look, listing, read, plan, apply, undo
- ``startup`` a process apart where a file system may hang
- ``monitor`` what is watched for a monitoring system: events, and many spools at once
- ``cli`` the command line: arguments in, text and JSON out
- ``tui`` the Textual dashboard; accesses no file, process or clock itself

How one message travels, from the key ``r`` to rename(2), and back into the list of operations:

1. ``tui/commands.py`` binds the key; ``tui/screens/plan.py`` shows the plan and takes the confirmation
2. ``control.py`` asks the operator of this kind of queue for the plan, and has it applied
3. ``operate/operations.py`` says what has to be typed; applies the plan, keeps the results
4. ``backends/directory/rescan.py`` looks at the boxes anew, and judges the holders
5. ``backends/directory/operator/planning.py`` pins each message that may go, and says why the others may not
6. ``backends/journal.py`` takes the plan step by step: intent, change, result, for every kind of queue; writes the two lines,
   and reads them back, for undo and for ``ops``
7. ``backends/log_store.py`` appends them to a file of its own, and begins a new one where it is large
8. ``backends/directory/operator/moving.py`` sorts the messages of a step into runs from one folder into one, tests the holder
   and the file of each again, and renames it
9. ``backends/directory/operator/operator.py`` ties these together, and pins the way back
"""

TYPE_CHECKING = False  # typing takes 5 ms to load
if TYPE_CHECKING:
    from .queues import open_queue

__all__ = ["__version__", "open_queue"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name != "open_queue":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .queues import open_queue

    return open_queue
