#!/usr/bin/env python3
"""Peak memory of ds4quant on a large file.

Writes an f16 GGUF with experts of Flash's shapes, and moments of their inputs,
quantises it and prints what that took. Values are of no model: one megabyte of
normally distributed ones, over and over.

    bench/quantise_memory.py build/release/bin/ds4quant --folder=/tmp --experts=64
"""

import argparse
import itertools
import pathlib
import random
import resource
import struct
import subprocess
import time

ALIGNMENT = 32
COLUMNS, ROWS, BLOCK = 4096, 2048, 128
F32, F16, STRING = 0, 1, 8


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def write_gguf(path, tensors):
    """`tensors`: name, dims (fastest first), type id, iterator of bytes."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1)
    header += text("general.architecture") + struct.pack("<I", STRING)
    header += text("deepseek4")
    offset = 0
    for name, dims, type_id, _ in tensors:
        header += text(name) + struct.pack("<I", len(dims))
        header += b"".join(struct.pack("<Q", d) for d in dims)
        header += struct.pack("<IQ", type_id, offset)
        size = 2 if type_id == F16 else 4
        for d in dims:
            size *= d
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(header.ljust(-(-len(header) // ALIGNMENT) * ALIGNMENT,
                                b"\0"))
        for _, _, _, pieces in tensors:
            for piece in pieces:
                file.write(piece)
            file.write(b"\0" * (-file.tell() % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ds4quant")
    parser.add_argument("--folder", type=pathlib.Path, default="/tmp")
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--recipe", default="strix")
    parser.add_argument("--search", default="reference")
    parser.add_argument("--limit-mb", type=int, default=400)
    options = parser.parse_args()

    draw = random.Random(1)
    values = [draw.gauss(0, 0.02) for _ in range(1 << 19)]
    megabyte = struct.pack(f"<{len(values)}e", *values)
    dims = {"gate": [COLUMNS, ROWS], "down": [ROWS, COLUMNS]}
    model, matrix = [], []
    for kind, (columns, rows) in dims.items():
        name = f"blk.0.ffn_{kind}_exps.weight"
        experts = options.experts
        pieces = columns * rows * experts * 2 >> 20
        model.append((name, [columns, rows, experts], F16,
                      itertools.repeat(megabyte, pieces)))
        # Inputs are independent: moments are diagonal.
        unit = b"".join(struct.pack("<f", 1000.0 if i % BLOCK == j else 0.0)
                        for i in range(columns) for j in range(BLOCK))
        squares = struct.pack("<f", 1000.0) * columns
        matrix += [
            (name + ".in_sum2", [columns, experts], F32,
             itertools.repeat(squares, experts)),
            (name + ".counts", [1, experts], F32,
             itertools.repeat(struct.pack("<f", 1000.0), experts)),
            (name + ".in_moment", [BLOCK, columns, experts], F32,
             itertools.repeat(unit, experts)),
        ]
    source = options.folder / "quantise_memory.gguf"
    moments = options.folder / "quantise_memory.imatrix.gguf"
    out = options.folder / "quantise_memory.out.gguf"
    try:
        write_gguf(source, model)
        write_gguf(moments, matrix)
        begin = time.monotonic()
        subprocess.run([options.ds4quant, source, "-o", out,
                        f"--recipe={options.recipe}", f"--imatrix={moments}",
                        f"--search={options.search}"], check=True)
        seconds = time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{source.stat().st_size / 1e9:.2f} GB in {seconds:.0f} s, peak "
              f"memory {peak:.0f} MiB")
        if peak > options.limit_mb:
            raise SystemExit(f"more than {options.limit_mb} MiB")
    finally:
        for path in (source, moments, out):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
