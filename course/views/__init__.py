"""Pictures of what an engine did: pure functions from traces to SVG, and three ways to show them. See README.md."""
