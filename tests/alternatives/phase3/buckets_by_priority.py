"""Buckets by priority."""


class PriorityRequestQueue:
    """Waiting requests by (priority, arrival time, request id): the smallest first.

    There is no front to go back to: a preempted request finds its place by the same rule.
    """

    def __init__(self):
        self.buckets = {}

    def add_request(self, request):
        """Insert a request in its order of service."""
        bucket = self.buckets.setdefault(request.priority, [])
        bucket.append(request)
        bucket.sort(key=lambda r: (r.arrival_time, r.request_id))

    def prepend_request(self, request):
        """Insert a preempted request in its order of service; it does not jump the queue."""
        self.add_request(request)

    def peek_request(self):
        """Return the most urgent request without removing it."""
        return next(iter(self))

    def pop_request(self):
        """Remove the most urgent request and return it."""
        request = self.peek_request()
        self.remove_request(request)
        return request

    def remove_request(self, request):
        """Remove a request from anywhere in the queue."""
        bucket = self.buckets[request.priority]
        bucket.remove(request)
        if not bucket:
            del self.buckets[request.priority]

    def __len__(self):
        return sum(map(len, self.buckets.values()))

    def __iter__(self):
        """Yield the requests in order of service, without removing any."""
        for priority in sorted(self.buckets):
            yield from list(self.buckets[priority])
