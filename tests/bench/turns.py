# SPDX-License-Identifier: MIT
# The Python part of peer.sh, transports.sh and sync.sh: A/B runs of benchmarks, and their comparison.
#   turns.py run RUNS SIDE KIND FILE COMMAND...   runs a benchmark that writes JSON or JSON lines like llm-bench, and appends a line
#                                                 with its results to RUNS
#   turns.py table RUNS md|json SIDE SIDE         compares the two sides of RUNS: how many times better the first one was
#   turns.py waits FILE                           prints how well waits were predicted, from a JSON line of experiments/hetero
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


# Names of sides in tables, if they differ.
PROGRAMS = {'ours': 'llm-bench', 'theirs': 'llama-bench'}


def fail(text):
    sys.exit(os.environ.get('TURNS_FOR', 'turns.py') + ': ' + text)


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
    name = os.path.basename(command[0])
    if status:
        how = 'signal %d' % os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'status %d' % os.WEXITSTATUS(status)
        fail('%s ended with %s on %s: %s' % (name, how, model, said[-1] or 'no message'))
    try:
        rows = json.loads(text) if text.lstrip()[:1] == b'[' else [json.loads(line) for line in text.splitlines()]
        results = [{k: r.get(k) for k in ROW} for r in rows]
    except (ValueError, AttributeError, TypeError):
        fail('%s printed no JSON of tests for %s' % (name, model))
    with open(runs, 'a') as f:
        f.write(json.dumps({'side': side, 'kind': kind, 'model': model, 'wall_s': wall_s,
                            'program': name, 'rss_bytes': usage.ru_maxrss * 1024, 'rows': results}) + '\n')


ROW = 'build_commit n_threads n_prompt n_gen avg_ts transport placement weights peak_memory_bytes'.split()


def speed(runs, n_prompt, n_gen):
    """Tokens per second of one test in each round."""
    got = []
    for r in runs:
        rows = [x for x in r['rows'] if (x['n_prompt'], x['n_gen']) == (n_prompt, n_gen)]
        if len(rows) != 1 or not rows[0]['avg_ts']:
            fail('no result of the test %s in the output of %s' % (test_name(n_prompt, n_gen), PROGRAMS.get(r['side'], r['program'])))
        got.append(rows[0]['avg_ts'])
    return got


def test_name(n_prompt, n_gen):
    return 'pp%d' % n_prompt if n_prompt else 'tg%d' % n_gen


class Model:
    """All runs on one file."""

    def __init__(self, path, sides, runs):
        self.path, self.sides, self.runs = path, sides, runs

    def of(self, side, kind):
        return [r for r in self.runs if (r['side'], r['kind']) == (side, kind)]

    def row(self, test, unit, kind, get):
        a, b = self.sides
        got = {s: get(self.of(s, kind)) for s in self.sides}
        # A ratio above 1 means that the first side is better. Each ratio is of one round, as disturbances affect both sides of it.
        ratios = [x / y if unit == 't/s' else y / x for x, y in zip(got[a], got[b])]
        of = self.of(a, 'warm')[0]['rows'][0]
        row = {'model': os.path.basename(self.path), 'test': test, 'unit': unit, 'rounds': len(ratios)}
        row.update({k: of[k] for k in ('n_threads', 'placement', 'weights')})
        for s in self.sides:
            first = self.of(s, 'warm')[0]['rows'][0]
            row.update({s: statistics.median(got[s]), s + '_min': min(got[s]), s + '_max': max(got[s]),
                        s + '_samples': got[s], s + '_build': first['build_commit'], s + '_transport': first['transport']})
        row.update({'ratio': statistics.median(ratios), 'ratio_min': min(ratios), 'ratio_max': max(ratios)})
        return row

    def compare(self):
        warm = self.of(self.sides[0], 'warm')
        tests = [(x['n_prompt'], x['n_gen']) for x in warm[0]['rows']]
        rows = [self.row(test_name(*t), 't/s', 'warm', lambda r, t=t: speed(r, *t)) for t in tests]
        if not self.of(self.sides[0], 'cold'):
            return rows
        rows.append(self.row('cold start', 's', 'cold', lambda r: [x['wall_s'] for x in r]))
        rows.append(self.row('peak memory', 'MiB', 'warm', lambda r: [x['rss_bytes'] / 2**20 for x in r]))
        # llm-bench also counts the memory that it allocated itself; mapped files are in neither's control.
        rows[-1]['ours_peak_memory_bytes'] = max(x['peak_memory_bytes'] or 0 for r in warm for x in r['rows']) or None
        return rows


def spread(c, what, form='%.4g'):
    return '%s (%s .. %s)' % tuple(form % c[what + part] for part in ('', '_min', '_max'))


def print_md(rows, sides):
    head = ['model', 'test', 'unit'] + [PROGRAMS.get(s, s) for s in sides] + ['times better']
    lines = [[c['model'], c['test'], c['unit']] + [spread(c, s) for s in sides] + [spread(c, 'ratio', '%.3f')] for c in rows]
    width = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]

    def show(line):
        print('| ' + ' | '.join(x.ljust(w) if i < 3 else x.rjust(w) for i, (x, w) in enumerate(zip(line, width))) + ' |')

    show(head)
    print('| ' + ' | '.join('-' * w if i < 3 else '-' * (w - 1) + ':' for i, w in enumerate(width)) + ' |')
    for line in lines:
        show(line)
    c = rows[0]
    modes = dict.fromkeys(', '.join(r[k] for k in ('placement', 'weights') if r[k]) for r in rows)
    print('\nmedians of %d alternating rounds (least .. most); %d threads; %s; builds %s' % (
        c['rounds'], c['n_threads'], ' and '.join(modes),
        ', '.join('%s %s' % (PROGRAMS.get(s, s), c[s + '_build']) for s in sides)))


def table(path, form, *sides):
    by_model = {}
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            by_model.setdefault(r['model'], []).append(r)
    rows = [c for model, runs in by_model.items() for c in Model(model, sides, runs).compare()]
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
    {'run': run, 'table': table, 'waits': waits}[sys.argv[1]](*sys.argv[2:])
