"""Holds gfx1151 code objects to what emitted kernels promise.

usage: check_isa.py OBJDUMP BUNDLE FOLDER   (FOLDER/UNIT.elf of each unit)
       check_isa.py OBJDUMP OBJECT...

- Instructions that read other lanes (permlane, DPP8, matrix instructions) run
  with all lanes on: LLVM 17 to 19 move them under a divergent branch if only
  that branch uses the result, and then lanes that are off give nothing.
- Products of int8 vectors are made by dot4, those of tiles by integer matrix
  instructions, and codes that stand for levels are decoded by v_perm_b32.
"""

import json
import pathlib
import re
import subprocess
import sys

READS_LANES = re.compile(r"permlane|dpp8|v_s?wmma")
# Some lanes go off (an "else" and an end of a loop's body count to what began
# before); those that were on before come back.
TURNS_OFF = re.compile(r"s_and_saveexec_b32|v_cmpx_"
                       r"|s_and_not1_b32 exec_lo, exec_lo,")
TURNS_ON = re.compile(r"s_or_b32 exec_lo, exec_lo,|s_mov_b32 exec_lo,")
# Formats whose codes are no index of a level: bytes or bits as they are.
PLAIN_FORMATS = {"q8_0"}


def instructions(objdump, path):
    """The lines of a disassembly, without addresses."""
    text = subprocess.run([objdump, "-d", "--mcpu=gfx1151", path], text=True,
                          check=True, capture_output=True).stdout
    return [line.split("//")[0].strip() for line in text.splitlines()
            if line.startswith("\t")]


def under_branches(lines):
    """Instructions that read lanes between turning lanes off and on again."""
    off, found = 0, []
    for line in lines:
        if TURNS_ON.match(line):
            off = max(0, off - 1)
        elif TURNS_OFF.match(line):
            off += 1
        elif off and READS_LANES.search(line):
            found.append(line)
    return found


def int8_products(unit):
    """Of a unit's text: formats of int8 products, and whether each is done by
    tiles."""
    products = []
    for body in unit.split("\nnamespace ")[1:]:
        weights = re.search(r'#include "weights/(\w+)\.h"', body)
        if weights and "kInt8 = 1;" in body:
            products.append((weights[1], '_tile.hip"' in body))
    return products


def check_unit(name, lines, products):
    formats = {format for format, _ in products}
    text = "\n".join(lines)
    wrong = [f"{name}: under a divergent branch: {line}"
             for line in under_branches(lines)]
    for instruction, needed in (("v_dot4_i32_iu8", {False}),
                                ("v_wmma_i32_16x16x16_iu8", {True})):
        if needed & {tiled for _, tiled in products} and \
                instruction not in text:
            wrong.append(f"{name}: has no {instruction}")
    if formats - PLAIN_FORMATS and "v_perm_b32" not in text:
        wrong.append(f"{name}: codes of {sorted(formats)} are not decoded by v_perm_b32")
    return wrong


def main():
    objdump, *paths = sys.argv[1:]
    wrong, int8, tiled = [], 0, 0
    if len(paths) == 2 and pathlib.Path(paths[0]).is_dir():
        bundle, folder = map(pathlib.Path, paths)
        units = json.loads((bundle / "manifest.json").read_text())["units"]
        for unit in units:
            products = int8_products((bundle / unit["file"]).read_text())
            int8 += bool(products)
            tiled += any(by_tiles for _, by_tiles in products)
            lines = instructions(objdump, folder / f"{unit['name']}.elf")
            wrong += check_unit(unit["name"], lines, products)
        print(f"{len(units)} kernels, {int8} with int8 products, {tiled} by "
              "tiles")
    else:
        for path in paths:
            wrong += check_unit(path, instructions(objdump, path), [])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
