"""spooltop: watch a spool directory live, see what is stuck and why, and requeue it safely.

The packages, from the lowest layer to the highest. Imports go down only (``import-linter`` holds it in CI):

- ``errors`` exceptions that the user must see; ``records`` dataclasses that are made quickly;
  ``patterns`` regular expressions that are compiled when they are used; ``stop_event`` an event for threads that wait on
  descriptors
- ``model`` values, frozen and pure
- ``engine`` the queue itself: put, claim, ack, cursors, tickets; usable without the layers above it
- ``backends`` kinds of spools: how they are read, watched and changed
- ``observe`` rates, histories, verdicts on cursors, problems worst first
- ``operate`` plan, confirm, apply in batches, result, audit, undo
- ``settings`` what the user has set: environment, configuration files
- ``layouts`` which files describe other programs' queues, and what one makes of a directory
- ``wiring`` the operators and readers for each kind of target
- ``control`` the application's API: open, look, listing, read, plan, apply, undo
- ``startup`` the first picture within 50 ms, and a process apart where a file system may hang
- ``monitor`` what a monitoring system reads: check, metrics, events; doctor and bench
- ``cli`` the command line: arguments in, text and JSON out
- ``tui`` the Textual dashboard; accesses no file, process or clock itself
"""

__version__ = "0.1.0"
