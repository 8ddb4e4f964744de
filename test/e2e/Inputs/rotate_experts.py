"""Copies a GGUF file and declares the odd experts of its p4mix table rotated.
The matrices stay as they are, so what the model says is nonsense, but finite."""

import struct
import sys

MAGIC = b"P4MIXv1\0"

source, target = sys.argv[1:]
with open(source, "rb") as file:
    data = bytearray(file.read())
at = data.index(MAGIC) + len(MAGIC)
entries, at = struct.unpack_from("<I", data, at)[0], at + 8
for _ in range(entries):
    experts, books, levels = struct.unpack_from("<4xI8xII", data, at)
    at += 24 + experts  # header, modes
    data[at + 1:at + experts:2] = b"\x01" * len(range(1, experts, 2))
    at += experts + 2 * experts * books * levels
with open(target, "wb") as file:
    file.write(data)
