"""`redstart check`: rules about what a model reads, what clients drop, and what a handler does."""
