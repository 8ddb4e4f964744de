"""Checks a planned graph (text, standard input) without any code of the
compiler: no two activations that are live at one op share a byte, unless one is
the last reader's result in the place of what it read; offsets are aligned,
everything is inside the arena. Prints one line a function."""
import re
import sys

LEAVES = {"weight", "books", "rotations", "state", "rope_table"}
IN_PLACE = {"rms_norm", "swiglu", "ape_add", "combine"}
TYPE = re.compile(r"(tensor|!ds4\.q8)<([0-9x]+?)(?:x[fi]32)?>")
VALUE = re.compile(r"%[A-Za-z0-9_$.-]+(?:#[0-9]+)?")


def size_of(kind, shape):
    dims = [int(d) for d in shape.split("x")]
    total = 1
    for d in dims:
        total *= d
    # int8 codes and one f32 scale per 32 of them
    return total * 4 if kind == "tensor" else total + total // 32 * 4


def check(name, arena, lines):
    buffers = {}  # value -> [offset, bytes, first, last]
    source = {}  # view or result of a launch -> value
    readers = {}  # value -> (time, line) of each op that reads it
    replaces = {}  # value -> the value in whose place it is
    number = 0
    launch = None  # what the open launch is assigned to
    inside = {}  # its values: name in the text -> name of their own

    def find(value):
        value = inside.get(value, value)
        return source.get(value, value)

    for line in lines:
        results, _, body = line.partition(" = ") if " = ds4." in line \
            else ("", "", line)
        # The ops of a launch run at one time.
        if launch is None:
            number += 1
        if line == "}":
            launch = None
            continue
        op = re.match(r"(?:ds4\.)?(\w+)", body).group(1)
        if op == "launch":
            launch, inside = results, {}
            continue
        operands = [find(v) for v in VALUE.findall(body)]
        if op == "yield":
            base = launch.partition(":")[0]
            for i, value in enumerate(operands):
                source[f"{base}#{i}" if ":" in launch else base] = value
            continue
        for value in operands:
            if value in buffers and op != "reshape":
                readers.setdefault(value, []).append((number, line))
                if op != "trace":
                    buffers[value][3] = number
        names = VALUE.findall(results)
        if not names or op in LEAVES:
            continue
        if launch is not None:
            inside.update((v, f"{v}@{number}") for v in names)
            names = [inside[v] for v in names]
        if op == "reshape":
            source[names[0]] = operands[0]
            continue
        offsets = [int(o) for o in re.search(
            r"ds4\.offsets = array<i64: ([0-9, ]+)>", body).group(1).split(",")]
        types = TYPE.findall(body.rpartition(" : ")[2].rpartition("->")[2])
        assert len(names) == len(offsets) == len(types), line
        for value, offset, type_ in zip(names, offsets, types):
            buffers[value] = [offset, size_of(*type_), number, number]
            if op in IN_PLACE:
                for operand in operands:
                    if operand in buffers and operand != value and \
                            buffers[operand][:2] == buffers[value][:2]:
                        replaces[value] = operand
    # What is replaced has no reader but the op that does it from then on, and
    # becomes one buffer with what replaces it.
    for value, old in reversed(replaces.items()):
        first, last = buffers[value][2:]
        late = [r for r in readers[old] if r[0] >= first]
        assert len(set(late)) == 1, f"{name}: {old} is read after {value}"
        buffers[old][3] = max(buffers[old][3], last)
    made = len(buffers)
    for value in replaces:
        del buffers[value]
    for value, (offset, size, first, last) in buffers.items():
        assert offset % 256 == 0, f"{name}: {value} is at {offset}"
        assert offset + size <= arena, f"{name}: {value} ends past the arena"
        for other, (offset2, size2, first2, last2) in buffers.items():
            if value != other and first <= last2 and first2 <= last:
                assert offset + size <= offset2 or offset2 + size2 <= offset, \
                    f"{name}: {value} and {other} share bytes"
    print(f"{name}: {made} activations, {len(replaces)} in the place of others")


def main():
    name, lines = None, []
    for line in sys.stdin:
        line = line.strip()
        header = re.match(r"func\.func @(\w+)\(.*ds4\.arena_bytes = (\d+)", line)
        if header:
            name, arena, lines = header.group(1), int(header.group(2)), []
            depth = 0
        elif name and line == "}" and not depth:
            check(name, arena, lines)
            name = None
        elif name:
            depth += line.endswith("{") - (line == "}")
            lines.append(line)


main()
