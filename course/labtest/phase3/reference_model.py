"""A slow preemption on plain names and numbers. The random tests compare what it and your code do.

It has no `Request` and no queue, and looks everything up in lists.
"""

from dataclasses import dataclass, field


@dataclass
class RankedRequest:
    """The fields that the rules use."""

    priority: int
    arrival_time: float
    num_tokens: int
    num_computed: int
    status: str = "RUNNING"
    num_preemptions: int = 0


@dataclass
class PlainRoom:
    """The two lists of names, the block tables, and the plan of the step."""

    policy: str
    block_size: int
    num_blocks: int
    requests: dict[str, RankedRequest]
    running: list[str]
    waiting: list[str]
    tables: dict[str, list[int]]
    plan: list[tuple[str, int]] = field(default_factory=list)
    budget: int = 0
    preempted: list[tuple[str, str, int]] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)

    def take(self, name: str, amount: int) -> bool:
        """Give a request the blocks for more tokens, all or none."""
        table = list(self.tables.get(name, []))
        while len(table) * self.block_size < self.requests[name].num_computed + amount:
            taken = [block_id for other in self.tables.values() for block_id in other] + table
            free = [block_id for block_id in range(1, self.num_blocks + 1) if block_id not in taken]
            if not free:
                return False
            table.append(free[0])
        self.tables[name] = table
        return True

    def make_room(self, name: str, amount: int) -> bool:
        """Preempt until `name` has its blocks; False if it was its own victim."""
        while not self.take(name, amount):
            victim = self.least_urgent() if self.policy == "priority" else self.running[-1]
            self._evict(victim, name)
            if victim == name:
                return False
        return True

    def least_urgent(self) -> str:
        """Return the running request with the largest priority number, of these the latest, of these the first."""
        found = self.running[0]
        for name in self.running:
            mine, best = self.requests[name], self.requests[found]
            if mine.priority > best.priority:
                found = name
            if mine.priority == best.priority and mine.arrival_time > best.arrival_time:
                found = name
        return found

    def _evict(self, victim: str, cause: str) -> None:
        plain = self.requests[victim]
        self.freed.append(f"kv.free({victim}, {plain.num_computed})")
        self.tables.pop(victim, None)
        plain.status, plain.num_computed = "PREEMPTED", 0
        plain.num_preemptions += 1
        amount = dict(self.plan).get(victim, 0)
        self.plan = [entry for entry in self.plan if entry[0] != victim]
        self.budget += amount
        self.preempted.append((victim, cause, amount))
        self.running.remove(victim)
        self.waiting.insert(0, victim)
        if self.policy == "priority":
            self.waiting.sort(key=lambda name: (self.requests[name].priority, self.requests[name].arrival_time, name))

    def admit(self, name: str) -> None:
        """Move the first waiting request to the end of RUNNING, with nothing computed."""
        assert self.waiting.pop(0) == name
        self.running.append(name)
        self.requests[name].status = "RUNNING"

    def advance(self, name: str, amount: int) -> None:
        """Count planned tokens as computed; a request that has caught up gets one token more."""
        plain = self.requests[name]
        plain.num_computed += amount
        plain.num_tokens += plain.num_computed == plain.num_tokens

    def outcome(self, answer: object) -> dict[str, object]:
        """Return everything that `make_room` decides, in the form of `RoomHarness.outcome`."""
        return {
            "make_room": answer,
            "RUNNING": self.running,
            "WAITING": self.waiting,
            "plan": self.plan,
            "budget left": self.budget,
            "preempted": self.preempted,
            "block tables": {name: self.tables[name] for name in sorted(self.tables)},
            "freed, in order": self.freed,
            "requests": [
                f"{name} {plain.status} {plain.num_computed}/{plain.num_tokens}, preempted {plain.num_preemptions}x"
                for name, plain in sorted(self.requests.items())
            ],
            "also changed": [],
        }
