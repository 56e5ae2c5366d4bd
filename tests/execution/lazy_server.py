"""Tools that return lazy Django querysets: `python lazy_server.py file.db` calls each and prints what they give."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import django
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}})
django.setup()

from django.db import connection, models  # noqa: E402 - it wants its settings first

from redstart import Client, Complete, Depends, Server  # noqa: E402

server = Server("lazy")


class City(models.Model):  # type: ignore[misc, unused-ignore]
    name = models.CharField(max_length=20)

    class Meta:
        app_label = "lazy"


def cities() -> Any:
    return City.objects.order_by("name").values("name")


@server.tool
def plain():  # type: ignore[no-untyped-def]
    return cities()


@server.tool
def promised() -> list[dict[str, str]]:
    return cities()  # type: ignore[no-any-return]


@server.tool
def inside() -> dict[str, Any]:
    return {"cities": cities()}


@server.tool(timeout=20)
def depends(found: Annotated[Any, Depends(cities)]) -> Any:
    return found


@server.tool
def yields() -> Iterator[Any]:
    yield cities()


@server.tool(solutions="first")
def solves() -> Iterator[Any]:
    yield cities()


@server.resource("cities://all")
def all_cities() -> Any:
    return cities()


@server.prompt
def visit() -> Any:
    return cities()


def names(prefix: str) -> Any:
    return City.objects.filter(name__startswith=prefix).values_list("name", flat=True)


@server.prompt
def stay(city: Annotated[str, Complete(names)]) -> str:
    return city


def prepare() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(City)
    City.objects.bulk_create([City(name="Bern"), City(name="Oslo")])


async def main() -> None:
    async with Client(server) as client:
        found = {name: await client.call_tool(name) for name in sys.argv[2:]}
        texts = {name: result.text for name, result in found.items()}
        texts["resource"] = (await client.read_resource("cities://all")).contents[0].text or ""
        texts["prompt"] = (await client.get_prompt("visit")).messages[0].content.text
        texts["completion"] = ",".join((await client.complete("stay", "city", "B")).values)
    print(json.dumps(texts))


if __name__ == "__main__":
    prepare()
    asyncio.run(main())
