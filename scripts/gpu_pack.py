"""Packs a program to carry it beside this repository's files, and unpacks it there.

    gpu_pack.py pack PROGRAM PACKED
    gpu_pack.py unpack PACKED PROGRAM

What no step of a visit reads is left out: jieba's dictionary and the font of plots, 2.4 MB. The program also holds
copies of goldens and pages that are carried anyway. They become zeros, and a list of their places goes ahead. The
rest is LZMA. Unpacking prints the commit.
"""

import concurrent.futures
import hashlib
import json
import lzma
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A shorter copy saves less than its place in the list.
LEAST = 4096
# A shorter frame of zstd may be something else.
LEAST_FRAME = 1 << 20
# Settings of LZMA, of which the best is kept: the bits that tell most about the next byte.
SETTINGS = [{"lc": 3, "pb": 2}, {"lc": 3, "pb": 0}, {"lc": 4, "pb": 0}]


def zstd_end(data, start):
    """The end of the zstd frame (RFC 8878) that begins at `start`; -1 if there is none."""
    flags = data[start + 4]
    single = flags >> 5 & 1
    at = start + 6 - single + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    last = 0
    while not last and at + 3 <= len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        # No block is larger, and there are three kinds.
        if kind == 3 or size > 1 << 17:
            return -1
        at += 3 + (1 if kind == 1 else size)
    return at if last and at <= len(data) else -1


def unread(data):
    """Yields places and lengths of what no step reads."""
    start = -1
    while (start := data.find(b"\x28\xb5\x2f\xfd", start + 1)) >= 0:
        if (end := zstd_end(data, start)) - start >= LEAST_FRAME:
            yield start, end - start
    crates = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo", "registry/src")
    for path in crates.glob("*/dejavu-*/assets/*/ttf/DejaVuSans.ttf"):
        font = path.read_bytes()
        if (start := data.find(font)) >= 0:
            yield start, len(font)


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE).stdout


def squeezed(data, setting):
    # Jumps of x86 become absolute, so that calls of one function are alike; one window spans the program.
    last = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27, **setting}
    return lzma.compress(data, filters=[{"id": lzma.FILTER_X86}, last])


def pack(program, packed):
    data = bytearray(pathlib.Path(program).read_bytes())
    for start, length in list(unread(data)):
        print(f"left out: {length} bytes at {start}, which no step reads")
        data[start : start + length] = bytes(length)
    digest, copies = hashlib.sha256(data).hexdigest(), []
    for name in filter(None, git("ls-files", "-z").split("\0")):
        path = ROOT / name
        own = path.read_bytes() if path.is_file() else b""
        place = data.find(own) if len(own) >= LEAST else -1
        if place >= 0:
            copies.append([name, place])
            data[place : place + len(own)] = bytes(len(own))
    commit = git("rev-parse", "--short", "HEAD").strip()
    whole = json.dumps([digest, copies, commit]).encode() + b"\n" + data
    # LZMA runs beside Python; two at once, for each takes more than a gigabyte.
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        best = min(threads.map(lambda setting: squeezed(whole, setting), SETTINGS), key=len)
    pathlib.Path(packed).write_bytes(best)


def unpack(packed, program):
    with lzma.open(packed) as source:
        digest, copies, commit = json.loads(source.readline())
        data = bytearray(source.read())
    for name, place in copies:
        path = ROOT / name
        own = path.read_bytes() if path.is_file() else b""
        data[place : place + len(own)] = own
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"gpu-check: {packed} was packed beside other files: run gpu-check --prepare again")
    # A process that hangs may still run the file of the last visit, which cannot be written then.
    pathlib.Path(program).unlink(missing_ok=True)
    pathlib.Path(program).write_bytes(data)
    print(commit)


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
