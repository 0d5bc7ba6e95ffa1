"""What a router between several engines is worth, in simulated time."""
