"""``spooltop demo``: the dashboard on a living spool of its own.

``command`` runs it; ``place`` makes its directory and sweeps what others left; ``family`` lets every process die with it;
``stage`` starts, kills and replaces the actors; ``pollers``, ``consumers``, ``writers`` and ``lockers`` are the actors, real
processes on the public engine; ``pace`` says when what happens.
"""
