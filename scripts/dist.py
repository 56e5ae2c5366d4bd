"""Build the sdist, and the wheel from the sdist; then run the smoke part of the tests against the installed wheel.

    make dist

The environment for the tests is made afresh each time, and knows nothing of src/.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SMOKE = ["tests/wire", "tests/protocol", "tests/cli/test_run.py", "tests/cli/configs", "tests/test_public_names.py"]
WHERE = "import redstart, sys; print(redstart.__file__); sys.exit(not redstart.__file__.startswith(sys.prefix))"


def run(*command: object) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True, timeout=900)


def environment(name: str) -> Path:
    """The interpreter of a new virtual environment."""
    folder = ROOT / ".venv" / name
    run(sys.executable, "-m", "venv", "--clear", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip")
    return python


def build() -> tuple[Path, Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    python = environment("dist-build")
    run(python, "-m", "pip", "install", "--quiet", "build>=1.2")
    run(python, "-m", "build", "--outdir", DIST, ".")  # the wheel is made from the sdist
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """What must be in them, and what must not be."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    with tarfile.open(sdist) as archive_of_sources:
        sources = archive_of_sources.getnames()
    written = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if _is_part(path)}
    if missing := written - set(names):
        sys.exit(f"not in the wheel: {', '.join(sorted(missing))}")
    if alien := [name for name in names if not name.startswith(("redstart/", "redstart-"))]:
        sys.exit(f"in the wheel, but not of redstart: {', '.join(alien)}")
    for needed in ("pyproject.toml", "README.md", "LICENSE", "tests/support.py"):
        if not any(name.endswith(f"/{needed}") for name in sources):
            sys.exit(f"not in the sdist: {needed}")
    if unwanted := [name for name in sources if "/.venv/" in name or "/.node/" in name or "/.git/" in name]:
        sys.exit(f"in the sdist: {unwanted[0]} and {len(unwanted) - 1} more")


def _is_part(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)


def main() -> int:
    sdist, wheel = build()
    check_contents(sdist, wheel)
    python = environment("dist-test")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(python, "-I", "-c", WHERE)
    run(python.parent / "redstart", "--version")  # with no extra installed
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[client,auth,seal,validate,dev,redis,postgres,otel]")
    run(python, "-m", "pip", "install", "--quiet", "--group", "test")
    run(python, "-I", "-c", WHERE)
    run(python, "-P", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *SMOKE)
    print(f"{sdist.name} and {wheel.name} are good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
