"""The tests, by what they guard.

- ``engine``           the queue itself: put, claim, ack, cursors, tickets, presence locks; what importing it loads
- ``model``            filters, text that is safe to show, units, rows, cursor input
- ``backends``         what a path is, which targets words name, and the hint for what is no spool
- ``backends/read``    looking at a directory: scans, listings, events, liveness of holders, locks, cursor files, Redis tickets
- ``backends/operate`` changing it: requeue, purge, hold, release, restore, undo, repair, cursors, locks, formats of journals
- ``backends/streams``  streams of a Redis or Valkey server: addresses, what only its queue does, the operator
- ``backends/layouts``  other programs' queues: layout files, real queues sorted into boxes, operations on them
- ``observe``          rates, verdicts on cursors, problems worst first, mutes, kept views
- ``operate``          plan, confirm, apply, audit, whatever the kind of queue
- ``control``          the application's API as front ends use it, settings, lost updates, what one look can tell
- ``monitor``          what a monitoring system reads: plugin output and ranges, metrics, events; doctor and bench
- ``cli``              commands beyond the record: questions, signals, races, terminals, the worker, the start
- ``tui``              the dashboard in memory, by keys and clicks; ``tui/driving`` alone knows what it is made of
- ``behaviour``        the record of what commands do and print in worlds made for it, and of the screens
- ``snapshots``        the words of every screen, and pictures compared with ``screenshots/``
- ``contract``         what a queue promises, on a directory and on a stream
- ``matrix``           each action cut off at each changing call, each error: nothing is lost, nothing doubled
- ``e2e``              the programs as a user runs them, on a pty: the contract, the README, the demo, faults
- ``programs``         the real programs: queues that they made, stored; made anew and worked on beside spooltop in ``.ci/full``
- ``reliability``      proofs: killed at every call, power cuts, full disks, storms; the quick parts run here
- ``bench``            measurements beside a floor taken in the same run; a test guards their table
- ``machines``         state machines of plan, apply and undo on each source: races, cuts and forged lines in any order
- ``mutate``           samples mutations of the code and runs the tests that reach them; says which tests can be deleted
- ``figures``          lines of the tests, and the inner modules that they import
- ``test_structure``   no import cycles, no two public classes of one name, docstrings that open well, this map
- ``test_selection``   the tests that a run takes, and their order
- ``test_waiting``     calls that may never return, and an event beside descriptors
- ``stream_builders``  a group of a stream, and what happens to it; ``stream_servers`` runs Redis and Valkey
- ``clock``            one moment and a clock that stands at it
- ``scratch``          a place in memory for what is thrown away,
- ``needs``            what a test needs beside Python: root, programs; what was missing is counted at the end of a run
- ``keys``             the tables of keys of the README and of ``keys.md``

A plain run leaves out the tests marked long and programs. ``.ci/run`` runs the long ones after the others, ``.ci/full`` those
with other programs; ``--all``, ``-m`` and naming one run them too. Where ``.ci/run`` runs as an ordinary user, it runs those
marked root once more as root.
"""
