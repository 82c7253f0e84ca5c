"""Writes a LLaMA as a GGUF file, by hand, for the export.py of docs6m and docs34m."""
import struct, numpy as np
S = lambda s: struct.pack('<Q', len(s.encode())) + s.encode()
U32, I32, F32, BOOL, STR, ARR = 4, 5, 6, 7, 8, 9
def val(t, v): return S(v) if t == STR else struct.pack({U32: '<I', I32: '<i', F32: '<f', BOOL: '<?'}[t], v)
def kv(k, t, v): return S(k) + struct.pack('<I', t) + val(t, v)
def arr(k, t, v): return S(k) + struct.pack('<IIQ', ARR, t, len(v)) + b''.join(val(t, x) for x in v)
NAME = {'an': 'attn_norm', 'wq': 'attn_q', 'wk': 'attn_k', 'wv': 'attn_v', 'wo': 'attn_output', 'fn': 'ffn_norm', 'w1': 'ffn_gate', 'w3': 'ffn_up', 'w2': 'ffn_down'}

def write(out, name, description, z, P, spm, f16):
    """z has the sizes (DIM, LAYERS, ...), P the arrays in the order of z.shapes(), spm the vocabulary; f16: F16 matrices, else F32."""
    ids = range(z.VOCAB)
    typ = [2 if spm.is_unknown(i) else 3 if spm.is_control(i) else 6 if spm.is_byte(i) else 1 for i in ids]
    K = [kv('general.architecture', STR, 'llama'), kv('general.name', STR, name), kv('general.file_type', U32, int(f16)), kv('general.alignment', U32, 32),
         kv('general.description', STR, description),
         kv('llama.context_length', U32, z.CTX), kv('llama.embedding_length', U32, z.DIM), kv('llama.block_count', U32, z.LAYERS), kv('llama.feed_forward_length', U32, z.FF),
         kv('llama.attention.head_count', U32, z.HEADS), kv('llama.attention.head_count_kv', U32, z.KV), kv('llama.attention.layer_norm_rms_epsilon', F32, z.EPS),
         kv('llama.rope.dimension_count', U32, z.HD), kv('llama.rope.freq_base', F32, z.THETA), kv('llama.vocab_size', U32, z.VOCAB),
         kv('tokenizer.ggml.model', STR, 'llama'), kv('tokenizer.ggml.pre', STR, 'default'),
         arr('tokenizer.ggml.tokens', STR, [spm.id_to_piece(i) for i in ids]), arr('tokenizer.ggml.scores', F32, [spm.get_score(i) for i in ids]),
         arr('tokenizer.ggml.token_type', I32, typ), kv('tokenizer.ggml.bos_token_id', U32, 1), kv('tokenizer.ggml.eos_token_id', U32, 2),
         kv('tokenizer.ggml.unknown_token_id', U32, 0), kv('tokenizer.ggml.add_bos_token', BOOL, True), kv('tokenizer.ggml.add_eos_token', BOOL, False),
         kv('tokenizer.ggml.add_space_prefix', BOOL, True)]
    T = []
    for k, a in P.items():     # no output.weight: the output matrix is token_embd.weight
        tensor = {'tok': 'token_embd', 'norm': 'output_norm'}.get(k) or 'blk.%s.%s' % (k.split('.')[0], NAME[k.split('.')[1]])
        T.append((tensor + '.weight', np.ascontiguousarray(a.astype(np.float16 if f16 and a.ndim == 2 else np.float32))))
    info = b''; off = 0
    for n, a in T:
        info += S(n) + struct.pack('<I', a.ndim) + b''.join(struct.pack('<Q', d) for d in a.shape[::-1]) + struct.pack('<IQ', int(a.dtype == np.float16), off)
        off += (a.nbytes + 31) // 32 * 32
    with open(out, 'wb') as f:
        f.write(b'GGUF' + struct.pack('<IQQ', 3, len(T), len(K)) + b''.join(K) + info)
        f.write(b'\0' * (-f.tell() % 32))
        for n, a in T: f.write(a.tobytes() + b'\0' * (-a.nbytes % 32))
    print(out, len(T), 'tensors', sum(a.size for _, a in T), 'parameters', open(out, 'rb').seek(0, 2), 'bytes')
