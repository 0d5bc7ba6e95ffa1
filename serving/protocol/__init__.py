"""What a request may say: the fields of each route, their ranges, and what is refused."""
