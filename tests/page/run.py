#!/usr/bin/env python3
"""Tests of the page in a real browser: `tests/page/run.py [PART OF A NAME] [--pictures FOLDER]`.

Needs Chromium, the package `playwright` (its own browsers are not needed), and the built example
`sine_server`. axe-core and TypeScript are downloaded once into `$ACESTEP_PAGE_CACHE`, by default in
the cache of the user. Ends with 77 if something that it needs is absent.
"""

import argparse
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import traceback
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))

AXE = "4.14.1"
TYPESCRIPT = "5.9.3"
NOT_HERE = 77
PAGE = pathlib.Path(__file__).resolve().parents[2] / "runtime/serve/page"


def cache():
    home = os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("ACESTEP_PAGE_CACHE", pathlib.Path(home) / "acestep-page"))


def package(name, version):
    """The folder of an npm package, fetched once; None without a network."""
    folder = cache() / f"{name}-{version}"
    if (folder / "package.json").is_file():
        return folder
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    try:
        with urllib.request.urlopen(f"{registry}/{name}/-/{name}-{version}.tgz", timeout=60) as answer:
            with tarfile.open(fileobj=answer, mode="r|gz") as files:
                files.extractall(cache() / f"{name}-part", filter="data")
        (cache() / f"{name}-part/package").rename(folder)
    except OSError as error:
        print(f"{name} cannot be fetched: {error}", file=sys.stderr)
        return None
    return folder


def axe():
    """axe-core as a file, or None."""
    folder = package("axe-core", AXE)
    return folder and folder / "axe.min.js"


def types():
    """Checks the types of the page's scripts: True, False, or None if that cannot be tried."""
    folder = package("typescript", TYPESCRIPT) if shutil.which("node") else None
    if not folder:
        return None
    flags = "--noEmit --allowJs --checkJs --strict --target es2022 --module es2022 " \
        "--moduleResolution bundler --lib es2023,dom,dom.iterable"
    command = ["node", folder / "bin/tsc", *flags.split(), PAGE / "app.js"]
    return subprocess.run(command, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--pictures", type=pathlib.Path)
    args = parser.parse_args()
    try:
        from playwright import sync_api  # noqa: F401
    except ImportError:
        print("playwright is not installed")
        return NOT_HERE
    import browser

    if not browser.chromium():
        print("there is no Chromium")
        return NOT_HERE
    if not browser.SERVER.is_file():
        print(f"{browser.SERVER} is not built: cargo build --workspace --example sine_server")
        return 1
    from cases import CASES

    failed, untried = [], []
    if not args.pictures and args.part in "types hold":
        hold = types()
        if hold is None:
            untried.append("types hold")
        elif not hold:
            failed.append("types hold")
    server = browser.Server()
    try:
        with browser.browser() as chrome:
            if args.pictures:
                from pictures import draw

                draw(chrome, server, args.pictures)
                return 0
            for test in CASES:
                name = test.__name__.replace("_", " ")
                if args.part not in name:
                    continue
                extra = {}
                if "axe" in inspect.signature(test).parameters:
                    extra["axe"] = axe()
                    if extra["axe"] is None:
                        untried.append(name)
                        continue
                # A busy machine may be too slow once; a fault is there both times.
                for is_last in (False, True):
                    begin = time.monotonic()
                    context = chrome.new_context(accept_downloads=True)
                    try:
                        test(context, server, **extra)
                        print(f"{time.monotonic() - begin:5.1f} s  {name}", flush=True)
                        break
                    except Exception:
                        traceback.print_exc()
                        print(f"{'FAILED' if is_last else 'once more:'}  {name}", flush=True)
                        if is_last:
                            failed.append(name)
                    finally:
                        context.close()
    finally:
        server.end()
    for name in untried:
        print(f"NOT TRIED: {name}")
    if failed:
        print(f"{len(failed)} failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
