"""Copies a GGUF file with a NaN as the first value of an f32 tensor."""

import struct
import sys

from gguf_header import read_header


def main(source, target, tensor):
    data = bytearray(open(source, "rb").read())
    _, table, start = read_header(bytes(data))
    (offset,) = [offset for name, _, kind, offset in table
                 if name.decode() == tensor and kind == 0]
    struct.pack_into("<f", data, start + offset, float("nan"))
    open(target, "wb").write(data)


main(*sys.argv[1:])
