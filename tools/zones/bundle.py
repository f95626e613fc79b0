"""Makes crates/calendar/data/zones.bin, the bundled zone database.

Run it when IANA publishes a release:

    python3 -m venv /tmp/zones && /tmp/zones/bin/pip install -r tools/zones/requirements.txt
    /tmp/zones/bin/python tools/zones/bundle.py

The source is the PyPI package `tzdata`: IANA's data (in the public domain), compiled by its publisher. Not
by the `zic` of this machine: an older one made a file for America/Ojinaga that contradicts itself.

The file is text first: the release, then one line `name<TAB>offset<TAB>length` for each zone, then an
empty line; the compiled zones follow, equal ones once. Offsets count from behind the empty line.
"""

import pathlib
import sys

import tzdata

TARGET = pathlib.Path(__file__).parents[2] / "crates/calendar/data/zones.bin"
# Not places: what this host has, and a name for "not set".
NOT_ZONES = {"Factory", "localtime", "posixrules"}


def compiled_zones(package: pathlib.Path) -> dict[str, bytes]:
    names = (package / "zones").read_text().split()
    root = package / "zoneinfo"
    return {name: (root / name).read_bytes() for name in names if name not in NOT_ZONES}


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
    package = pathlib.Path(tzdata.__file__).parent
    first_line = (package / "zoneinfo/tzdata.zi").open().readline()
    version = first_line.removeprefix("# version ").strip()
    zones = compiled_zones(package)
    TARGET.write_bytes(pack(version, zones))
    print(f"{version}: {len(zones)} zones, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
