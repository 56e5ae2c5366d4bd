"""Files as resources: what can be read, and that nothing else can."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import Directory, File, RegistrationError, Server, ToolError
from redstart.features import files
from support import ERAS, MODERN, NOVEMBER, ask, capabilities, refused

pytestmark = [pytest.mark.parametrize("era", ERAS), pytest.mark.requirement("86", "88", "89")]
NOT_FOUND = {NOVEMBER: -32002, MODERN: -32602}

needs_links = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs symbolic links")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory to serve; its parent has a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "docs"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a.txt").write_text("plain")
    (root / "b.md").write_text("# title")
    (root / "c.png").write_bytes(b"\x89PNG\x00")
    (root / "odd 100%41.txt").write_text("odd")
    (root / "deep" / "er" / "d.json").write_text("{}")
    (root / ".env").write_text("KEY=1")
    return root


@pytest.fixture(params=["by descriptor", "by comparing"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of opening: the second is for platforms that lack the first."""
    if request.param == "by comparing":
        monkeypatch.setattr(files, "STEPWISE", False)
    elif not files.STEPWISE:
        pytest.skip("this platform cannot open relative to a directory")


def serving(root: Path, uri: str = "files://docs/", **options: Any) -> Server:
    return Server("s", resources=[Directory(uri, root, **options)])


def read(server: Server, era: str, uri: str) -> dict[str, Any]:
    (contents,) = ask(server, era, "resources/read", uri=uri)["contents"]
    found: dict[str, Any] = contents
    return found


# ---------------------------------------------------------------- one file


def test_a_file_is_read_anew_each_time(era: str, root: Path) -> None:
    server = Server("s", resources=[File("docs://b", root / "b.md")])
    assert ask(server, era, "resources/list")["resources"] == [
        {"uri": "docs://b", "name": "b.md", "mimeType": "text/markdown"}
    ]
    assert read(server, era, "docs://b") == {"uri": "docs://b", "mimeType": "text/markdown", "text": "# title"}
    (root / "b.md").write_text("# other")
    assert read(server, era, "docs://b")["text"] == "# other"
    (root / "b.md").unlink()
    error = refused(server, era, "resources/read", uri="docs://b")
    assert (error["code"], error["data"]) == (NOT_FOUND[era], {"uri": "docs://b"})


@needs_links
def test_a_file_that_becomes_a_link_is_no_longer_served(era: str, root: Path, each_way: None) -> None:
    server = Server("s", resources=[File("docs://a", root / "a.txt")])
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(root.parent / "secret.txt")
    assert refused(server, era, "resources/read", uri="docs://a")["code"] == NOT_FOUND[era]
    with pytest.raises(RegistrationError, match="symbolic link"):
        File("docs://a", root / "a.txt")


# ---------------------------------------------------------------- a directory


def test_files_are_text_or_blob_by_their_content(era: str, root: Path, each_way: None) -> None:
    server = serving(root)
    template = ask(server, era, "resources/templates/list")["resourceTemplates"][0]
    assert (template["uriTemplate"], template["name"]) == ("files://docs/{+path}", "docs")
    assert read(server, era, "files://docs/a.txt") == {
        "uri": "files://docs/a.txt",
        "mimeType": "text/plain",
        "text": "plain",
    }
    assert read(server, era, "files://docs/c.png") == {
        "uri": "files://docs/c.png",
        "mimeType": "image/png",
        "blob": "iVBORwA=",
    }
    assert read(server, era, "files://docs/deep/er/d.json")["mimeType"] == "application/json"
    (root / "latin.txt").write_bytes(b"caf\xe9")
    assert read(server, era, "files://docs/latin.txt")["blob"] == "Y2Fm6Q=="


def test_a_plain_variable_reaches_the_first_level_only(era: str, root: Path) -> None:
    server = serving(root, "files://docs/{name}")
    assert read(server, era, "files://docs/a.txt")["text"] == "plain"
    assert refused(server, era, "resources/read", uri="files://docs/deep/er/d.json")["code"] == NOT_FOUND[era]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "deep/../../secret.txt",
        "deep/../a.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "%252e%252e/secret.txt",
        "..\\secret.txt",
        "..%5Csecret.txt",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "//etc/passwd",
        "./a.txt",
        "deep//er/d.json",
        "a.txt/",
        "a.txt%00",
        "a.txt%00.png",
        "deep",
        "deep/er",
        "a.txt/b",
        "nothing",
        ".env",
        "C:/windows/win.ini",
        "x" * 5000,
        "%FF",
    ],
)
def test_no_uri_leads_out_or_to_what_is_no_file(era: str, root: Path, each_way: None, path: str) -> None:
    for uri in ("files://docs/", "files://docs/{path}"):
        error = refused(serving(root, uri), era, "resources/read", uri=f"files://docs/{path}")
        assert error["code"] == NOT_FOUND[era]
        assert "secret" not in error["message"].replace(f"files://docs/{path}", "")


def test_a_path_of_any_length_takes_time_in_proportion(era: str, root: Path, each_way: None) -> None:
    directory = Directory("files://docs/", root)
    assert directory.read("files://docs/" + "a/" * 500_000 + "a") is None  # minutes, where time is quadratic


@needs_links
def test_no_link_leads_out(era: str, root: Path, each_way: None) -> None:
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to(root.parent, target_is_directory=True)
    (root / "inside.txt").symlink_to(root / "a.txt")
    (root / "deep" / "loop").symlink_to(root / "deep" / "loop")
    server = serving(root)
    for path in ("link.txt", "up/secret.txt", "up/docs/a.txt", "inside.txt", "deep/loop", "deep/loop/x"):
        assert refused(server, era, "resources/read", uri=f"files://docs/{path}")["code"] == NOT_FOUND[era]


@needs_links
def test_a_root_may_itself_be_reached_by_a_link(era: str, root: Path, each_way: None) -> None:
    (root.parent / "alias").symlink_to(root, target_is_directory=True)
    assert read(serving(root.parent / "alias"), era, "files://docs/a.txt")["text"] == "plain"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_neither_blocks_nor_reads(era: str, root: Path, each_way: None) -> None:
    os.mkfifo(root / "pipe")
    assert refused(serving(root), era, "resources/read", uri="files://docs/pipe")["code"] == NOT_FOUND[era]


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs /dev/fd")
def test_no_descriptor_is_left_open(era: str, root: Path, each_way: None) -> None:
    directory = Directory("files://docs/", root, max_size=4)
    uris = [f"files://docs/{path}" for path in ("c.png", "deep", "deep/er", "nothing", "deep/er/d.json", "a.txt/b")]

    def read_all() -> None:
        for uri in uris:
            try:
                directory.read(uri)
            except ToolError:
                continue

    read_all()
    before = len(os.listdir("/dev/fd"))
    read_all()
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_beyond_the_limit_is_refused_with_the_limit(era: str, root: Path) -> None:
    (root / "big.txt").write_text("x" * 11)
    (root / "fits.txt").write_text("x" * 10)
    server = serving(root, max_size=10)
    assert read(server, era, "files://docs/fits.txt")["text"] == "x" * 10
    error = refused(server, era, "resources/read", uri="files://docs/big.txt")
    assert error["code"] == -32603
    assert "big.txt" in error["message"]
    assert "10 bytes" in error["message"]
    assert str(root) not in error["message"]


def test_hidden_files_are_served_if_asked_for(era: str, root: Path) -> None:
    server = serving(root, hidden=True)
    assert read(server, era, "files://docs/.env")["text"] == "KEY=1"


# ---------------------------------------------------------------- listing and completing


@needs_links
def test_a_listing_names_what_can_be_read_and_each_of_it_can(era: str, root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to(root.parent, target_is_directory=True)
    directory = Directory("files://docs/", root, listing=True)
    server = Server("s", resources=[directory])
    assert [r["uri"] for r in ask(server, era, "resources/list")["resources"]] == ["files://docs/"]
    listed = read(server, era, "files://docs/")
    assert listed["mimeType"] == "text/uri-list"
    uris = listed["text"].split("\r\n")
    assert uris == [
        "files://docs/a.txt",
        "files://docs/b.md",
        "files://docs/c.png",
        "files://docs/odd%20100%2541.txt",
        "files://docs/deep/er/d.json",
    ]
    for uri in uris:
        read(server, era, uri)
    assert read(server, era, uris[3])["text"] == "odd"
    server.remove(directory)
    assert len(server.resources) == len(server.templates) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are not UTF-8")
def test_names_that_no_uri_can_carry_are_left_out_with_a_log_line(
    era: str, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "deep" / os.fsdecode(b"caf\xe9.txt")).write_text("latin-1")
    (root / os.fsdecode(b"fold\xe9r")).mkdir()
    (root / os.fsdecode(b"fold\xe9r") / "inside.txt").write_text("x")
    (root / "back\\slash.txt").write_text("x")
    server = serving(root, listing=True)
    listed = read(server, era, "files://docs/")["text"].split("\r\n")
    assert [uri.removeprefix("files://docs/") for uri in listed] == [
        "a.txt", "b.md", "c.png", "odd%20100%2541.txt", "deep/er/d.json",
    ]  # fmt: skip
    params = {"ref": {"type": "ref/resource", "uri": "files://docs/{+path}"}, "argument": {"name": "path", "value": ""}}
    assert len(ask(server, era, "completion/complete", **params)["completion"]["values"]) == 5
    said = [record.getMessage() for record in caplog.records if "not served" in record.getMessage()]
    assert [line.partition(": ")[2] for line in said] == [  # behind the file and line that made it
        "the resource files://docs/{+path}: files such as 'back\\\\slash.txt' are not served: "
        "their names are not UTF-8, or look like a path to elsewhere"
    ]


def test_a_flat_directory_lists_its_first_level(era: str, root: Path) -> None:
    server = serving(root, "files://docs/{name}", listing=True)
    uris = read(server, era, "files://docs/")["text"].split("\r\n")
    assert len(uris) == 4
    assert read(server, era, uris[3])["text"] == "odd"


def test_a_long_listing_is_cut_and_says_so(era: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LISTED", 2)
    lines = read(serving(root, listing=True), era, "files://docs/")["text"].split("\r\n")
    assert lines == ["files://docs/a.txt", "files://docs/b.md", "# and more: only 2 files are listed"]


def test_without_listing_nothing_is_listed(era: str, root: Path) -> None:
    assert ask(serving(root), era, "resources/list")["resources"] == []


def test_paths_complete(era: str, root: Path) -> None:
    server = serving(root)
    assert "completions" in capabilities(server, era)
    params = {"ref": {"type": "ref/resource", "uri": "files://docs/{+path}"}}
    for typed, values in (("deep", ["deep/er/d.json"]), ("A", ["a.txt"]), (".", [])):
        argument = {"name": "path", "value": typed}
        found = ask(server, era, "completion/complete", **params, argument=argument)["completion"]
        assert found["values"] == values


# ---------------------------------------------------------------- registration


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda root: Directory("files://{a}/{b}", root), "one variable"),
        (lambda root: Directory("files://x{?path}", root), "one variable"),
        (lambda root: Directory("files://", root / "a.txt"), "no directory"),
        (lambda root: File("files://{a}", root / "a.txt"), "Directory"),
        (lambda root: File("files://a", root), "a directory"),
    ],
)
def test_what_cannot_be_served_fails_at_once(era: str, root: Path, make: Any, words: str) -> None:
    with pytest.raises(RegistrationError, match=words):
        make(root)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", "text/markdown"),
        ("a.tar.gz", "application/gzip"),
        ("a.py", "text/x-python"),
        ("a", None),
        ("a.yaml", "application/yaml"),
    ],
)
def test_types_are_guessed_by_name_alike_on_all_machines(era: str, name: str, kind: str | None) -> None:
    assert files.guess(name) == kind
