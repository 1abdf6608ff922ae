"""Applies all rules: problems, worst first."""

from __future__ import annotations

from ..model.problem import Problem, Severity
from .host_problems import host_problems
from .message_problems import message_problems
from .rule_input import RuleInput
from .state_problems import state_problems

__all__ = ["problems"]

_WEIGHT = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def problems(seen: RuleInput) -> tuple[Problem, ...]:
    """Returns problems in the order of the codes; within a code critical ones first, then in the order of the rules, so that
    lines keep their place."""
    found = [*host_problems(seen), *message_problems(seen), *state_problems(seen)]
    return tuple(sorted(found, key=lambda problem: (problem.rank, _WEIGHT[problem.severity])))
