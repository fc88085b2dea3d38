"""Packs a program to carry it beside this repository's files, and unpacks it there.

    gpu_pack.py pack PROGRAM PACKED
    gpu_pack.py unpack PACKED PROGRAM

The program holds copies of goldens and pages that are carried anyway. They become zeros, and a list of their
places goes ahead. The rest is LZMA.
"""

import hashlib
import json
import lzma
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A shorter copy saves less than its place in the list.
LEAST = 4096
# Jumps of x86 become absolute, so that calls of one function are alike; one window spans the program.
FILTERS = [
    {"id": lzma.FILTER_X86},
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27},
]


def pack(program, packed):
    data = bytearray(pathlib.Path(program).read_bytes())
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    digest, copies = hashlib.sha256(data).hexdigest(), []
    for name in filter(None, names):
        path = ROOT / name
        own = path.read_bytes() if path.is_file() else b""
        place = data.find(own) if len(own) >= LEAST else -1
        if place >= 0:
            copies.append([name, place])
            data[place : place + len(own)] = bytes(len(own))
    with lzma.open(packed, "wb", filters=FILTERS) as out:
        out.write(json.dumps([digest, copies]).encode() + b"\n")
        out.write(data)


def unpack(packed, program):
    with lzma.open(packed) as source:
        digest, copies = json.loads(source.readline())
        data = bytearray(source.read())
    for name, place in copies:
        own = (ROOT / name).read_bytes()
        data[place : place + len(own)] = own
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"gpu-check: {packed} was packed beside other files: run gpu-check --prepare again")
    pathlib.Path(program).write_bytes(data)


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
