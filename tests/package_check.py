"""Builds sdist and wheel, installs the wheel into a fresh virtual environment and runs the three commands."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in argv], cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="flagplot-package-") as folder:
        place = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", place / "dist", ROOT, cwd=place)
        (wheel,) = (place / "dist").glob("*.whl")
        (sdist,) = (place / "dist").glob("*.tar.gz")
        names = zipfile.ZipFile(wheel).namelist()
        for expected in ("flagplot/themes/dark.toml", "flagplot/__init__.py", "flagplotd/__init__.py"):
            if expected not in names:
                sys.exit(f"{wheel.name} lacks {expected}")
        venv.create(place / "venv", with_pip=True)
        run(place / "venv/bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[all]", cwd=place)
        for command in ("flagplot", "flagplotd", "flagplot-agent"):
            print(run(place / "venv/bin" / command, "--version", cwd=place))
        themes = run(
            place / "venv/bin/python", "-c", "from flagplot import theming; print(*theming.names())", cwd=place
        )
        pages = [path.name for path in (place / "venv/share/man").rglob("*.[1-8]")]
        if "flagplot.1" not in pages:
            sys.exit(f"the installed wheel has no manual page flagplot.1, only {pages}")
        print(f"{sdist.name} and {wheel.name} built and installed; themes {themes}; {len(pages)} manual pages")


if __name__ == "__main__":
    main()
