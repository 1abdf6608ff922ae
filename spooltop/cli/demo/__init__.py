"""``spooltop demo``: the dashboard on a live spool of its own.

``command`` runs the demo; ``scenario`` makes its directory and removes those that earlier demos left behind, has the actors, real
processes that use the public engine and end with the demo, their messages and when things happen, and starts, kills and replaces
them; ``stream_scenario`` does so on a stream.
"""
