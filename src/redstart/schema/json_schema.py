"""JSON Schemas that the user wrote by hand, compiled to nodes.

The common keywords become nodes. A schema with any other keyword is given whole to jsonschema-rs (the extra
`validate`); no keyword goes unvalidated, and no `$ref` leaves the document.
Must not know: Python types, functions.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from redstart.schema import errors
from redstart.schema.callables import SignatureError
from redstart.schema.constraints import FAMILIES, Constraints
from redstart.schema.cost import affordable, levels, target
from redstart.schema.errors import ENOUGH, SHOWN_PROBLEMS, ShapeError, ValuePath, join, show, spelled
from redstart.schema.nodes import ArrayNode, RecordNode, RefNode, Slot, UnionNode
from redstart.schema.scalars import (
    ABSENT,
    INVALID,
    JSON_KINDS,
    JSON_TYPES,
    AnyNode,
    ChoiceNode,
    Node,
    ScalarNode,
    Walk,
    is_whole,
)

ANNOTATIONS = {
    *("title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly", "format"),
    *("$schema", "$comment", "$id", "$defs", "definitions", "contentEncoding", "contentMediaType"),
}
# JSON type -> the family of its constraints, and which of them are built in: patterns are left to the engine.
FAMILY_OF = {"string": "string", "integer": "number", "number": "number", "array": "array", "object": "object"}
TO_ENGINE = ("pattern", "multipleOf", "format")
BOUNDS = {
    family: {word: name for name, word in FAMILIES[family].items() if word is not None and word not in TO_ENGINE}
    for family in set(FAMILY_OF.values())
}
NUMBERS = ("integer", "number")
OF_OBJECTS = ("properties", "required", "additionalProperties")
BUILT_IN = {
    *("type", "enum", "const", "$ref", "allOf", "anyOf", "items", *OF_OBJECTS),
    *(word for words in BOUNDS.values() for word in words),
}


class SchemaError(SignatureError, ValueError):
    """A schema that cannot be used; the message says where it is and why."""


# ---------------------------------------------------------------- what a keyword may contain


def is_text(content: object) -> bool:
    return isinstance(content, str)


def is_number(content: object) -> bool:
    return type(content) in (int, float)


def is_count(content: Any) -> bool:
    return is_whole(content) and bool(content >= 0)


def is_name_list(content: object) -> bool:
    return isinstance(content, list) and all(map(is_text, content))


def _is_type(content: object) -> bool:
    names = [content] if isinstance(content, str) else content
    return isinstance(names, list) and bool(names) and all(is_text(name) and name in JSON_TYPES for name in names)


def _is_map(content: object) -> bool:
    return isinstance(content, Mapping)


def _is_schema(content: object) -> bool:
    return isinstance(content, Mapping | bool)


def _is_schema_list(content: object) -> bool:
    return isinstance(content, list) and all(map(_is_schema, content))


Needs = dict[str, tuple[Callable[[Any], bool], str]]
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
NEEDS: Needs = {
    "type": (_is_type, "a JSON type name or a list of them"),
    "enum": (lambda content: isinstance(content, list), "a list"),
    "required": (is_name_list, "a list of names"),
    "allOf": (_is_schema_list, "a list of schemas"),
    **dict.fromkeys(
        ("anyOf", "oneOf"), (lambda content: bool(content) and _is_schema_list(content), "a list of schemas")
    ),
    **dict.fromkeys(("properties", "$defs", "definitions"), (_is_map, "an object")),
    "additionalProperties": (_is_schema, "a schema"),
    "items": (_is_schema, "a schema (a list of schemas is prefixItems, or draft-07 by its $schema)"),
    "$ref": (is_text, "a string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (is_number, "a number")),
    **dict.fromkeys(COUNTS, (is_count, "a whole number, 0 or more")),
}


# ---------------------------------------------------------------- nodes that only JSON Schema needs


class NeverNode(Node):
    """The schema `false`."""

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        return walk.refuse(errors.not_allowed, path, value)


class AllNode(Node):
    """Several schemas for one value: `allOf`, or a `$ref` with other keywords."""

    def __init__(self, children: Sequence[Node]) -> None:
        super().__init__()
        self.children = children

    @property
    def words(self) -> str:  # type: ignore[override]
        return self.children[0].words

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        for child in self.children:
            value = child.read(value, path, walk)
            if value is INVALID:
                return INVALID
        return value


class BranchesNode(UnionNode):
    """`anyOf` and `oneOf`. The value stays as it is, because a branch may have keywords that only the engine checks."""

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        return INVALID if super().read(value, path, walk) is INVALID else value


class TypesNode(Node):
    """A value of one of several JSON types, each with its own node."""

    def __init__(self, nodes: Mapping[str, Node], words: str) -> None:
        super().__init__()
        self.words = words
        self._by_type: dict[type, Node] = {}
        for name, node in nodes.items():
            if name != "integer" or "number" not in nodes:
                self._by_type |= dict.fromkeys((int, float) if name in NUMBERS else (JSON_TYPES[name],), node)

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        node = self._by_type.get(type(value))
        return walk.refuse(errors.wrong_type, path, self.words, value) if node is None else node.read(value, path, walk)


class ObjectNode(RecordNode):
    """An object with properties; unknown properties are kept."""

    def __init__(self, slots: Sequence[Slot], additional: Node, constraints: Constraints | None) -> None:
        super().__init__("", None, dict, slots)
        self.constraints = constraints
        self.closed = isinstance(additional, NeverNode)
        self._additional = additional
        self._names = {slot.wire for slot in slots}

    def fill(self, value: dict[str, object], path: ValuePath, walk: Walk) -> object:
        before = walk.count
        known = self.read_slots(value, path, walk)
        others = {name: inner for name, inner in value.items() if name not in self._names}
        if self.closed:
            self.refuse_unknown(value, path, walk)
        elif not isinstance(self._additional, AnyNode):
            others = {name: self._additional.read(inner, join(path, name), walk) for name, inner in others.items()}
        if walk.count > before:
            return INVALID
        for slot in self.slots:
            if slot.wire not in value and slot.default is not ABSENT:
                known[slot.wire] = copy.deepcopy(slot.default)
        out = known | others
        same = len(out) == len(value) and all(value[name] is inner for name, inner in out.items())
        return self.within(value if same else out, value, path, walk)


class _Compiler:
    """One schema document, while it is compiled."""

    def __init__(self, root: Mapping[str, Any], where: str, *, defaults: bool = False) -> None:
        self.root = root
        self.where = where
        self.draft7 = _is_draft7(root, where)
        self.for_engine: set[str] = set()  # the keywords that are not built in
        self._defaults = defaults
        self._refs: dict[str, RefNode] = {}

    def node(self, schema: object, at: str) -> Node:
        """The node of a schema; it leaves out the keywords that are not built in."""
        if isinstance(schema, bool):
            return AnyNode() if schema else NeverNode()
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{self.where}: {at} must be a schema, not {show(schema)}")
        schema = self._checked(schema, at)
        nodes: list[Node] = [self._ref(schema["$ref"])] if "$ref" in schema else []
        nodes += self._nodes(schema, "allOf", at)
        typed = self._typed(schema, at)
        nodes += [] if typed is None else [typed]
        # Here at least one branch must fit; whether no other branch of `oneOf` does is left to the engine.
        nodes += [BranchesNode(self._nodes(schema, word, at)) for word in ("anyOf", "oneOf") if word in schema]
        listed = [schema["enum"]] if "enum" in schema else []
        listed += [[schema["const"]]] if "const" in schema else []
        nodes += [ChoiceNode([(value, value) for value in values]) for values in listed]
        if not nodes:
            return AnyNode()
        return nodes[0] if len(nodes) == 1 else AllNode(nodes)

    def _nodes(self, schema: Mapping[str, Any], word: str, at: str) -> list[Node]:
        return [self.node(inner, f"{at}/{word}/{index}") for index, inner in enumerate(schema.get(word, ()))]

    def _checked(self, schema: Mapping[str, Any], at: str) -> Mapping[str, Any]:
        """The keywords that apply. Malformed ones are refused; those that are not built in are recorded."""
        for keyword, content in schema.items():
            if self.draft7 and keyword == "items" and isinstance(content, list):
                self.for_engine.add(keyword)  # one schema for each place
                continue
            fits, words = NEEDS.get(keyword, (None, ""))
            if fits is not None and not fits(content):
                raise SchemaError(f"{self.where}: {at}/{keyword} must be {words}, not {show(content)}")
            if keyword in ("$defs", "definitions"):
                for name, inner in content.items():
                    self.node(inner, f"{at}/{keyword}/{name}")
            elif keyword not in BUILT_IN and keyword not in ANNOTATIONS and not keyword.startswith("x-"):
                self.for_engine.add(keyword)
        if self.draft7 and "$ref" in schema and len(schema) > 1:
            self.for_engine.add("$ref")
            return {"$ref": schema["$ref"]}  # in draft-07 a `$ref` replaces all other keywords
        left_out = [word for beside, word in BESIDE.items() if beside in schema]
        left_out += ["items"] if isinstance(schema.get("items"), list) else []
        return {word: content for word, content in schema.items() if word not in left_out}

    def _typed(self, schema: Mapping[str, Any], at: str) -> Node | None:
        """The node for the types that a schema allows, and for the keywords that are about one type."""
        given = schema.get("type", list(JSON_TYPES))
        names = [given] if isinstance(given, str) else given
        nodes: dict[str, Node] = {name: self._of_type(name, schema, at) for name in names}
        if len(nodes) == 1:
            return nodes[names[0]]
        if "type" not in schema and all(type(node) is AnyNode for node in nodes.values()):
            return None
        return TypesNode(nodes, errors.any_word([node.words for node in nodes.values()]) if "type" in schema else "")

    def _of_type(self, name: str, schema: Mapping[str, Any], at: str) -> Node:
        family = FAMILY_OF.get(name, "")
        bounds = {BOUNDS[family][word]: bound for word, bound in schema.items() if word in BOUNDS.get(family, ())}
        constraints = Constraints(family, bounds) if bounds else None
        if name == "object" and any(word in schema for word in OF_OBJECTS):
            return self._object(schema, constraints, at)
        if name == "array":
            item = self.node(schema["items"], f"{at}/items") if "items" in schema else AnyNode()
            if constraints or "type" in schema or type(item) is not AnyNode:
                return ArrayNode(item, constraints=constraints)
        if name == "object" and (constraints or "type" in schema):
            return ObjectNode((), AnyNode(), constraints)
        if name in JSON_KINDS and (constraints or "type" in schema):
            return ScalarNode(JSON_KINDS[name], constraints)
        return AnyNode()

    def _object(self, schema: Mapping[str, Any], constraints: Constraints | None, at: str) -> Node:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        slots = []
        for name in dict.fromkeys((*properties, *required)):
            inner = properties.get(name, True)
            has_default = self._defaults and isinstance(inner, Mapping) and "default" in inner
            default = inner["default"] if has_default else ABSENT
            slots.append(Slot(name, name, self.node(inner, f"{at}/properties/{name}"), name in required, default))
        additional = self.node(schema.get("additionalProperties", True), f"{at}/additionalProperties")
        return ObjectNode(slots, additional, constraints)

    # ------------------------------------------------------------ references

    def _ref(self, ref: str) -> Node:
        if ref not in self._refs:
            self._refs[ref] = made = RefNode(ref)
            is_local = ref == "#" or ref.startswith("#/")  # other anchors are left to the engine
            made.target = self.node(self.target(ref), ref) if is_local else AnyNode()
        return self._refs[ref]

    def target(self, ref: str) -> Any:
        schema = target(self.root, ref)
        if schema is None:
            raise SchemaError(f"{self.where}: $ref {ref!r} points to nothing in this schema")
        if not isinstance(schema, Mapping | bool):
            raise SchemaError(f"{self.where}: $ref {ref!r} does not point to a schema")
        return schema

    def refuse_loops(self) -> None:
        """Refuse a `$ref` that leads back to itself without a level of the value in between."""
        for ref, node in self._refs.items():
            queue: list[Node] = [node.target]
            seen: set[int] = set()
            while queue:
                current = queue.pop()
                if current is node:
                    raise SchemaError(f"{self.where}: $ref {ref!r} refers to itself")
                if id(current) not in seen and isinstance(current, AllNode | BranchesNode | RefNode):
                    seen.add(id(current))
                    queue += [current.target] if isinstance(current, RefNode) else current.children


BESIDE = {"prefixItems": "items", "patternProperties": "additionalProperties"}  # one changes the meaning of the other


# ---------------------------------------------------------------- validation


class Engine(Protocol):
    """A validator of jsonschema-rs."""

    def is_valid(self, value: Any) -> bool: ...
    def iter_errors(self, value: Any) -> Iterator[Any]: ...


class Validator:
    """A compiled schema."""

    def __init__(self, compiler: _Compiler, node: Node, engine: Engine | None) -> None:
        self._compiler = compiler
        self._node = node
        self._engine = engine

    def check(self, value: object, noun: str = "argument") -> object:
        """The value, with defaults where the schema was compiled with them; ShapeError names what is wrong."""
        walk = Walk(False, {})
        out = self._walked(value, walk, noun)
        valid = not walk.count if self._engine is None else self._fits(self._engine, value, noun)
        if not valid:
            raise self._explained(value, walk, noun)
        return value if out is INVALID else out

    def read(self, value: object) -> object:
        """The arguments without null for optional properties that are not nullable: such a null means absent."""
        try:
            return self.check(value)
        except ShapeError:
            walk = Walk(False, {}, nulls=True)
            lean = self._walked(value, walk, "argument")
            if lean is INVALID:
                raise self._explained(value, walk, "argument") from None
        return self.check(lean)

    def _walked(self, value: object, walk: Walk, noun: str) -> object:
        try:
            return self._node.read(value, "", walk)
        except RecursionError:
            if self._engine is None:
                raise _too_deep(noun) from None
            return value  # the engine can read more levels

    def _fits(self, engine: Engine, value: object, noun: str) -> bool:
        try:
            return bool(engine.is_valid(value))
        except ValueError as error:  # more levels than the engine can read
            raise _too_deep(noun, f" ({error})") from None

    def _explained(self, value: object, walk: Walk, noun: str) -> ShapeError:
        """The problems that the nodes find, then those that only the engine finds, in its own words."""
        places = {spelled(path) for _, (path, *_) in walk.first}
        for error in self._errors(value) if walk.count < SHOWN_PROBLEMS else ():
            path: ValuePath = ""
            for step in error.instance_path:
                path = join(path, step)
            explained = error.schema_path[-1:] in (["anyOf"], ["oneOf"]) and places
            if spelled(path) not in places and not explained:
                walk.refuse(errors.refused, path, error.message)
        if not walk.count:
            walk.refuse(errors.refused, "", "it does not fit the schema, and is too large or too deep to say where")
        return walk.error(noun)

    def _errors(self, value: object) -> Iterable[Any]:
        """What the engine says; nothing where it would list every way through branches that contain each other, or
        quote a large value at each of its levels."""
        if self._engine is None or levels(value) * len(msgspec.json.encode(value)) > QUOTED:
            return ()
        if not affordable(self._compiler.root, value, room=2_000, share=1):
            return ()
        return islice(self._engine.iter_errors(value), ENOUGH)


def _too_deep(noun: str, why: str = "") -> ShapeError:
    return ShapeError([errors.refused("", f"it is nested too deeply{why}")], noun=noun)


def compile_schema(schema: Mapping[str, Any], *, where: str, defaults: bool = False) -> Validator:
    """Check the schema itself and compile it, or raise SchemaError naming `where`.

    >>> compile_schema({"type": "integer"}, where="tool t").check("x")
    Traceback (most recent call last):
    redstart.schema.errors.ShapeError: The argument must be an integer, got the string "x".
    """
    compiler = _Compiler(schema, where, defaults=defaults)
    _refuse_remote(schema, where)
    node = compiler.node(schema, "#")
    compiler.refuse_loops()
    return Validator(compiler, node, _engine(compiler) if compiler.for_engine else None)


QUOTED = 4_000_000  # characters; the engine needs up to ten times as much memory
BACKTRACKED = 10_000  # steps for one text
VALUES = ("const", "enum", "default", "examples")


def _refuse_remote(node: object, where: str) -> None:
    """Refuse every `$ref` that leaves the document, also in keywords that are not built in."""
    if isinstance(node, Mapping):
        for keyword, content in node.items():
            if keyword in ("$ref", "$dynamicRef") and isinstance(content, str) and not content.startswith("#"):
                raise SchemaError(f"{where}: $ref {content!r} leaves the document; only local references are followed")
            if keyword not in VALUES:
                _refuse_remote(content, where)
    elif isinstance(node, list):
        for item in node:
            _refuse_remote(item, where)


DIALECTS = {"https://json-schema.org/draft/2020-12/schema": False, "http://json-schema.org/draft-07/schema": True}


def _is_draft7(schema: Mapping[str, Any], where: str) -> bool:
    """Whether `$schema` names draft-07. Without `$schema` it is 2020-12, as in MCP."""
    named: object = schema.get("$schema", next(iter(DIALECTS)))
    known = DIALECTS.get(named.removesuffix("#")) if isinstance(named, str) else None
    if known is None:
        raise SchemaError(f"{where}: $schema {show(named)} is not supported; these are: {', '.join(DIALECTS)}")
    return known


def _engine(compiler: _Compiler) -> Engine:
    where = compiler.where
    try:
        import jsonschema_rs
    except ImportError:
        raise SchemaError(
            f"{where}: the keyword {', '.join(sorted(compiler.for_engine))} needs the extra validator: "
            'pip install "redstart[validate]"'
        ) from None
    make: Any = jsonschema_rs.Draft7Validator if compiler.draft7 else jsonschema_rs.Draft202012Validator
    # Patterns with look-around or back references are allowed, for a limited number of steps.
    ways = (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKED))
    problem: ValueError | None = None
    for patterns in ways:
        try:
            return make(compiler.root, pattern_options=patterns)  # type: ignore[no-any-return]
        except ValueError as error:
            problem = error
    raise SchemaError(f"{where}: {problem}") from problem
