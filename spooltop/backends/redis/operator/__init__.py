"""Changes one group of a stream. The server does each step as a whole, and checks each message just before.

``scripts`` is what the server runs; ``changes`` are the changes of one message each, with their inverses; ``rows`` finds the
messages of a selection; ``planning`` and ``undo`` pin what is to be changed; ``record`` is the journal of batches; ``sender``
sends them, and finds out what was done where an answer was lost.
"""
