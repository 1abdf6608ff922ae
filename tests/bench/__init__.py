"""Measurements, each against a floor taken in the same run. Run one: ``python -m tests.bench.idle``. No test asserts a time."""
