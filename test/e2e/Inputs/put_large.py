"""Copies a GGUF file with the largest finite number as the first 256 values of
an f32 tensor: finite, so that the file loads, and products overflow."""

import struct
import sys

from gguf_header import read_header

LARGEST = 3.4028234e38


def main(source, target, tensor):
    data = bytearray(open(source, "rb").read())
    _, table, start = read_header(bytes(data))
    (offset,) = [offset for name, _, kind, offset in table
                 if name.decode() == tensor and kind == 0]
    struct.pack_into("<256f", data, start + offset, *[LARGEST] * 256)
    open(target, "wb").write(data)


main(*sys.argv[1:])
