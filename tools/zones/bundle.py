"""Makes crates/calendar/data/zones.bin, the bundled zone database.

Run it when IANA publishes a release:

    python3 -m venv /tmp/zones && /tmp/zones/bin/pip install -r tools/zones/requirements.txt
    /tmp/zones/bin/python tools/zones/bundle.py

The source is the `tzdata.zi` of the PyPI package `tzdata` (IANA's data, in the public domain),
compiled by the `zic` of this machine in its slim form: changes as far as they are listed, then the
yearly rule.

The file is text first: the release, then one line `name<TAB>offset<TAB>length` for each zone, then an
empty line; the compiled zones follow, equal ones once. Offsets count from behind the empty line.
"""

import pathlib
import subprocess
import sys
import tempfile

import tzdata

TARGET = pathlib.Path(__file__).parents[2] / "crates/calendar/data/zones.bin"
# Not places: what this host has, and a name for "not set".
NOT_ZONES = {"Factory", "localtime", "posixrules"}


def compile_zones(source: pathlib.Path) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["zic", "-b", "slim", "-d", folder, source], check=True)
        root = pathlib.Path(folder)
        files = (path for path in root.rglob("*") if path.is_file())
        zones = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in zones.items() if name not in NOT_ZONES}


def pack(version: str, zones: dict[str, bytes]) -> bytes:
    index = [version]
    places: dict[bytes, int] = {}
    blob = b""
    for name, data in sorted(zones.items()):
        if not data.startswith(b"TZif"):
            sys.exit(f"{name} is not a compiled zone")
        if data not in places:
            places[data] = len(blob)
            blob += data
        index.append(f"{name}\t{places[data]}\t{len(data)}")
    return "\n".join(index).encode() + b"\n\n" + blob


def main() -> None:
    source = pathlib.Path(tzdata.__file__).parent / "zoneinfo/tzdata.zi"
    version = source.open().readline().removeprefix("# version ").strip()
    zones = compile_zones(source)
    TARGET.write_bytes(pack(version, zones))
    print(f"{version}: {len(zones)} zones, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
