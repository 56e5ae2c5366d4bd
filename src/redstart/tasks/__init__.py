"""Tasks: calls that outlive their connection, in both task protocols, on one store."""
