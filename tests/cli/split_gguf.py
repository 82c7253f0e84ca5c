#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# split_gguf.py MODEL PREFIX N: writes PREFIX-00001-of-0000N.gguf and so on, as llama.cpp's gguf-split splits a model.
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9

data = open(sys.argv[1], "rb").read()
prefix, count = sys.argv[2], int(sys.argv[3])
pos = 4 + 4 + 8 + 8


def take(form):
    global pos
    values = struct.unpack_from("<" + form, data, pos)
    pos += struct.calcsize("<" + form)
    return values


def skip_string():
    global pos
    (n,) = take("Q")
    pos += n


def skip_value(kind):
    global pos
    if kind == STRING:
        skip_string()
    elif kind == ARRAY:
        of, n = take("IQ")
        for _ in range(n):
            skip_value(of)
    else:
        pos += SIZES[kind]


def key(name, form, kind, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I" + form, kind, value)


def padded(block):
    return block + bytes(-len(block) % 32)


n_tensors, n_kv = struct.unpack_from("<QQ", data, 8)
for _ in range(n_kv):
    skip_string()
    skip_value(take("I")[0])
metadata = data[24:pos]
tensors = []  # the table's entry but for the offset, and the offset
for _ in range(n_tensors):
    start = pos
    skip_string()
    (n_dims,) = take("I")
    take("%dQI" % n_dims)
    tensors.append((data[start:pos], take("Q")[0]))
start = pos + -pos % 32
ends = [offset for _, offset in tensors[1:]] + [len(data) - start]

for no in range(count):
    share = range(no * n_tensors // count, (no + 1) * n_tensors // count)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(share), 3 + (0 if no else n_kv)) + (b"" if no else metadata)
    head += key("split.no", "H", 2, no) + key("split.count", "H", 2, count)
    head += key("split.tensors.count", "i", 5, n_tensors)
    body = b""
    for i in share:
        head += tensors[i][0] + struct.pack("<Q", len(body))
        body += padded(data[start + tensors[i][1] : start + ends[i]])
    with open("%s-%05d-of-%05d.gguf" % (prefix, no + 1, count), "wb") as f:
        f.write(padded(head) + body)
