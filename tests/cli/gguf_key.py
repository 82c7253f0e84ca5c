#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies a GGUF file with a key of type string, which it must not have: gguf_key.py FILE COPY KEY TEXT"""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, ALIGNMENT = 8, 9, 32


def u(data, at, form):
    return struct.unpack_from("<" + form, data, at)[0]


def behind_string(data, at):
    return at + 8 + u(data, at, "Q")


def behind_value(data, at, kind):
    if kind == STRING:
        return behind_string(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    kind, n, at = u(data, at, "I"), u(data, at + 4, "Q"), at + 12
    if kind in SIZES:
        return at + n * SIZES[kind]
    for _ in range(n):
        at = behind_value(data, at, kind)
    return at


def behind_tensor(data, at):
    at = behind_string(data, at)
    return at + 4 + 8 * u(data, at, "I") + 4 + 8


def padded(n):
    return -(-n // ALIGNMENT) * ALIGNMENT


def main(path, copy, key, text):
    data = open(path, "rb").read()
    n_tensors, n_keys = u(data, 8, "Q"), u(data, 16, "Q")
    at = 24
    for _ in range(n_keys):
        at = behind_string(data, at)
        at = behind_value(data, at + 4, u(data, at, "I"))
    keys_end = at
    for _ in range(n_tensors):
        at = behind_tensor(data, at)
    key, text = key.encode(), text.encode()
    added = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", STRING, len(text)) + text
    head = data[:16] + struct.pack("<Q", n_keys + 1) + data[24:keys_end] + added + data[keys_end:at]
    open(copy, "wb").write(head.ljust(padded(len(head)), b"\0") + data[padded(at):])


main(*sys.argv[1:])
