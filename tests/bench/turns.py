# SPDX-License-Identifier: MIT
# The Python part of peer.sh, transports.sh and sync.sh: A/B runs of benchmarks, and their comparison.
#   turns.py run RUNS SIDE KIND FILE COMMAND...   runs a benchmark that writes JSON or JSON lines like llm-bench, and appends a line
#                                                 with its results to RUNS. TURNS_KV: the type of the cache, if that was chosen
#   turns.py skip RUNS SIDE TESTS REASON          says that SIDE has no results of tests whose names match the expression TESTS
#   turns.py table RUNS md|json SIDE SIDE...      compares the first side of RUNS with each other one: how many times better it was
#   turns.py waits FILE                           prints how well waits were predicted, from a JSON line of experiments/hetero
# A side is a name, or theirs:LABEL. KIND is warm or cold; or read, which is how fast the host read memory before or after a warm
# run of the first side.
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time


def fail(text):
    sys.exit(os.environ.get('TURNS_FOR', 'turns.py') + ': ' + text)


def key(side):
    """The name of a side in JSON."""
    return side.partition(':')[0]


def title(side):
    """The name of a side for people."""
    return side.partition(':')[2] or {'ours': 'llm-bench'}.get(side, side)


ROW = '''build_commit n_threads n_prompt n_gen n_depth avg_ts transport placement weights kv peak_memory_bytes
    weight_bytes_read kv_bytes_read gbps'''.split()


def result(row):
    """The fields of a result that a comparison uses. What some llama-bench call tg64@pp512 is 64 tokens at a depth of 512."""
    got = {k: row.get(k) for k in ROW}
    got['n_depth'] = got['n_depth'] or 0
    if re.fullmatch(r'tg\d+@pp\d+', row.get('test') or ''):
        got.update(n_prompt=0, n_depth=row['n_prompt'])
    return got


def run(runs, side, kind, model, *command):
    """Measures the wall clock time from before the program's start to its end, and the kernel's count of its peak memory."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL)
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - start
        child.returncode = status
        err.seek(0)
        said = err.read().decode(errors='replace').strip().split('\n')
    name = title(side) if ':' in side else os.path.basename(command[0])
    if status:
        how = 'signal %d' % os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'status %d' % os.WEXITSTATUS(status)
        fail('%s ended with %s on %s: %s' % (name, how, model, said[-1] or 'no message'))
    try:
        rows = json.loads(text) if text.lstrip()[:1] == b'[' else [json.loads(line) for line in text.splitlines()]
        results = [result(r) for r in rows]
    except (ValueError, AttributeError, TypeError, KeyError):
        fail('%s printed no JSON of tests for %s' % (name, model))
    append(runs, {'side': side, 'kind': kind, 'model': model, 'kv': os.environ.get('TURNS_KV') or None, 'wall_s': wall_s,
                  'command': command, 'rss_bytes': usage.ru_maxrss * 1024, 'rows': results})


def skip(runs, side, tests, reason):
    append(runs, {'side': side, 'kind': 'skip', 'tests': tests, 'reason': reason})


def append(runs, record):
    with open(runs, 'a') as f:
        f.write(json.dumps(record) + '\n')


def test_name(n_prompt, n_gen, n_depth):
    parts = [kind + str(n) for kind, n in (('pp', n_prompt), ('tg', n_gen)) if n]
    return '+'.join(parts) + ('@d%d' % n_depth if n_depth else '')


def results(runs, test):
    """The row of one test in each round."""
    got = []
    for r in runs:
        rows = [x for x in r['rows'] if (x['n_prompt'], x['n_gen'], x['n_depth']) == test]
        if not rows or not rows[0]['avg_ts']:
            fail('no result of the test %s in the output of %s' % (test_name(*test), title(r['side'])))
        if len(rows) > 1:
            fail('%d results of the test %s in the output of %s: its options must not multiply the tests' % (
                len(rows), test_name(*test), title(r['side'])))
        got.append(rows[0])
    return got


def peak_bytes(r):
    """A run's peak memory: llm-bench resets the kernel's count for each test, and says the greatest one itself."""
    return max([r['rss_bytes']] + [x.get('peak_memory_bytes') or 0 for x in r['rows']])


def speed(runs, test):
    return [x['avg_ts'] for x in results(runs, test)]


def spread_of(name, samples):
    return {name: statistics.median(samples), name + '_min': min(samples), name + '_max': max(samples)}


def own_options(command):
    """What a peer was given besides the common options, which begin with -m."""
    words = list(command[1:])
    return ' '.join(words[:words.index('-m')] if '-m' in words else [])


class Group:
    """All runs on one file with one type of cache."""

    def __init__(self, path, kv, runs, sides, skips):
        self.path, self.kv, self.runs, self.sides, self.skips = path, kv, runs, sides, skips

    def of(self, side, kind):
        return [r for r in self.runs if (r['side'], r['kind']) == (side, kind)]

    def why_not(self, side, test):
        return next((s['reason'] for s in self.skips if s['side'] == side and re.fullmatch(s['tests'], test)), None)

    def describe(self, side):
        first = self.of(side, 'warm')[0]
        row = first['rows'][0]
        name = key(side)
        return {name + '_build': row['build_commit'], name + '_transport': row['transport'],
                name + '_options': own_options(first['command'])}

    def pair(self, other, test, unit, kind, get):
        """One comparison of the first side with another."""
        first = self.sides[0]
        of = self.of(first, 'warm')[0]['rows'][0]
        ours = get(self.of(first, kind))
        row = {'model': os.path.basename(self.path), 'test': test, 'unit': unit, 'peer': title(other), 'rounds': len(ours)}
        row.update({k: of[k] for k in ('n_threads', 'placement', 'weights')}, kv=self.kv or of['kv'])
        row.update(spread_of(key(first), ours), **{key(first) + '_samples': ours}, **self.describe(first))
        row['skipped'] = self.why_not(other, test)
        theirs = [] if row['skipped'] else get(self.of(other, kind))
        # A ratio above 1 means that the first side is better. Each ratio is of one round, as disturbances affect both sides of it.
        ratios = [x / y if unit == 't/s' else y / x for x, y in zip(ours, theirs)]
        for name, samples in ((key(other), theirs), ('ratio', ratios)):
            row.update(spread_of(name, samples) if samples else dict.fromkeys([name, name + '_min', name + '_max']))
        row[key(other) + '_samples'] = theirs or None
        row.update(self.describe(other))
        return row

    def row(self, *what):
        return [self.pair(other, *what) for other in self.sides[1:]]

    def reading(self, test):
        """What the first side read per generated token, and how fast, beside plain reads of memory just before and after."""
        rows = results(self.of(self.sides[0], 'warm'), test)
        plain = [r['rows'][0]['gbps'] for r in self.of('host', 'read')]
        if test[0] or len(plain) != 2 * len(rows) or None in (rows[0]['weight_bytes_read'], rows[0]['kv_bytes_read']):
            return {}
        per_token = (rows[0]['weight_bytes_read'] + rows[0]['kv_bytes_read']) / test[1]
        gbps = [per_token * x['avg_ts'] / 1e9 for x in rows]
        host = [(before + after) / 2 for before, after in zip(plain[::2], plain[1::2])]
        return {'bytes_per_token': round(per_token), **spread_of('gbps', gbps), **spread_of('host_gbps', host),
                **spread_of('of_host', [x / y for x, y in zip(gbps, host)])}

    def compare(self):
        warm = self.of(self.sides[0], 'warm')
        rows = []
        for test in [(x['n_prompt'], x['n_gen'], x['n_depth']) for x in warm[0]['rows']]:
            read = self.reading(test)
            got = self.row(test_name(*test), 't/s', 'warm', lambda r, t=test: speed(r, t))
            rows += [{**c, **{key(self.sides[0]) + '_' + k: v for k, v in read.items()}} for c in got]
        if not self.of(self.sides[0], 'cold'):
            return rows
        rows += self.row('cold start', 's', 'cold', lambda r: [x['wall_s'] for x in r])
        for c in self.row('peak memory', 'MiB', 'warm', lambda r: [peak_bytes(x) / 2**20 for x in r]):
            # llm-bench also counts the memory that it allocated itself; mapped files are in neither's control.
            c['ours_peak_memory_bytes'] = max(x['peak_memory_bytes'] or 0 for r in warm for x in r['rows']) or None
            rows.append(c)
        return rows


def spread(c, what, form='%.4g'):
    return '-' if c[what] is None else '%s (%s .. %s)' % tuple(form % c[what + part] for part in ('', '_min', '_max'))


def print_lines(head, lines, left):
    """A table; the columns named in left are texts."""
    width = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    texts = [name in left for name in head]

    def show(line):
        print('| ' + ' | '.join(x.ljust(w) if text else x.rjust(w) for x, w, text in zip(line, width, texts)) + ' |')

    show(head)
    print('| ' + ' | '.join('-' * w if text else '-' * (w - 1) + ':' for w, text in zip(width, texts)) + ' |')
    for line in lines:
        show(line)


def print_reading(tests, names, ours):
    read = [c for c in tests if ours + '_gbps' in c]
    if not read:
        return
    print('\nwhat %s read for each token, and how fast, beside plain reads of memory by as many threads\n' % title(ours))
    print_lines(names + ['MiB per token', 'GB/s', 'plain reads, GB/s', 'fraction of them'],
                [[c[k] for k in names] + ['%.4g' % (c[ours + '_bytes_per_token'] / 2**20), spread(c, ours + '_gbps'),
                 spread(c, ours + '_host_gbps'), spread(c, ours + '_of_host', '%.3f')] for c in read], names)


def print_md(rows, sides):
    ours, others = sides[0], sides[1:]
    # The comparisons of one test follow each other.
    tests = [rows[i:i + len(others)] for i in range(0, len(rows), len(others))]
    names = ['model', 'kv', 'test'] if len({c['kv'] for c in rows}) > 1 else ['model', 'test']
    head = names + ['unit', title(ours)] + [x for side in others for x in (title(side), 'times better')]
    lines = []
    for t in tests:
        compared = [x for c, side in zip(t, others) for x in (spread(c, key(side)), spread(c, 'ratio', '%.3f'))]
        lines.append([t[0][k] for k in names] + [t[0]['unit'], spread(t[0], key(ours))] + compared)
    print_lines(head, lines, names + ['unit'])
    first = rows[0]
    modes = dict.fromkeys(', '.join(r[k] for k in ('placement', 'weights') if r[k]) for r in rows)
    builds = ['%s %s' % (title(ours), first[key(ours) + '_build'])]
    for c, side in zip(rows, others):
        options = c[key(side) + '_options']
        builds.append('%s %s%s' % (title(side), c[key(side) + '_build'], ' (%s)' % options if options else ''))
    print('\nmedians of %d alternating rounds (least .. most); %d threads; %s; builds %s' % (
        first['rounds'], first['n_threads'], ' and '.join(modes), ', '.join(builds)))
    skipped = {}
    for c in rows:
        if c['skipped']:
            skipped.setdefault((c['peer'], c['skipped']), {})[c['test']] = 1
    for (peer, reason), left_out in skipped.items():
        print('%s has no %s: %s' % (peer, ', '.join(left_out), reason))
    print_reading([t[0] for t in tests], names, key(ours))


def table(path, form, *sides):
    groups, skips = {}, []
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            if r['kind'] == 'skip':
                skips.append(r)
            else:
                groups.setdefault((r['model'], r['kv']), []).append(r)
    rows = [c for (model, kv), runs in groups.items() for c in Group(model, kv, runs, sides, skips).compare()]
    if form == 'json':
        print('[\n' + ',\n'.join(json.dumps(c) for c in rows) + '\n]')
    else:
        print_md(rows, sides)


def waits(path):
    with open(path) as f:
        line = json.loads(f.readline())
    for what, w in (('prefill', line['prompt_waits']), ('decode', line['token_waits'])):
        if w:
            print('waits    %s: %d predicted, %d overslept, %d given up; slept %.3f s, polled %.3f s' % (
                what, w['waits'], w['overslept'], w['given_up'], w['slept_s'], w['polled_s']))
            print('         late by (us, percentiles 10 50 90 99) %.0f %.0f %.0f %.0f of %.0f %.0f %.0f %.0f predicted' % (
                *w['late_us'], *w['predicted_us']))


if __name__ == '__main__':
    {'run': run, 'skip': skip, 'table': table, 'waits': waits}[sys.argv[1]](*sys.argv[2:])
