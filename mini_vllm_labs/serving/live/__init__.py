"""The page at `/`: chats beside the engine that answers them, drawn while it runs."""
