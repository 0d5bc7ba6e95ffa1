"""Victim by a loop."""


def choose_victim(running, policy):
    """Return the running request that gives way: the last one (`fcfs`), or the least urgent (`priority`).

    Least urgent is the largest (priority, arrival time); of several, the first in running order.
    """
    if policy == "fcfs":
        return running[len(running) - 1]
    victim = None
    for request in running:
        if (
            victim is None
            or request.priority > victim.priority
            or (request.priority == victim.priority and request.arrival_time > victim.arrival_time)
        ):
            victim = request
    return victim
