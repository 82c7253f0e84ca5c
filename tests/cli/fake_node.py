# SPDX-License-Identifier: MIT
# The kernel's side of tests/cli/fake_node.c. In the folder $FAKE_NODE:
#   devices             prints a line per device: number, name, state, epoch, whether a process has it
#   submit TYPE CTX QUEUE TAG [FIELD=VALUE]    puts an entry into the submission ring of the newest session
#   done N              waits until that session has posted N completions, and prints the last one: type, tag, status
#   reset [late] [wedge]    ends the newest session: over, ENTER's error, then removes the rings; late: removes them first
import os
import struct
import sys
import time

DEVICES, DEVICE = 8, struct.Struct('<6I32s')
STATES = ['new', 'ready', 'lost', 'wedged']
SQE = struct.Struct('<4I4Q4I')
FIELDS = ['type', 'priority', 'ctx', 'queue', 'tag', 'seqno', 'cmd_va', 'table_va', 'cmd_size', 'table_size', 'flags', 'pad']
SQ_TAIL, CQ_HEAD, OVER, SQ, CQ_TAIL, CQ = 128, 132, 136, 0x1000, 0x2000 + 64, 0x3000
ERRORS = 8 + DEVICES * DEVICE.size
SQ_TAILS = ERRORS + 16 * 4
EIO = 5

folder = os.environ['FAKE_NODE']
state = open(folder + '/state', 'r+b', buffering=0)


def get(f, at, fmt):
    return struct.unpack(fmt, os.pread(f.fileno(), struct.calcsize(fmt), at))


def put(f, at, fmt, *values):
    os.pwrite(f.fileno(), struct.pack(fmt, *values), at)


newest = get(state, 4, '<I')[0] - 1
session = open(f'{folder}/session.{max(newest, 0)}', 'r+b', buffering=0)
device = next((i for i in range(DEVICES) if get(state, 8 + i * DEVICE.size, '<3I')[::2] == (1, newest)), 0)

what, args = sys.argv[1], sys.argv[2:]
if what == 'devices':
    for i in range(DEVICES):
        there, s, _, pid, epoch, _, name = DEVICE.unpack(os.pread(state.fileno(), DEVICE.size, 8 + i * DEVICE.size))
        if there:
            print(i, name.rstrip(b'\0').decode(), STATES[s], epoch, 'taken' if pid and os.path.exists(f'/proc/{pid}') else 'free')
elif what == 'submit':
    sqe = dict.fromkeys(FIELDS, 0) | dict(zip(['type', 'ctx', 'queue', 'tag'], map(int, args)), priority=1)
    for a in args[4:]:
        sqe[a.split('=')[0]] = int(a.split('=')[1], 0)
    sqe['seqno'] = sqe['tag']
    tail = get(session, SQ_TAIL, '<I')[0]
    put(session, SQ + tail % 16 * 64, '<4I4Q4I', *sqe.values())
    put(session, SQ_TAIL, '<I', tail + 1)
    put(state, SQ_TAILS + newest * 4, '<I', tail + 1)
elif what == 'done':
    until = time.time() + 30
    while get(session, CQ_TAIL, '<I')[0] < int(args[0]) and time.time() < until:
        time.sleep(0.005)
    put(session, CQ_HEAD, '<I', int(args[0]))
    print(*(lambda kind, status, tag: (kind, tag, status))(*get(session, CQ + (int(args[0]) - 1) % 16 * 64, '<2IQ')))
elif what == 'reset':
    put(state, 8 + device * DEVICE.size + 4, '<I', 3 if 'wedge' in args else 2)
    put(state, 8 + device * DEVICE.size + 12, '<I', 0)
    if 'late' not in args:
        put(session, OVER, '<I', 1)
        put(state, ERRORS + newest * 4, '<i', -EIO)
    os.truncate(session.name, 0)
    if 'late' in args:
        time.sleep(0.02)
        put(state, ERRORS + newest * 4, '<i', -EIO)
else:
    sys.exit(f'fake_node.py: {what}?')
