"""Mutation sampling: small changes of meaning in the source, and whether a test notices each.

    python -m tests.mutate [--seed N] [--count N] [--measure] [PATH …]
    python -m tests.mutate --leave TEST … [--again FILE]

``mutations`` lists every change that could be made, ``reach`` knows which tests enter a function, ``equivalent.txt`` names the
changes that no test can notice, with the reason. One mutation is applied at a time, in a scratch copy of the tree; only the tests
that enter the changed function run, those that enter the fewest functions first, until one fails. A mutation that makes the tests
hang counts as noticed.

The table of which test enters which function is measured once (about ten minutes) and kept under ``~/.cache/spooltop``;
``--measure`` takes it again. Paths choose files or folders of ``spooltop/``; without one the sample comes from the engine, the
operators and the verdicts. The result is a line for each survivor, ``file:line  kind: before → after``, and the rate.

``--leave`` asks whether tests (a file, a folder, a test) can be deleted. The sample comes from the functions that they enter, or
from the output of an earlier run (``--again``). A mutation that one of them notices is tried with the tests that stay: noticed
again ("notices"), or "only by it".
"""
