"""Reads the header of a GGUF file, for scripts of tests that change one."""

import struct

ALIGNMENT = 32


class Reader:
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        size = struct.calcsize(code)
        self.at += size
        return struct.unpack_from("<" + code, self.data, self.at - size)[0]

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip_value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip_value(element)
        else:
            self.at += self.SIZES[kind]


def read_header(data):
    """The bytes before the tensor table; (name, dims, type, offset) of each
    tensor; where the tensors' data begin."""
    reader = Reader(data)
    reader.number("I"), reader.number("I")
    tensors, pairs = reader.number("Q"), reader.number("Q")
    for _ in range(pairs):
        reader.text()
        reader.skip_value(reader.number("I"))
    head = data[:reader.at]
    table = []
    for _ in range(tensors):
        name = reader.text()
        dims = [reader.number("Q") for _ in range(reader.number("I"))]
        table.append((name, dims, reader.number("I"), reader.number("Q")))
    return head, table, -(-reader.at // ALIGNMENT) * ALIGNMENT
