#!/usr/bin/env bash
# mcap 1.6.0 (PyPI): its two readers give messages of equal log times in opposite orders, if asked for the reverse.
#
# Guess: reverse=True turns the whole order round, equal times too, in both readers, as both are one interface (McapReader).
# Seen: forward both give equal times in the order of the file. In reverse the seeking reader (make_reader of a file) turns equal
# times round, and NonSeekingReader (make_reader of a pipe) leaves them in the order of the file.
# Users meet this where messages are stamped alike, by one simulation step or one trigger of several sensors, and two tools, or a
# file and a pipe, are compared message by message. Number messages in the payload, if their order matters.
# Source: mcap/reader.py: NonSeekingReader sorts by log time with reverse, and Python's sort keeps equal ones in their order even
# then. The documentation (mcap.readthedocs.io) says only "in descending log time order".
#
# Needs Python 3.8 or newer with venv. Installs into a temporary folder only.
set -euo pipefail

version=1.6.0
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
{ python3 -m venv venv && venv/bin/pip install "mcap==$version" lz4==4.4.5 zstandard==0.25.0; } >pip.log 2>&1 || { cat pip.log >&2; exit 69; }

# 20 messages, A to T, in several chunks, which overlap in time.
cat >orders.py <<'END'
import io
from mcap.reader import NonSeekingReader, make_reader
from mcap.writer import Writer

times = [5, 3, 3, 8, 1, 5, 3, 9, 2, 5, 5, 1, 7, 3, 8, 2, 6, 5, 1, 3]
file = io.BytesIO()
writer = Writer(file, chunk_size=100)
writer.start()
channel = writer.register_channel(topic="/t", message_encoding="json", schema_id=0)
for index, time in enumerate(times):
    writer.add_message(channel_id=channel, log_time=time, publish_time=time, data=b'"%c"' % (65 + index), sequence=index)
writer.finish()

def letters(order):
    return "".join(chr(65 + index) for index in order)

def read(reader, **options):
    file.seek(0)
    return "".join(chr(message.data[1]) for _, _, message in reader(file).iter_messages(**options))

file.seek(0)
print("chunks:", len(make_reader(file).get_summary().chunk_indexes) > 3 and "several")
forward = letters(sorted(range(20), key=lambda index: (times[index], index)))
names = {
    forward: "equal ones in the order of the file",
    forward[::-1]: "equal ones turned round",
    letters(sorted(range(20), key=lambda index: (-times[index], index))): "equal ones in the order of the file",
}
for name, reader in ("seeking", make_reader), ("NonSeekingReader", NonSeekingReader):
    for direction, options in ("forward", {}), ("reverse", {"reverse": True}):
        order = read(reader, **options)
        print(f"{name}, {direction}: {order}, {names.get(order, 'another order')}")
END
seen=$(timeout 60 venv/bin/python orders.py)
printf 'mcap %s\n%s\n' "$(venv/bin/pip show mcap | sed -n 's/^Version: //p')" "$seen"
if [[ $seen != 'chunks: several
seeking, forward: ELSIPBCGNTAFJKRQMDOH, equal ones in the order of the file
seeking, reverse: HODMQRKJFATNGCBPISLE, equal ones turned round
NonSeekingReader, forward: ELSIPBCGNTAFJKRQMDOH, equal ones in the order of the file
NonSeekingReader, reverse: HDOMQAFJKRBCGNTIPELS, equal ones in the order of the file' ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
