"""Checks that each fenced block of a page, of a language (```cpp and so on), is
part of some file of the folders, line for line."""
import pathlib
import re
import sys

page, folders = pathlib.Path(sys.argv[1]), sys.argv[2:]
texts = {path: path.read_text() for folder in folders
         for path in pathlib.Path(folder).rglob("*") if path.is_file()}
blocks = re.findall(r"^```\w+\n(.*?)^```$", page.read_text(), re.M | re.S)
missing = [block for block in blocks
           if not any(block in text for text in texts.values())]
for block in missing:
    print(f"{page.name}: no file of {', '.join(folders)} has this block:\n"
          f"{block}", file=sys.stderr)
if not blocks:
    print(f"{page.name}: has no block of code", file=sys.stderr)
sys.exit(bool(missing) or not blocks)
