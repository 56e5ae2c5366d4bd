"""Tools with a schema of their own, where a signature would not say enough: arrays, enums, nested objects.

redstart run examples/gallery/schemas.py
"""

from __future__ import annotations

from typing import Any

from redstart import Server, Text, Tool

filter_by_tags = Tool(
    name="filter_by_tags",
    description="Filter items by multiple tags",
    input_schema={
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "description": "List of tags to filter by",
                "minItems": 1,
            }
        },
        "required": ["tags"],
    },
    handler=lambda params: Text(f"Filtering by tags: {', '.join(params['tags'])}"),
)

sort_results = Tool(
    name="sort_results",
    description="Sort results by field and order",
    input_schema={
        "type": "object",
        "properties": {
            "field": {
                "type": "string",
                "enum": ["name", "date", "relevance", "size"],
                "description": "Field to sort by",
            },
            "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
        },
        "required": ["field"],
    },
    handler=lambda params: Text(f"Sorting by {params['field']} ({params.get('order', 'asc')})"),
)


def search(params: dict[str, Any]) -> Text:
    limit = params.get("options", {}).get("limit", 10)
    return Text(f"Query: {params['query']} (limit={limit})")


advanced_filter = Tool(
    name="advanced_filter",
    description="Filter with complex criteria",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "options": {
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 100},
                    "offset": {"type": "integer", "default": 0},
                },
            },
        },
        "required": ["query"],
    },
    handler=search,
)

server = Server("schemas", tools=[filter_by_tags, sort_results, advanced_filter])

if __name__ == "__main__":
    server.run()
