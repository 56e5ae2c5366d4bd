"""A provider of prompts: a code review, a summary, and a debate of several turns.

redstart run examples/gallery/prompts.py
"""

from __future__ import annotations

from typing import Any

from redstart import PromptResult, serve


class Prompts:
    """Descriptors are plain tuples: name, description, and (argument, description, required) for each argument."""

    def capabilities(self) -> list[str]:
        return ["prompts"]

    def tools(self) -> list[Any]:
        return []

    def prompts(self) -> list[Any]:
        return [
            (
                "code_review",
                "Reviews code for potential issues",
                [("code", "The code to review", True), ("language", "The programming language", False)],
            ),
            ("summarize", "Summarizes a given text", [("text", "The text to summarize", True)]),
            ("debate", "Debates a topic", [("topic", "The topic", True)]),
        ]

    def prompt_get(self, name: str, arguments: dict[str, str]) -> Any:
        match name:
            case "code_review":
                language = f"{arguments['language']} " if "language" in arguments else ""
                return f"Please review the following {language}code for potential issues:\n\n{arguments['code']}"
            case "summarize":
                text = f"Please summarize the following text:\n\n{arguments['text']}"
                return PromptResult(description=f"A summary of {len(arguments['text'])} characters", messages=text)
            case "debate":
                return [
                    ("user", f"Let us debate: {arguments['topic']}"),
                    ("assistant", "I would be happy to debate that topic. What is your position?"),
                ]
        return NotImplemented


serve("prompts", Prompts())
