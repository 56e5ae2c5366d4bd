"""Questions to the user or the client, and the dialogue of one call that they make."""
