"""Files as resources. No URI and no symbolic link leads out of the directory that is served.

The components of a path are opened one after the other, each relative to the directory before it, and links are not
followed. If the platform cannot do that, the resolved path is compared with the root. A file that may not be read and a
file that does not exist get the same answer.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Unpack, cast

from redstart.features.completion import Completer, starting_with
from redstart.features.errors import RegistrationError, ToolError, log
from redstart.features.options import DirectoryOptions, FileOptions, ResourceOptions
from redstart.features.registry import Compiler
from redstart.features.resources import BYTES, TEXT, CompiledResource, Resource
from redstart.features.rules import PATH, REQUIRED_TEXT, checked, showing
from redstart.wire import types as t

MAX_LISTED: Final = 1000
MAX_WALKED: Final = 20_000
MAX_PATH: Final = 4096
"""Characters of a path: longer ones name no file, and resolving them takes time that is quadratic in their length."""

_READ: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
STEPWISE: Final = bool(_NOFOLLOW and _DIRECTORY) and os.open in os.supports_dir_fd
"""Whether this platform opens relative to a directory, and refuses links while it does."""

# The library's own table only: what the machine's /etc/mime.types says must not change an answer.
_TYPES: Final = mimetypes.MimeTypes()
for _ending, _type in ((".md", "text/markdown"), (".toml", "application/toml"), (".yaml", "application/yaml")):
    _TYPES.add_type(_type, _ending)
_FORBIDDEN: Final = frozenset("/\\\0:" if os.name == "nt" else "/\\\0")
_COMPRESSED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


class File(Resource):
    """One file as a resource; it is read anew each time.

    >>> File("docs://readme", "README.md").mime_type
    'text/markdown'
    """

    @showing(FileOptions)
    def __init__(self, uri: str, path: str | os.PathLike[str], name: str = "", **options: Unpack[FileOptions]) -> None:
        self.path = Path(PATH.check(f"path of {name or uri}", path))
        given = checked(FileOptions, "a File", options, after=f" of {name or uri}")
        self.max_size = given["max_size"]
        self._folder = os.path.realpath(self.path.parent)
        given["mime_type"] = given["mime_type"] or guess(self.path.name)
        super().__init__(uri, name or self.path.name, **_of_resource(given))
        self.handler = self.read
        if self.template is not None:
            raise RegistrationError(f"{self.place}: a File has one URI; use Directory for a template")
        if self.path.is_symlink() or self.path.is_dir():
            what = "a symbolic link" if self.path.is_symlink() else "a directory"
            raise RegistrationError(f"{self.place}: {self.path} is {what}; give the file itself")
        if not self.path.exists():
            raise RegistrationError(f"{self.place}: there is no file {_absolute(self.path)}")

    def read(self, uri: str) -> t.ResourceContents | None:
        """The contents of the file, or None if it does not exist."""
        return load(self._folder, [self.path.name], uri, self.mime_type, self.max_size)


class Directory(Resource):
    """The files below a directory, as a template.

    `"files://docs/{+path}"`, or just `"files://docs/"`, reaches all levels; `"files://docs/{name}"` only the first.
    Files whose names begin with a dot are served with `hidden=True` only; with `listing=True` the URI before the
    variable lists all files, one URI a line.

    >>> Directory("files://docs/", ".").uri
    'files://docs/{+path}'
    """

    @showing(DirectoryOptions)
    def __init__(
        self, uri: str, root: str | os.PathLike[str], name: str = "", **options: Unpack[DirectoryOptions]
    ) -> None:
        self.root = os.path.realpath(PATH.check(f"root of {name or uri}", root))
        given = checked(DirectoryOptions, "a Directory", options, after=f" of {name or uri}")
        self.max_size, self.hidden = given["max_size"], given["hidden"]
        uri = REQUIRED_TEXT.check("uri", uri)
        uri = uri if "{" in uri else f"{uri}{'' if uri.endswith('/') else '/'}{{+path}}"
        super().__init__(uri, name or Path(self.root).name, **_of_resource(given))
        self.handler = self.read
        variable = self.argument_names()[0]
        self._deep = f"{{+{variable}}}" in self.uri
        if self.argument_names() != (variable,) or not (self._deep or f"{{{variable}}}" in self.uri):
            raise RegistrationError(f"{self.place}: a Directory has one variable, {{path}} or {{+path}}")
        if not os.path.isdir(self.root):
            raise RegistrationError(f"{self.place}: there is no directory {_absolute(Path(root))}")
        self._list = (self._make_list(),) if given["listing"] else ()
        self._left_out = ""

    def compile(self, compiler: Compiler) -> CompiledResource:
        compiled = super().compile(compiler)
        variable = self.argument_names()[0]
        completer = Completer(self.complete, variable, self.place)
        completer.compile(compiler)
        compiled.completers = {variable: completer}
        return compiled

    def companions(self) -> Sequence[Resource]:
        """The list of the files, where it is wanted."""
        return self._list

    def _make_list(self) -> Resource:
        base = self.uri[: self.uri.index("{")]
        return Resource(
            base,
            self.name,
            handler=self.uris,
            description=f"The files below {base}",
            mime_type="text/uri-list",
            cache=self.cache,
            visible=self.visible,
            scopes=self.scopes,
            tags=self.tags,
        )

    # ------------------------------------------------------------ handlers

    def read(self, uri: str) -> t.ResourceContents | None:
        """The contents of the file that `uri` names, or None if it does not exist."""
        variables = self.template.match(uri) if self.template is not None else None
        path = next(iter(variables.values()), "") if variables else ""
        if not isinstance(path, str) or len(path) > MAX_PATH:
            return None
        parts = path.split("/")
        if not all(_is_name(part) and (self.hidden or part[0] != ".") for part in parts):
            return None
        return load(self.root, parts, uri, self.mime_type, self.max_size)

    def uris(self) -> str:
        """The URI of each file, one a line."""
        lines = [self._uri(path) for path in islice(self.paths(), MAX_LISTED + 1)]
        if len(lines) > MAX_LISTED:
            lines[MAX_LISTED:] = [f"# and more: only {MAX_LISTED} files are listed"]
        return "\r\n".join(lines)

    def complete(self, typed: str) -> list[str]:
        """The paths that begin with what was typed."""
        return starting_with(islice(self.paths(), MAX_WALKED), typed)

    def _uri(self, path: str) -> str:
        assert self.template is not None
        # {+path} takes what looks like an escape as one; a file whose name looks so needs its % escaped.
        return self.template.expand({self.argument_names()[0]: path.replace("%", "%25") if self._deep else path})

    def paths(self) -> Iterator[str]:
        """The paths of the files that can be read, in order."""
        for folder, folders, files in os.walk(self.root, followlinks=False):
            folders[:] = sorted(name for name in folders if self._deep and (self.hidden or name[0] != "."))
            prefix = os.path.relpath(folder, self.root).replace(os.sep, "/")
            for name in sorted(files):
                if (self.hidden or name[0] != ".") and _is_regular(os.path.join(folder, name)):
                    path = name if prefix == "." else f"{prefix}/{name}"
                    if self._has_uri(path):
                        yield path

    def _has_uri(self, path: str) -> bool:
        """Whether a URI can name the file. The first file for which that is not so is logged."""
        if _is_utf8(path) and self.allows(self.argument_names()[0], path):
            return True
        if not self._left_out:
            self._left_out = path
            why = "their names are not UTF-8, or look like a path to elsewhere"
            log.warning("%s: files such as %r are not served: %s", self.place, path, why)
        return False


def _is_utf8(name: str) -> bool:
    """Whether a file name is UTF-8: Python keeps other bytes as surrogates, which no message can carry."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_resource(given: FileOptions) -> ResourceOptions:
    """The options that every resource has. Without a description, the docstring of our handler must not be used."""
    rest = {name: value for name, value in given.items() if name in ResourceOptions.__annotations__}
    return cast(ResourceOptions, {**rest, "description": given["description"] or ""})


def _absolute(path: Path) -> str:
    """The whole path, and what a relative one is relative to."""
    if path.is_absolute():
        return str(path)
    return (
        f'{path.absolute()}: "{path}" is relative to where the process was started; for a path beside the code '
        f'write Path(__file__).parent / "{path}"'
    )


def _is_name(part: str) -> bool:
    """Whether `part` is the plain name of something in a directory, on any platform."""
    return part not in ("", ".", "..") and not _FORBIDDEN & set(part)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:  # it has just been deleted
        return False


# ---------------------------------------------------------------- reading


def load(root: str, parts: Sequence[str], uri: str, mime_type: str | None, limit: int) -> t.ResourceContents | None:
    """The contents of the file at `parts` below `root`, None where nothing may be read."""
    try:
        data = _data(root, parts, limit)
    except (OSError, ValueError):
        return None
    if data is None:
        raise ToolError(f"{parts[-1]} is larger than the {limit} bytes that this server reads of a file")
    kind = mime_type or guess(parts[-1])
    text = _text(data)
    if text is None:
        return t.ResourceContents(uri, kind or BYTES, blob=data)
    return t.ResourceContents(uri, kind or TEXT, text=text)


def _data(root: str, parts: Sequence[str], limit: int) -> bytes | None:
    """The bytes of a regular file, None if they are too many."""
    fd = open_below(root, parts) if STEPWISE else open_resolved(root, parts)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        chunks: list[bytes] = []
        left = limit + 1 if status.st_size <= limit else 0  # one more than allowed, because a file may grow
        while left > 0 and (chunk := os.read(fd, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks) if left > 0 else None
    finally:
        os.close(fd)


def open_below(root: str, parts: Sequence[str]) -> int:
    """A descriptor of the file at `parts` below `root`, reached without following any link."""
    at = os.open(root, _READ | _DIRECTORY | _NOFOLLOW)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, _READ | _DIRECTORY | _NOFOLLOW, dir_fd=at)
            os.close(at)
            at = deeper
        return os.open(parts[-1], _READ | _NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def open_resolved(root: str, parts: Sequence[str]) -> int:
    """As `open_below`, by comparing the resolved path: for platforms that cannot walk by descriptors."""
    wanted = os.path.join(root, *parts)
    if os.path.normcase(os.path.realpath(wanted)) != os.path.normcase(os.path.normpath(wanted)):
        raise OSError("a link on the way")
    return os.open(wanted, _READ)


def _text(data: bytes) -> str | None:
    """The data as text, or None if it is not UTF-8 text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def guess(name: str) -> str | None:
    """The MIME type that a file name suggests."""
    kind, encoding = _TYPES.guess_type(name)
    return _COMPRESSED.get(encoding, BYTES) if encoding else kind
