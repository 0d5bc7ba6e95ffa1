"""Pictures of an engine's steps: pure functions from traces to SVG, and three ways to show them. See README.md."""
