"""Victim by a stable reversed sort."""


def choose_victim(running, policy):
    """Return the running request that gives way: the last one (`fcfs`), or the least urgent (`priority`).

    Least urgent is the largest (priority, arrival time); of several, the first in running order.
    """
    match policy:
        case "priority":
            return sorted(running, key=lambda r: (-r.priority, -r.arrival_time))[0]
        case _:
            *_, last = running
            return last
