"""docs34m's sizes: a LLaMA with GQA, SwiGLU and tied embeddings."""
DIM, LAYERS, HEADS, KV, HD, FF, VOCAB, CTX, EPS, THETA, BOS = 512, 10, 8, 4, 64, 1536, 4096, 2048, 1e-5, 10000.0, 1

def shapes():
    s = {'tok': (VOCAB, DIM), 'norm': (DIM,)}
    for i in range(LAYERS):
        s.update({f'{i}.an': (DIM,), f'{i}.wq': (HEADS * HD, DIM), f'{i}.wk': (KV * HD, DIM), f'{i}.wv': (KV * HD, DIM), f'{i}.wo': (DIM, HEADS * HD),
                  f'{i}.fn': (DIM,), f'{i}.w1': (FF, DIM), f'{i}.w3': (FF, DIM), f'{i}.w2': (DIM, FF)})
    return s
