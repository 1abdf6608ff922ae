"""Changes queues of other programs by the steps of their layouts.

``changes`` are the steps of one message, filled in, each with its inverse; ``planning`` makes them; ``performer`` makes them
happen, each checked just before; ``stages`` tells from the files how far a message got, so that ``undo`` reverses and ``finish``
completes what was cut off.
"""
