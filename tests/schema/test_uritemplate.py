"""RFC 6570 levels 1 to 3, and matching."""

import sys
from types import FrameType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart.schema.uritemplate import Template

# RFC 6570, section 1.2
VALUES = {"var": "value", "hello": "Hello World!", "path": "/foo/bar", "empty": "", "x": "1024", "y": "768"}

RFC = """
{var}                value
{hello}              Hello%20World%21
{+var}               value
{+hello}             Hello%20World!
{+path}/here         /foo/bar/here
here?ref={+path}     here?ref=/foo/bar
X{#var}              X#value
X{#hello}            X#Hello%20World!
map?{x,y}            map?1024,768
{x,hello,y}          1024,Hello%20World%21,768
{+x,hello,y}         1024,Hello%20World!,768
{+path,x}/here       /foo/bar,1024/here
{#x,hello,y}         #1024,Hello%20World!,768
{#path,x}/here       #/foo/bar,1024/here
X{.var}              X.value
X{.x,y}              X.1024.768
{/var}               /value
{/var,x}/here        /value/1024/here
{;x,y}               ;x=1024;y=768
{;x,y,empty}         ;x=1024;y=768;empty
{?x,y}               ?x=1024&y=768
{?x,y,empty}         ?x=1024&y=768&empty=
?fixed=yes{&x}       ?fixed=yes&x=1024
{&x,y,empty}         &x=1024&y=768&empty=
{undef}|             %7C
"""


@pytest.mark.parametrize(("template", "uri"), [line.split() for line in RFC.strip().splitlines()])
def test_expands_the_examples_of_the_rfc(template: str, uri: str) -> None:
    assert Template(template).expand(VALUES) == uri


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{x}", "p,q%20r"),
        ("{?x}", "?x=p,q%20r"),
        ("{?x*}", "?x=p&x=q%20r"),
        ("{/x*}", "/p/q%20r"),
        ("{/x}", "/p,q%20r"),
    ],
)
def test_expands_lists(template: str, uri: str) -> None:
    assert Template(template).expand({"x": ["p", "q r"]}) == uri
    assert Template(template).expand({"x": []}) == ""


MATCHES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("notes://{name}", "notes://todo", {"name": "todo"}),
    ("{scheme}://todo", "notes://todo", {"scheme": "notes"}),
    ("{+uri}", "notes://todo", {"uri": "notes://todo"}),
    ("notes://{name}", "notes://a/b", None),
    ("notes://{name}", "notes://", None),
    ("notes://{name}", "other://x", None),
    ("notes://{name}", "notes://caf%C3%A9", {"name": "café"}),
    ("notes://{name}", "notes://café", {"name": "café"}),
    ("notes://{name}", "notes://a%FF", None),
    ("a.b/{x}", "aXb/1", None),
    ("a.b/{x}", "a.b/1", {"x": "1"}),
    ("f://{name}.{ext}", "f://a.tar.gz", {"name": "a.tar", "ext": "gz"}),
    ("f://{x}/{x}", "f://1/1", {"x": "1"}),
    ("f://{x}/{x}", "f://1/2", None),
    ("f://{x}/{y}", "f://1/2/3", None),
    ("f://{+path}", "f://a/b/c.txt", {"path": "a/b/c.txt"}),
    ("f://{+path}/{name}", "f://a/b/c", {"path": "a/b", "name": "c"}),
    ("f://{+path}{?q}", "f://a/b?q=1", {"path": "a/b", "q": "1"}),
    ("w://{+url}", "w://https://h/p?x=1#f", {"url": "https://h/p?x=1#f"}),
    ("f://{x}{.ext}", "f://a.txt", {"x": "a", "ext": "txt"}),
    ("f://{x}{.ext}", "f://a", {"x": "a"}),
    ("f://h{/a,b}", "f://h/1/2", {"a": "1", "b": "2"}),
    ("f://h{/a,b}", "f://h/1", {"a": "1"}),
    ("f://h{/a,b}", "f://h/1/2/3", None),
    ("f://h{/a*}", "f://h/1/2/3", {"a": ["1", "2", "3"]}),
    ("s://s{?q,n}", "s://s", {}),
    ("s://s{?q,n}", "s://s?n=2&q=a%20b", {"q": "a b", "n": "2"}),
    ("s://s{?q,n}", "s://s?z=2", None),
    ("s://s{?q}", "s://s?q=1&q=2", None),
    ("s://s{?q*}", "s://s?q=1&q=2", {"q": ["1", "2"]}),
    ("s://s?a=1{&q}", "s://s?a=1&q=2", {"q": "2"}),
    ("s://s{;x,y}", "s://s;y=2", {"y": "2"}),
    ("s://s{#f}", "s://s#a/b", {"f": "a/b"}),
    ("s://{x,y}", "s://1,2", {"x": "1", "y": "2"}),
    ("s://fixed", "s://fixed", {}),
    ("s://fixed", "s://fixed2", None),
    ("", "", {}),
]


@pytest.mark.parametrize(("template", "uri", "found"), MATCHES, ids=[f"{t} {u}" for t, u, _ in MATCHES])
def test_match(template: str, uri: str, found: dict[str, Any] | None) -> None:
    assert Template(template).match(uri) == found


UNSAFE = ["..", "%2e%2e", "%252e%252e", "a%2Fb", "a%252Fb", "a%5Cb", "a\\b", "a%00", "a%2500", "%25252525252e"]


@pytest.mark.parametrize("value", UNSAFE)
def test_a_variable_cannot_climb(value: str) -> None:
    assert Template("f://{x}").match(f"f://{value}") is None
    assert Template("f://{?x}").match(f"f://?x={value}") is None
    assert Template("f://{x}", unsafe=["x"]).match(f"f://{value}") is not None


@pytest.mark.parametrize("value", ["../a", "a/../b", "a/..", "a/%2e%2E/b", "a%2f..%2fb", "a\\..\\b"])
def test_a_path_cannot_climb_either(value: str) -> None:
    assert Template("f://{+x}").match(f"f://{value}") is None
    assert Template("f://{+x}", unsafe=["x"]).match(f"f://{value}") is not None


OPERATORS = ["{x}", "{+x}", "h{#x}", "h{.x}", "h{/x}", "h{/x*}", "h{;x}", "h{?x}", "h{?x*}", "h?a=1{&x}"]
ELSEWHERE = [
    "/etc/hostname",
    "//server/share",
    "\\\\server\\share",
    "C:",
    "C:\\a",
    "c:/a",
    "a/../b",
    "..",
    "..\\a",
    "a\0",
]


@pytest.mark.parametrize("value", ELSEWHERE)
@pytest.mark.parametrize("operator", OPERATORS)
def test_no_operator_hands_over_a_path_to_elsewhere(operator: str, value: str) -> None:
    template = Template(f"docs://{operator}")
    raw, encoded = template.expand({"x": "VALUE"}), quote(value, safe="")
    for text in (encoded, encoded.lower(), quote(encoded, safe=""), value):
        assert template.match(raw.replace("VALUE", text)) is None
    unchecked = Template(f"docs://{operator}", unsafe=["x"]).match(raw.replace("VALUE", encoded))
    assert unchecked == {"x": [value] if "*" in operator else value}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("value", ["v1..v2", "...", "a.b", "ab:c", "1:2", ":", "~a", "100%"])
def test_what_only_looks_like_such_a_path_is_handed_over(operator: str, value: str) -> None:
    template = Template(f"docs://{operator}")
    wanted = [value] if "*" in operator else value
    assert template.match(template.expand({"x": wanted})) == {"x": wanted}


def test_a_list_of_segments_is_a_relative_path() -> None:
    template = Template("f://h{/x*}")
    assert template.match("f://h/a//b") == {"x": ["a", "", "b"]}
    assert template.match("f://h//etc/hostname") is None
    assert template.match("f://h/a/C:/b") is None


def test_the_variable_whose_value_is_refused_is_named() -> None:
    template = Template("f://{host}/{+path}")
    assert template.refused("f://h//etc/hostname") == "path must be a relative path, without '..', a backslash or NUL"
    assert template.refused("f://../a") == "host must be one segment, without '..', '/', a backslash or NUL"
    assert template.refused("f://h/etc/hostname") is None
    assert template.refused("g://h//etc/hostname") is None


def test_dots_that_do_not_climb_are_fine() -> None:
    assert Template("f://{+x}").match("f://a..b/...") == {"x": "a..b/..."}


REFUSED = [
    ("{a}{b}", "needs a literal"),
    ("{?a}{+b}", "needs a literal"),
    ("{a", "not closed"),
    ("a}", "without an opening"),
    ("{}", "is not a variable"),
    ("{a b}", "is not a variable"),
    ("{a:3}", "length prefix"),
    ("{a*}", "write {+a}"),
]


@pytest.mark.parametrize(("template", "why"), REFUSED)
def test_refused_templates(template: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("{", r"\{").replace("+", r"\+")):
        Template(template)


def test_unsafe_must_name_a_variable() -> None:
    with pytest.raises(ValueError, match="no variable y"):
        Template("{x}", unsafe=["y"])


def test_variables_in_order() -> None:
    assert Template("{b}/{a}/{b}{?c}").variables == ("b", "a", "c")


def steps(template: Template, uri: str) -> int:
    """How many lines of Python a match executes."""
    count = 0

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return local

    before = sys.gettrace()
    sys.settrace(local)
    try:
        template.match(uri)
    finally:
        sys.settrace(before)
    return count


ADVERSARIAL = [
    ("{a}a{b}a{c}a{d}!", "a"),
    ("{+a}/{+b}/{+c}/{+d}!", "/"),
    ("{+a}a/{b}.{c}", "a/."),
    ("{a}{.b}{.c}{.d}!", "."),
    ("{a}{?b}", "%25"),
    ("{a}aaaaaaaaab{b}", "a"),
    ("{/a*}", "/a"),
    ("{?a*}", "?a=%2e&"),
    ("{+a}", "%252e%252e/"),
    ("{;a,b}", ";a=1"),
]


@pytest.mark.parametrize(("template", "piece"), ADVERSARIAL)
def test_time_is_linear_in_the_uri(template: str, piece: str) -> None:
    small, large = piece * 1000, piece * 4000
    assert steps(Template(template), large) <= 4.5 * steps(Template(template), small)
    Template(template).match(piece * (100_000 // len(piece)))  # a quadratic matcher meets the test's time limit


names = st.sampled_from(["a", "b", "c"])
plain = st.text(alphabet="xyz09-_~ é%&", min_size=1, max_size=8)


@given(st.dictionaries(names, plain, min_size=3, max_size=3))
def test_match_undoes_expand(values: dict[str, str]) -> None:
    template = Template("t://{a}/{b}{?c}", unsafe=["a", "b", "c"])
    assert template.match(template.expand(values)) == values
