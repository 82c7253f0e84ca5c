#!/usr/bin/python3
"""Train docs34m, a LLaMA of 33.6M parameters (GQA, interleaved RoPE, SwiGLU, tied embeddings), on one GPU.

  python3 train.py --seconds S [--out DIR]     trains on train.bin for S seconds after the first steps
                                               have compiled, then writes DIR/log.tsv, DIR/w.* and
                                               DIR/ref.json

As docs6m's train.py: AdamW (0.9, 0.95), decay of matrices only, clip 1, a linear warm-up, then a cosine that
follows the clock; a row is <s> and a window of the stream; windows of a pass do not overlap, and passes start
at a random offset.  Products are in bfloat16; weights, norms, softmax and the loss in float32.
w.* are the weights rounded to F16 in two planes (low bytes, high bytes compressed), in the order of shapes().
"""
import argparse, json, math, os, time, zlib, numpy as np, torch, torch.nn.functional as F
from sizes import *

def init(seed=1):
    g = torch.Generator().manual_seed(seed); p = {}
    for k, s in shapes().items():
        sd = 0.02 / math.sqrt(2 * LAYERS) if k.endswith(('wo', 'w2')) else 0.03 if k != 'tok' else 0.04
        p[k] = torch.ones(s) if len(s) == 1 else torch.randn(s, generator=g) * sd
    return p

def angles(T, dev):
    f = torch.arange(T, dtype=torch.float64)[:, None] * THETA ** (-torch.arange(0, HD, 2, dtype=torch.float64) / HD)
    return f.cos().float().to(dev), f.sin().float().to(dev)           # T, HD/2

def norm(x, w):
    x = x.float(); return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w
def rope(x, c, s):                                                    # B, H, T, HD: pairs (2i, 2i+1)
    x = x.float().unflatten(-1, (HD // 2, 2)); a, b = x[..., 0], x[..., 1]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)

def block(h, c, s, an, wq, wk, wv, wo, fn, w1, w3, w2, dt):
    B, T, _ = h.shape
    n = norm(h, an).to(dt)
    q = (n @ wq.to(dt).t()).view(B, T, HEADS, HD).transpose(1, 2); k = (n @ wk.to(dt).t()).view(B, T, KV, HD).transpose(1, 2)
    v = (n @ wv.to(dt).t()).view(B, T, KV, HD).transpose(1, 2)
    q, k = rope(q, c, s).to(dt), rope(k, c, s).to(dt)
    k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, HEADS * HD)
    h = h + a @ wo.to(dt).t()
    n = norm(h, fn).to(dt)
    return h + (F.silu(n @ w1.to(dt).t()) * (n @ w3.to(dt).t())) @ w2.to(dt).t()

def head(h, w, tok, y, dt):                                           # the sum of nats over rows and positions
    return F.cross_entropy((norm(h, w).to(dt) @ tok.to(dt).t()).float().flatten(0, 1), y.flatten(), reduction='sum')

class Net:
    def __init__(s, dev, compile):
        s.dev = dev; s.p = {k: v.to(dev).requires_grad_() for k, v in init().items()}; s.cs = angles(CTX, dev); s.block, s.head = block, head
        if compile: s.block, s.head = torch.compile(block), torch.compile(head)
    def hidden(s, x, dt, plain=False):
        p = s.p; c, sn = s.cs[0][:x.shape[1]], s.cs[1][:x.shape[1]]; h = F.embedding(x, p['tok']).to(dt)
        for i in range(LAYERS):
            h = (block if plain else s.block)(h, c, sn, *(p[f'{i}.{k}'] for k in ('an', 'wq', 'wk', 'wv', 'wo', 'fn', 'w1', 'w3', 'w2')), dt)
        return h
    def loss(s, x, y, dt=torch.bfloat16, plain=False):
        return (head if plain else s.head)(s.hidden(x, dt, plain), s.p['norm'], s.p['tok'], y, dt)

def held(net, D, ctx, dt, rows=8):
    """Mean nats over windows as in docs6m's README: all positions, and the second half of each."""
    D = np.concatenate(([BOS], D)); n = len(D) // ctx; W = torch.from_numpy(D[:n * ctx].astype(np.int64).reshape(n, ctx)).clone(); W[:, 0] = BOS; t = [0., 0.]
    with torch.no_grad():
        for i in range(0, n, rows):
            x = W[i:i + rows].to(net.dev); h = norm(net.hidden(x, dt, True), net.p['norm']).to(dt)
            l = F.cross_entropy((h @ net.p['tok'].to(dt).t()).float()[:, :-1].transpose(1, 2), x[:, 1:], reduction='none').double()
            t[0] += l.sum().item(); t[1] += l[:, ctx // 2:].sum().item()
    return {'windows': n, 'all': t[0] / (n * (ctx - 1)), 'half': t[1] / (n * (ctx - 1 - ctx // 2))}

def main():
    ap = argparse.ArgumentParser(); A = ap.add_argument; A('--seconds', type=float, required=True); A('--out', default='.'); A('--lr', type=float, default=2e-3)
    A('--lr_end', type=float, default=5e-5); A('--batch', type=int, default=64); A('--warmup', type=int, default=150); A('--wd', type=float, default=0.1); A('--dev', default='cuda')
    A('--data', default='train.bin'); A('--held', default='.'); A('--valid_every', type=float, default=60); A('--no_save', action='store_true'); a = ap.parse_args()
    cuda = a.dev == 'cuda'; sync = torch.cuda.synchronize if cuda else (lambda: None)
    net = Net(a.dev, cuda); ps = list(net.p.values()); print(sum(x.numel() for x in ps), 'parameters', torch.__version__, torch.cuda.get_device_name() if cuda else '', flush=True)
    opt = torch.optim.AdamW([{'params': [x for x in ps if x.dim() == 2], 'weight_decay': a.wd}, {'params': [x for x in ps if x.dim() == 1], 'weight_decay': 0.}],
                            lr=a.lr, betas=(0.9, 0.95), **({'fused': True} if cuda else {}))
    D = np.fromfile(a.data, np.uint16); V = np.fromfile(a.held + '/valid.bin', np.uint16); E = np.fromfile(a.held + '/test.bin', np.uint16); rng = np.random.default_rng(1)
    G = torch.from_numpy(D.astype(np.int16)).to(a.dev); span = torch.arange(CTX, device=a.dev); order = np.empty(0, np.int64); passes = 0
    def rows():
        nonlocal order, passes
        if len(order) < a.batch: order = rng.permutation(np.arange(rng.integers(CTX), len(D) - CTX, CTX)); passes += 1
        r, order = order[:a.batch], order[a.batch:]
        y = G[torch.from_numpy(r).to(a.dev)[:, None] + span].long(); return torch.cat((torch.full_like(y[:, :1], BOS), y[:, :-1]), 1), y
    t = time.time()
    for _ in range(2 if cuda else 1): x, y = rows(); (net.loss(x, y) / y.numel()).backward(); opt.zero_grad(set_to_none=True)
    sync(); print('compiled in %.1f s' % (time.time() - t), len(D), 'tokens a pass', flush=True)
    log = open(a.out + '/log.tsv', 'w'); t0 = last = lastv = time.time(); step = 0; acc = torch.zeros((), device=a.dev); n_acc = 0; f = 0
    while f < 1:
        f = min(1, (time.time() - t0) / a.seconds); lr = min((step + 1) / a.warmup, 1) * (a.lr_end + (a.lr - a.lr_end) * 0.5 * (1 + math.cos(math.pi * f)))
        for g in opt.param_groups: g['lr'] = lr
        x, y = rows(); l = net.loss(x, y) / y.numel(); l.backward(); torch.nn.utils.clip_grad_norm_(ps, 1.0); opt.step(); opt.zero_grad(set_to_none=True)
        acc += l.detach(); n_acc += 1; step += 1
        if step % 4 == 0: sync()                                      # the clock must not run ahead of the GPU
        if step % 50 == 0 or f >= 1:
            v = acc.item() / n_acc; now = time.time(); rate = n_acc * a.batch * CTX / (now - last); acc.zero_(); n_acc = 0; last = now
            log.write(f'{step}\t{step * a.batch * CTX}\t{v:.4f}\t{lr:.3e}\t{now - t0:.1f}\n'); log.flush()
            if step % 200 == 0 or f >= 1: print(f'step {step} tokens {step * a.batch * CTX / 1e6:.1f}M pass {passes} loss {v:.4f} lr {lr:.2e} {rate / 1e3:.0f}k tok/s {now - t0:.0f} s', flush=True)
            if not math.isfinite(v): raise SystemExit('the loss is not finite')
            if now - lastv > a.valid_every:
                h = held(net, V, 512, torch.bfloat16, 64); log.write(f"# valid\t{step}\t{h['all']:.4f}\n"); print('valid', h, flush=True); lastv = time.time()
                a.seconds += lastv - now; last = lastv                # validation does not count as training
    if cuda: print('peak memory', torch.cuda.max_memory_allocated() >> 20, 'MiB')
    ref = {'steps': step, 'tokens': step * a.batch * CTX, 'passes': passes, 'seconds': time.time() - t0}
    with torch.no_grad():
        for k, x in net.p.items():
            if x.dim() == 2: x.copy_(x.half().float())
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, d, c in (('test512', E, 512), ('valid512', V, 512), ('test2048', E, 2048)): ref[name] = held(net, d, c, torch.float32); print(name, ref[name], flush=True)
    json.dump(ref, open(a.out + '/ref.json', 'w'), indent=1)
    if not a.no_save:
        b = b''.join(x.detach().half().cpu().numpy().tobytes() if x.dim() == 2 else x.detach().float().cpu().numpy().tobytes() for x in net.p.values())
        lo, hi = b[0::2], zlib.compress(b[1::2], 6); print(len(b), 'bytes as', len(lo), len(hi), 'crc', zlib.crc32(b), flush=True); part = 15 << 20
        for name, d in (('lo', lo), ('hi', hi)):
            for i in range(0, len(d), part): open('%s/w.%s%d' % (a.out, name, i // part), 'wb').write(d[i:i + part])

if __name__ == '__main__': main()
