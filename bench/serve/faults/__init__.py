"""Load and faults: what a server must stand, in parts, and what must hold after each of them."""
