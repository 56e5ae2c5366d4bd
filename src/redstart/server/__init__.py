"""The object people hold: Server, its Context, injection, middleware, and how one Call is answered."""
