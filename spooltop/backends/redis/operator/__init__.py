"""Changes one group of a stream. The server does each step as a whole, and checks each message just before.

``scripts`` is what the server runs; ``changes`` are the changes of one message each, with their inverses, the journal of batches,
and the connection that sends these and finds out what was done where an answer was lost; ``planning`` finds the messages of a
selection and pins what is to be changed; ``operator`` performs plans and undoes them.
"""
