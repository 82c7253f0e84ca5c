#!/usr/bin/python3
"""What train.py wrote (w.*) and docs6m's tokenizer -> GGUF: python3 export.py DIR f16|f32 OUT.gguf

DOCS6M names the folder with tokenizer.model, which docs6m's prep.py makes (by default ../../docs6m)."""
import glob, math, os, sys, zlib, numpy as np, sentencepiece as sp
D6 = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs6m'); sys.path.insert(1, D6 + '/train')
import gguf, sizes
src, kind, out = sys.argv[1:4]
plane = lambda k: b''.join(open(f, 'rb').read() for f in sorted(glob.glob('%s/w.%s*' % (src, k))))
lo, hi = plane('lo'), zlib.decompress(plane('hi')); b = np.empty(2 * len(lo), np.uint8); b[0::2] = np.frombuffer(lo, np.uint8); b[1::2] = np.frombuffer(hi, np.uint8); b = b.tobytes()
P = {}; o = 0
for k, s in sizes.shapes().items():
    t = np.float16 if len(s) == 2 else np.float32; n = math.prod(s) * np.dtype(t).itemsize; P[k] = np.frombuffer(b[o:o + n], t).reshape(s); o += n
assert o == len(b), 'w.* are not of these sizes'
gguf.write(out, 'docs34m', '33.6M-parameter test model trained on the documentation of Debian 12', sizes, P,
           sp.SentencePieceProcessor(model_file=os.environ.get('DOCS6M', D6) + '/tokenizer.model'), kind == 'f16')
