"""Copies a GGUF file and stores its routed experts in other formats, with random
codes and moderate scales: gate and up in IQ2_XXS, down in Q2_K, as the files
for antirez/ds4 have them; the output matrix in Q8_0. What such a model says is
nonsense, but finite."""

import math
import random
import struct
import sys

from gguf_header import ALIGNMENT, read_header


def iq2_xxs(codes):
    return struct.pack("<e", 0.004) + codes.randbytes(64)


def q2_k(codes):
    return codes.randbytes(80) + struct.pack("<ee", 0.004, 0.006)


def q8_0(codes):
    return struct.pack("<e", 0.0005) + codes.randbytes(32)


# Name ends with: GGUF type, elements and writer of a block.
FORMATS = {"ffn_gate_exps.weight": (16, 256, iq2_xxs),
           "ffn_up_exps.weight": (16, 256, iq2_xxs),
           "ffn_down_exps.weight": (10, 256, q2_k),
           "output.weight": (8, 32, q8_0)}


def main(source, target):
    data = open(source, "rb").read()
    head, table, start = read_header(data)
    ends = sorted(offset for *_, offset in table) + [len(data) - start]

    codes = random.Random(1)
    entries, body = b"", b""
    for name, dims, kind, offset in table:
        chosen = FORMATS.get(name.decode().split(".", 2)[-1])
        chosen = chosen or FORMATS.get(name.decode())
        if chosen:
            kind, elements, block = chosen
            blocks = math.prod(dims) // elements
            bytes_ = b"".join(block(codes) for _ in range(blocks))
        else:
            end = ends[ends.index(offset) + 1]
            bytes_ = data[start + offset:start + end]
        entries += struct.pack("<Q", len(name)) + name
        entries += struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind,
                               len(body))
        body += bytes_ + bytes(-len(bytes_) % ALIGNMENT)
    head += entries
    open(target, "wb").write(head + bytes(-len(head) % ALIGNMENT) + body)


main(*sys.argv[1:])
