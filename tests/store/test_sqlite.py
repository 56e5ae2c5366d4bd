"""What is special about `sqlite://`: a file, its thread, and the ways in which a file can fail."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redstart.store.open import open_store
from redstart.store.shared import StoreAway
from redstart.store.sqlite import SCHEMA, SqliteStore
from redstart.store.tasks import OVERDUE, StoredTask
from store.places import eventually


def child(code: str, *args: object) -> subprocess.Popen[str]:
    """Another process that runs `main(store)`."""
    head = "import asyncio, os, sys\nfrom redstart.store.sqlite import *\n"
    lines = f"{head}{code}\nasyncio.run(main(SqliteStore(sys.argv[1])))"
    return subprocess.Popen([sys.executable, "-c", lines, *map(str, args)], stdout=subprocess.PIPE, text=True)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def body() -> None:
        for url in ("sqlite:///a%20b.db", f"sqlite:///{tmp_path}/c.db"):
            store = open_store(url)
            await store.kv_set("a", b"1")
            await store.close()

    asyncio.run(body())
    assert {path.name for path in tmp_path.iterdir()} == {"a b.db", "c.db"}


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    async def body() -> None:
        store = SqliteStore(str(tmp_path / "s.db"))
        await store.kv_set("a", b"1")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
        await store.close()

    asyncio.run(body())


WRITES = """
async def main(store):
    for n in range(100_000):
        await store.task_insert(StoredTask(f"t{n}", "ada", b"{}"), "q", 10**6, 10**6)
        (task,) = await store.task_claim(["q"], 1, 3600)
        task.body = b"%d" % n
        await store.task_write(task, "", 3600)
        await store.kv_set(f"k{n}", b"%d" % n, durable=n % 2 == 0)
        print(n, flush=True)
"""


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    acknowledged = 0
    for _ in range(3):
        path.unlink(missing_ok=True)
        with child(WRITES, path) as writer:
            assert writer.stdout is not None
            began = time.monotonic()
            for line in writer.stdout:
                acknowledged = int(line)
                if acknowledged > 20 and time.monotonic() - began > 0.3:
                    break
            writer.kill()
            acknowledged = int((writer.stdout.read().split() or [str(acknowledged)])[-1])

        async def body(acknowledged: int) -> None:
            store = SqliteStore(str(path))
            tasks = {task.id: task for task in await store.task_list("ada", "", 10**6)}
            for n in range(acknowledged + 1):
                assert (tasks[f"t{n}"].body, tasks[f"t{n}"].fence) == (b"%d" % n, 1)
                assert await store.kv_get(f"k{n}") == b"%d" % n
            assert await store.task_insert(StoredTask("new", "ada", b"{}"), "q", 10**6, 10**6)
            await store.close()

        asyncio.run(body(acknowledged))
        for extra in ("-wal", "-shm"):
            Path(f"{path}{extra}").unlink(missing_ok=True)


def test_many_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    code = "async def main(store):\n    for n in range(20): await store.log_append('s', b'x')\n    await store.close()"
    children = [child(code, tmp_path / "s.db") for _ in range(6)]
    assert [process.wait(50) for process in children] == [0] * 6
    for process in children:
        assert process.stdout is not None
        process.stdout.close()

    async def body() -> None:
        store = SqliteStore(str(tmp_path / "s.db"))
        assert len(await store.log_read("s")) == 120
        await store.close()

    asyncio.run(body())


def refused(path: Path) -> str:
    async def body() -> str:
        store = SqliteStore(str(path))
        with pytest.raises(StoreAway) as caught:
            await store.kv_get("a")
        await store.close()
        return str(caught.value)

    return asyncio.run(body())


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_bytes(b"Dear diary, today I wrote no database at all. " * 100)
    before = text.read_bytes()
    assert "SQLite says: file is not a database" in refused(text)
    assert text.read_bytes() == before
    assert "SQLite says: unable to open database file" in refused(tmp_path / "none" / "s.db")
    assert "SQLite says: unable to open database file" in refused(tmp_path)
    newer = tmp_path / "newer.db"
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    expected = f"its file has the schema {len(SCHEMA) + 1} of a newer redstart; this one knows {len(SCHEMA)}"
    assert expected in refused(newer)
    assert str(tmp_path) not in refused(newer) + refused(text) + refused(tmp_path / "none" / "s.db")


READ_ONLY = """
async def main(store):
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        await store.kv_set("a", b"2")
    except StoreAway as error:
        print(error)
"""


def test_a_file_that_is_read_only() -> None:
    async def body(path: Path) -> None:
        store = SqliteStore(str(path))
        await store.kv_set("a", b"1")
        await store.close()

    with TemporaryDirectory() as directory:  # root lets another user try, who cannot look into tmp_path
        Path(directory).chmod(0o777)
        path = Path(directory, "s.db")
        asyncio.run(body(path))
        path.chmod(0o444)
        with child(READ_ONLY, path) as process:
            output = process.communicate(timeout=50)[0]
    assert "The store of this server is away: SQLite says: attempt to write a readonly database" in output


FULL = """
import resource

async def main(store):
    await store.kv_set("a", b"1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    kept = 0
    try:
        while kept < 1000:
            await store.task_insert(StoredTask(f"t{kept}", "ada", b"x" * 10_000), "q", 10**6, 10**6)
            kept += 1
    except StoreAway as error:
        print(error)
    print(await store.kv_get("a"), len(await store.task_list("ada", "", 10**6)) == kept)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(await store.kv_set("a", b"2"), await store.kv_get("a"))
"""


def test_a_disk_that_is_full_and_has_room_again(tmp_path: Path) -> None:
    with child(FULL, tmp_path / "s.db") as process:
        error, *rest = process.communicate(timeout=50)[0].splitlines()
    assert "SQLite says: database or disk is full" in error or "SQLite says: disk I/O error" in error
    assert rest == ["b'1' True", "True b'2'"]


def test_the_loop_does_not_wait_for_the_file(tmp_path: Path) -> None:
    async def body() -> None:
        store = SqliteStore(str(tmp_path / "s.db"))
        await store.kv_set("a", b"1")
        holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.ensure_future(store.kv_set(f"k{n}", b"1", nx=True)) for n in range(50)]
        longest = 0.0
        for _ in range(20):
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
        assert not any(future.done() for future in waiting)
        assert longest < 0.5
        waiting[0].cancel()
        holder.close()
        assert await asyncio.gather(*waiting[1:]) == [True] * 49
        await store.close()

    asyncio.run(body())


def test_a_store_is_used_again_after_it_was_closed(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "s.db"))

    async def body(expected: bytes | None) -> None:
        assert await store.kv_get("a") == expected
        stream = store.subscribe("t")
        await store.publish("t", b"1")
        assert await anext(stream) == ("t", b"1")
        await store.kv_set("a", b"1")
        await stream.aclose()
        await store.close()
        await store.close()

    asyncio.run(body(None))
    asyncio.run(body(b"1"))


def test_what_has_expired_does_not_stay_in_the_file(tmp_path: Path) -> None:
    now = 1000.0

    async def body() -> None:
        nonlocal now
        store = SqliteStore(str(tmp_path / "s.db"), lambda: now)
        for n in range(300):
            now += 1
            await store.kv_set(f"k{n}", b"1", ttl=10)
            await store.log_append(f"s{n}", b"1", ttl=10)
            await store.take(f"b{n}", 1, 5)
            await store.publish("t", b"1")
        await store.close()

    asyncio.run(body())
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        for table in ("pairs", "entries"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] < 40


def test_a_claim_looks_only_at_what_it_takes(tmp_path: Path) -> None:
    async def body() -> None:
        store = SqliteStore(str(tmp_path / "s.db"))
        await asyncio.gather(
            *(store.task_insert(StoredTask(f"t{n}", "ada", b"{}"), "q", 10**6, 10**6) for n in range(5000))
        )
        took = []
        for _ in range(30):
            began = time.perf_counter()
            assert len(await store.task_claim(["q", "r", OVERDUE], 1, 60)) == 1
            took.append(time.perf_counter() - began)
        assert sorted(took)[5] < 0.02
        await store.close()

    asyncio.run(body())


def test_processes_that_only_listen_hear_others(tmp_path: Path) -> None:
    code = """
async def main(store):
    async for topic, data in store.subscribe("tasks"):
        print(topic, data, flush=True)
        if data == b"end":
            await store.close()
            return
"""

    async def body() -> None:
        store = SqliteStore(str(tmp_path / "s.db"))
        with child(code, tmp_path / "s.db") as listener:

            async def has_ended() -> bool:
                await store.publish("tasks", b"end")
                return listener.poll() is not None

            await eventually(has_ended)
            assert listener.stdout is not None
            assert listener.stdout.read() == "tasks b'end'\n"
        await store.close()

    asyncio.run(body())


def test_an_old_version_of_the_schema_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s.db")

    async def body(key: str) -> bytes | None:
        store = SqliteStore(path)
        value = await store.kv_get(key)
        await store.kv_set(key, b"1")
        await store.close()
        return value

    assert asyncio.run(body("a")) is None
    added = (*SCHEMA, ("INSERT INTO pairs VALUES (CAST('kb' AS BLOB), CAST('new' AS BLOB), NULL)",))
    monkeypatch.setattr("redstart.store.sqlite.SCHEMA", added)
    assert asyncio.run(body("b")) == b"new"
    assert asyncio.run(body("b")) == b"1"  # once
    assert asyncio.run(body("a")) == b"1"
    assert os.path.exists(path)
