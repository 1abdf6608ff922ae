"""spooltop: watch a spool directory live, see what is stuck and why, and put it back safely.

The house, floor by floor. Imports run down only (``import-linter`` holds it in CI):

- ``errors``    what the user must hear of
- ``model``     floor 0: the words, frozen and pure
- ``engine``    floor 1: the spool itself: put, claim, ack, cursors, tickets; usable without anything above it
- ``backends``  floor 2: a kind of spool: how it is read, watched and changed
- ``observe``   floor 2: when to look, rates, histories, verdicts on cursors, problems worst first
- ``operate``   floor 2: plan, confirm grammar, apply in batches, result, audit, undo
- ``wiring``    floor 3: what stands behind the door of each kind of target
- ``control``   floor 3: the one door: open, look, listing, read, plan, apply, undo
- ``cli``       floor 4: arguments in, text and JSON out
- ``tui``       floor 4: the Textual dashboard; touches no file, no process, no clock of its own
"""

__version__ = "0.1.0"
