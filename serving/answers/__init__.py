"""What goes back: whole answers and streams, in the forms of chat and of completions."""
