#!/usr/bin/python3
"""Corpus and token files of docs34m, from the documentation packages of Debian 12 (section doc, and
manpages).  Converters, the judgement of what is prose, and the tokenizer are docs6m's.

  cut -f1 ../packages.tsv | xargs apt-get download        # to DEBS
  python3 corpus.py text DEBS OUT HELD...   # *.deb -> OUT/train.txt, OUT/packages.tsv
  python3 corpus.py enc OUT                 # OUT/train.txt -> OUT/train.bin (uint16 ids, <s> document </s>)

HELD are files with texts that training must not see (docs6m's valid.txt, test.txt and prompts): paragraphs
with 13 words in a row of theirs are dropped, and documents of which a third is.  DOCS6M names the folder
with tokenizer.model, which docs6m's prep.py makes (by default ../../docs6m).
"""
import sys, os, re, glob, gzip, subprocess, tempfile, shutil, pickle
from multiprocessing import Pool
import lxml.html
D6 = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs6m'); sys.path.insert(1, D6 + '/train')
import prep as d6
H = d6.H
NGRAM = 13

def words(s): return re.findall(r'[a-z0-9]+', s.lower())
def grams(w): return (hash(tuple(w[i:i + NGRAM])) for i in range(len(w) - NGRAM + 1))
HELD = set()
def load_held(files):
    for f in files:
        for l in open(f): HELD.update(grams(words(l)))

def from_html(b):
    """As docs6m's parser of HTML, over lxml's tree, since there is a hundred times as much."""
    try: root = lxml.html.document_fromstring(b)
    except Exception: return []
    out = []; buf = []; kind = 'p'
    def flush(k='p'):
        nonlocal kind
        t = d6.tidy(''.join(buf)); buf.clear()
        if t: out.append((kind, t))
        kind = k
    def walk(e):
        tag = e.tag
        if not isinstance(tag, str): return
        if tag in H.SKIP:
            if tag in ('pre', 'table'): flush()
            return
        if tag in ('div', 'ul', 'a', 'span', 'p'):
            cls = ((e.get('class') or '') + ' ' + (e.get('id') or '')).lower().split()
            if any(H.BAD.search(c) for c in cls):
                if tag in H.BLOCK: flush()
                return
        if tag == 'br': buf.append(' ')
        block = tag in H.BLOCK and tag not in H.VOID
        if block: flush({'li': 'li', 'dt': 'dt'}.get(tag, 'h' if tag[0] == 'h' and tag[1:].isdigit() else 'li' if tag == 'p' and kind == 'li' else 'p'))
        if e.text: buf.append(e.text)
        for c in e:
            walk(c)
            if c.tail: buf.append(c.tail)
        if block: flush()
    sys.setrecursionlimit(20000)
    try: walk(root)
    except RecursionError: return []
    flush(); return out

def from_info(t):
    """GNU Info: paragraphs between blank lines; nodes' headers and menus go."""
    out = []
    for node in t.split('\x1f')[1:]:
        menu = False
        for p in re.split(r'\n\s*\n', node):
            p = re.sub(r'^\n?File: .*\n?', '', p)
            if p.lstrip().startswith('* Menu:'): menu = True
            if menu or not p.strip(): continue
            l = p.strip('\n').split('\n')
            if len(l) == 2 and re.match(r'[*=\-.]{3,}$', l[1]): out.append(('h', d6.tidy(re.sub(r'^[0-9A-Z.]+ ', '', l[0])))); continue
            s = d6.tidy(' '.join(l)); m = re.match(r'[*-] (.*)', s)
            s = re.sub(r"[`'‘’]([^`'‘’]*)['’]", r"\1", s) if s.count('‘') > 3 else s
            out.append(('li', m.group(1)) if m else ('p', s))
    return out

DOXY = re.compile(r'/(class|struct|union|namespace|group__)[^/]*\.html$|_8(h|hpp|cpp|c|hxx)[^/]*\.html$|-members|/functions|/globals|annotated|hierarchy|inherits|/dir_|genindex|py-modindex|search\.html|/_modules/|/_sources/|/search/|index-all|package-tree|package-summary|overview-|allclasses|quickreference|release-|changelog|/Changes|/NEWS|RelNotes')
WANT = re.compile(r'\.(html?|xhtml)(\.gz)?$|\.rst(\.txt)?(\.gz)?$|\.pod$|/info/.*\.info(-\d+)?\.gz$|usr/share/man/man\d[^/]*/.*\.gz$')

def items(path, name):
    if os.path.getsize(path) > 4 << 20: return []
    b = (gzip.open(path) if path.endswith('.gz') else open(path, 'rb')).read(); f = re.sub(r'\.gz$', '', name)
    if re.search(r'html?$', f):
        if re.search(rb'<html[^>]*lang="(?!en)', b[:3000]): return []
        return from_html(b)
    t = b.decode('utf-8', 'replace')
    return d6.from_pod(t) if f.endswith('.pod') else d6.from_man(t) if '/man/' in f else from_info(t) if '/info/' in f else d6.from_rst(t)

def package(deb):
    name = os.path.basename(deb).split('_')[0]; tmp = tempfile.mkdtemp(); docs = []
    try:
        p = subprocess.Popen(['dpkg-deb', '--fsys-tarfile', deb], stdout=subprocess.PIPE)
        subprocess.run(['tar', '-x', '-C', tmp, '--no-same-owner', '--wildcards', '*.html', '*.htm', '*.xhtml', '*.html.gz', '*.rst', '*.rst.gz', '*.pod', '*.info*.gz', './usr/share/man/man*/*.gz', './usr/share/man/man*/*'],
                       stdin=p.stdout, stderr=subprocess.DEVNULL); p.wait()
        fs = []
        for d, _, n in os.walk(tmp): fs += [os.path.join(d, x) for x in n]
        glos = d6.PKG.get(name)
        for f in sorted(fs):
            rel = f[len(tmp) + 1:]
            if os.path.islink(f) or not WANT.search('/' + rel) or DOXY.search('/' + rel): continue
            if glos and re.search(glos[1], f[len(tmp):]): continue
            try: its = d6.judged(items(f, rel))
            except Exception as e: print(name, rel, e, file=sys.stderr); continue
            out = [x for x in its if x[0] == 'h' or not any(g in HELD for g in grams(words(x[1])))]
            n = sum(k != 'h' for k, _ in its); bad = len(its) - len(out)
            if n and 3 * bad < n: docs.append((rel, out))
    finally: shutil.rmtree(tmp, ignore_errors=True)
    return name, deb, docs

def text(debs, outdir, held):
    ds = glob.glob(debs + '/*.deb'); order = list(d6.PKG); key = lambda d: (order.index(n) if (n := os.path.basename(d).split('_')[0]) in order else 99, n)
    ds.sort(key=key); big = sorted(ds, key=lambda d: -os.path.getsize(d)); seen = set(); tot = {}; nd = 0; byname = {}
    load_held(held)
    tmp = tempfile.mkdtemp(dir=outdir)
    def keep(r):
        with open(tmp + '/' + r[0], 'wb') as f: pickle.dump(r[2], f)
        byname[r[1]] = r[0]
    with Pool(2) as pool:
        for i, r in enumerate(pool.imap_unordered(package, big, 1)):
            keep(r)
            if i % 50 == 0: print(i, r[0], flush=True)
    w = open(outdir + '/train.txt', 'w')
    for d in ds:
        name = byname[d]
        for rel, its in pickle.load(open(tmp + '/' + name, 'rb')):
            s = d6.assembled(its, seen)
            if len(s) >= 400: w.write(s + '\f\n'); tot[d] = tot.get(d, 0) + len(s); nd += 1
    with open(outdir + '/packages.tsv', 'w') as f:
        for d, n in sorted(tot.items(), key=lambda x: -x[1]):
            n_v = os.path.basename(d).split('_'); f.write('%s\t%s\t%d\n' % (n_v[0], n_v[1].replace('%3a', ':'), n))
    shutil.rmtree(tmp); print('documents', nd, 'characters', sum(tot.values()), 'packages', len(tot))

def encode(s):
    import sentencepiece as sp
    global P
    try: P
    except NameError: P = sp.SentencePieceProcessor(model_file=os.environ.get('DOCS6M', D6) + '/tokenizer.model')
    return P.encode(s)
def enc(out):
    import numpy as np
    docs = [d.strip('\n') for d in open(out + '/train.txt').read().split('\f\n') if d.strip()]; a = open(out + '/train.bin', 'wb'); n = 0
    with Pool(2) as pool:
        for ids in pool.imap(encode, docs, 64):
            x = np.array([1] + ids + [2], np.uint16); n += len(x); x.tofile(a)
    print(len(docs), 'documents', sum(map(len, docs)), 'characters', n, 'tokens')

if __name__ == '__main__':
    text(sys.argv[2], sys.argv[3], sys.argv[4:]) if sys.argv[1] == 'text' else enc(sys.argv[2])
