#!/usr/bin/python3
"""What train.py wrote (w.*) and docs6m's tokenizer -> GGUF: python3 export.py DIR f16|f32 OUT.gguf

DOCS6M names the folder with tokenizer.model (by default ../../docs6m, where its train/prep.py writes it)."""
import glob, math, os, struct, sys, zlib, numpy as np, sentencepiece as sp
HERE = os.path.dirname(os.path.abspath(__file__)); D6 = os.environ.get('DOCS6M', HERE + '/../../docs6m')
from sizes import shapes, DIM, LAYERS, HEADS, KV, HD, FF, VOCAB, CTX, EPS, THETA
src, kind, out = sys.argv[1:4]; f16 = kind == 'f16'
plane = lambda k: b''.join(open(f, 'rb').read() for f in sorted(glob.glob('%s/w.%s*' % (src, k))))
lo, hi = plane('lo'), zlib.decompress(plane('hi')); b = np.empty(2 * len(lo), np.uint8); b[0::2] = np.frombuffer(lo, np.uint8); b[1::2] = np.frombuffer(hi, np.uint8); b = b.tobytes()
P = {}; o = 0
for k, s in shapes().items():
    t = np.float16 if len(s) == 2 else np.float32; n = math.prod(s) * np.dtype(t).itemsize; P[k] = np.frombuffer(b[o:o + n], t).reshape(s); o += n
assert o == len(b)
spm = sp.SentencePieceProcessor(model_file=D6 + '/tokenizer.model'); ids = range(VOCAB)
typ = [2 if spm.is_unknown(i) else 3 if spm.is_control(i) else 6 if spm.is_byte(i) else 1 for i in ids]
S = lambda s: struct.pack('<Q', len(s.encode())) + s.encode()
U32, I32, F32, BOOL, STR, ARR = 4, 5, 6, 7, 8, 9
def val(t, v): return S(v) if t == STR else struct.pack({U32: '<I', I32: '<i', F32: '<f', BOOL: '<?'}[t], v)
def kv(k, t, v): return S(k) + struct.pack('<I', t) + val(t, v)
def arr(k, t, v): return S(k) + struct.pack('<IIQ', ARR, t, len(v)) + b''.join(val(t, x) for x in v)
K = [kv('general.architecture', STR, 'llama'), kv('general.name', STR, 'docs34m'), kv('general.file_type', U32, int(f16)), kv('general.alignment', U32, 32),
     kv('general.description', STR, '33.6M-parameter test model trained on the documentation of Debian 12'),
     kv('llama.context_length', U32, CTX), kv('llama.embedding_length', U32, DIM), kv('llama.block_count', U32, LAYERS), kv('llama.feed_forward_length', U32, FF),
     kv('llama.attention.head_count', U32, HEADS), kv('llama.attention.head_count_kv', U32, KV), kv('llama.attention.layer_norm_rms_epsilon', F32, EPS),
     kv('llama.rope.dimension_count', U32, HD), kv('llama.rope.freq_base', F32, THETA), kv('llama.vocab_size', U32, VOCAB),
     kv('tokenizer.ggml.model', STR, 'llama'), kv('tokenizer.ggml.pre', STR, 'default'),
     arr('tokenizer.ggml.tokens', STR, [spm.id_to_piece(i) for i in ids]), arr('tokenizer.ggml.scores', F32, [spm.get_score(i) for i in ids]),
     arr('tokenizer.ggml.token_type', I32, typ), kv('tokenizer.ggml.bos_token_id', U32, 1), kv('tokenizer.ggml.eos_token_id', U32, 2),
     kv('tokenizer.ggml.unknown_token_id', U32, 0), kv('tokenizer.ggml.add_bos_token', BOOL, True), kv('tokenizer.ggml.add_eos_token', BOOL, False),
     kv('tokenizer.ggml.add_space_prefix', BOOL, True)]
NAME = {'an': 'attn_norm', 'wq': 'attn_q', 'wk': 'attn_k', 'wv': 'attn_v', 'wo': 'attn_output', 'fn': 'ffn_norm', 'w1': 'ffn_gate', 'w3': 'ffn_up', 'w2': 'ffn_down'}
T = []
for k, a in P.items():     # no output.weight: the output matrix is token_embd.weight
    name = {'tok': 'token_embd', 'norm': 'output_norm'}.get(k) or 'blk.%s.%s' % (k.split('.')[0], NAME[k.split('.')[1]])
    T.append((name + '.weight', np.ascontiguousarray(a.astype(np.float16 if f16 and a.ndim == 2 else np.float32))))
info = b''; off = 0
for n, a in T:
    info += S(n) + struct.pack('<I', a.ndim) + b''.join(struct.pack('<Q', d) for d in a.shape[::-1]) + struct.pack('<IQ', int(a.dtype == np.float16), off)
    off += (a.nbytes + 31) // 32 * 32
with open(out, 'wb') as f:
    f.write(b'GGUF' + struct.pack('<IQQ', 3, len(T), len(K)) + b''.join(K) + info)
    f.write(b'\0' * (-f.tell() % 32))
    for n, a in T: f.write(a.tobytes() + b'\0' * (-a.nbytes % 32))
print(out, len(T), 'tensors', sum(a.size for _, a in T), 'parameters', os.path.getsize(out), 'bytes, crc of the weights', zlib.crc32(b))
