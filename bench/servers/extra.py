"""What the Python servers share: the arguments of the command line and the extra four-argument tools.

It is kept out of the servers' way: no imports, because a cold start is measured on them.
"""

SOURCE = '''
async def tool_{i}(name: str, count: int, ratio: float = 0.5, tags: list[str] | None = None) -> str:
    """Describe item {i} by its name, its count, a ratio and some tags."""
    return f"{{name}} {{count}} {{ratio}} {{tags}}"
'''


def option(argv, name, default=0):
    """The integer after `name` in argv: `--port 8000`."""
    return int(argv[argv.index(name) + 1]) if name in argv else default


def extra_functions(count):
    """`count` functions with four arguments, distinct as if they were written by hand."""
    functions = []
    for i in range(count):
        scope = {}
        exec(SOURCE.format(i=i), scope)
        functions.append(scope[f"tool_{i}"])
    return functions


def timed_registration(register, count):
    """CPU milliseconds that `register` takes for `count` functions, as one JSON line."""
    import gc
    import time

    functions = extra_functions(count)
    gc.collect()
    begin = time.process_time()
    for function in functions:
        register(function)
    print('{"registration_cpu_ms": %.2f}' % ((time.process_time() - begin) * 1e3))
