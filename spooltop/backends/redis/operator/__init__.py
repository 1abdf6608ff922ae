"""Changes one group of a stream. The server does each step as a whole, and checks each message just before.

``scripts`` is what the server runs; ``changes`` are the changes of one message each, with their inverses, and the journal of
batches; ``rows`` finds the messages of a selection; ``planning`` pins what is to be changed; ``connection`` sends the batches,
and finds out what was done where an answer was lost; ``operator`` performs plans and undoes them.
"""
