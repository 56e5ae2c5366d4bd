"""The contract of the task store: records that survive, one of which is claimed by one worker at a time.

A store knows nothing of what a task is. It keeps a body of JSON under an id and an owner, and one entry of a queue: the
name of the queue, and the time from which on the task is due in it. A task that waits for a worker is in the queue of
its tool. One that a worker holds, that waits for a user, or that is finished is in the queue OVERDUE, due when the
lease, the patience or the retention ends. So there is one way to find what must be done next.
All times are the engine's own: a host whose clock is wrong must not lose a lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

OVERDUE: Final = ""
"""The queue of tasks that no worker should take: they become due when something has not happened in time."""
CHANGED: Final = "tasks"
"""The topic that tells of a task that waits in the queue of a tool. The message is the name of the queue."""


def topic_of(id: str) -> str:
    """The topic that tells of a change of one task. The message is empty: who is told reads the task again."""
    return f"task/{id}"


class StoredTask(Struct):
    """A task as a store keeps it, at one version."""

    id: str
    owner: str
    body: bytes
    version: int = 0
    """Incremented by every claim and write. A write names the version that it has read."""
    fence: int = 0
    """Incremented by every claim. Who claimed a task may write it only while the fence is still the same."""
    created: float = 0.0
    updated: float = 0.0
    """When the body was last written. Both in seconds since 1970."""
    read_at: float = 0.0
    """The engine's time of the call that returned or wrote this."""


class TaskStore(Protocol):
    """Tasks of all processes of an application. Each method is atomic, and returns after its effect is durable."""

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        """Keep a new task, due in `queue` in `delay` seconds. False if its owner, or all owners, have too many.

        Its fence is kept: 1 for a task whose creator works on it from the beginning, as after a claim. Sets the times
        and the version of `task`. Tells the topics CHANGED and `topic_of(id)`, as `task_write` does.
        """

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        """A task of this owner. None for an unknown id, and for a task of somebody else."""

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        """The tasks of an owner, oldest first, from the one after the id `after` on ("" for the beginning).

        If the task `after` no longer exists, those that are younger than it are returned where the engine can tell,
        else the list is empty.
        """

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        """Take tasks that are due in one of these queues, the longest due first; each goes to one caller only.

        They are then in the queue OVERDUE, due in `hold` seconds, with the next fence and version.
        """

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        """Replace the body, and put the task into `queue`, due in `delay` seconds. False if its version has changed.

        Sets the version and the times of `task`. Tells `topic_of(id)`, and CHANGED unless the queue is OVERDUE.
        """

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        """Keep claimed tasks for `hold` more seconds. The ids of those whose version has changed: read them again."""

    async def task_delete(self, task: StoredTask) -> bool:
        """Forget a task. False if its version has changed."""


def is_stamped(task: StoredTask, version: int, now: float | None) -> bool:
    """Set what `task_insert` and `task_write` set, if the engine has kept the task at the time `now`."""
    if now is None:
        return False
    task.version, task.updated, task.read_at = version, now, now
    if version == 1:
        task.created = now
    return True
