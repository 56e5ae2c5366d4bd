"""Round trips of a task that does nothing with pydocket, in milliseconds: `python docket_round_trips.py URL COUNT`.

Whoever adds the tasks and the worker share a process and a loop, as in our own measurement.
"""

import asyncio
import json
import sys
import time
from datetime import timedelta

import uvloop
from docket import Docket, Worker


async def nothing(number: int) -> int:
    return number


async def main(url: str, count: int) -> None:
    times = []
    async with Docket(name="bench", url=url) as docket:
        docket.register(nothing)
        quick = timedelta(milliseconds=1)
        async with Worker(docket, minimum_check_interval=quick, scheduling_resolution=quick) as worker:
            running = asyncio.create_task(worker.run_forever())
            for number in range(count):
                begin = time.perf_counter()
                execution = await docket.add(nothing)(number)
                assert await execution.get_result(timeout=timedelta(seconds=20)) == number
                times.append((time.perf_counter() - begin) * 1000)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    print(json.dumps(times))


uvloop.run(main(sys.argv[1], int(sys.argv[2])))
