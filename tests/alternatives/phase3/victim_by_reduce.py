"""Victim by reduce."""

from functools import reduce


def choose_victim(running, policy):
    """Return the running request that gives way: the last one (`fcfs`), or the least urgent (`priority`).

    Least urgent is the largest (priority, arrival time); of several, the first in running order.
    """

    def worse(a, b):
        return b if (b.priority, b.arrival_time) > (a.priority, a.arrival_time) else a

    return reduce(worse, running) if policy == "priority" else running[-1]
