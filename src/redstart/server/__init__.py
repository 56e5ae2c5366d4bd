"""The Server object, its contexts, middleware, dispatch, and the running of calls."""
