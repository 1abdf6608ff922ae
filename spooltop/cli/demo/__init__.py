"""``spooltop demo``: the dashboard on a live spool of its own.

``command`` runs the demo; ``demo_dir`` makes its directory and removes those that earlier demos left behind; ``process_group``
ends every process with the demo; ``scenario`` starts, kills and replaces the actors; ``pollers``, ``consumers``, ``writers`` and
``lockers`` are the actors, real processes that use the public engine; ``sample_messages`` are their messages; ``speed`` defines
when things happen.
"""
