#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tasks for llm-bench --tasks of texts: tasks.py [-n TASKS] [-s SEED] [-c CHARACTERS] TEXT...

Each kind has the form of one of CoordGen's tasks, and begins its answer with words of the context, so that a model that
knows nothing but its language goes on as the context does, or in its own words:

    summary   a passage, and the beginning of it again
    qa        a passage, and a question about one of its sentences
    ui        commands on a few controls, again and again
    reply     messages that quote one another
"""
import argparse, json, random, re

def passages(paths, characters):
    for path in paths:
        text = open(path, encoding="utf-8", errors="replace").read()
        for p in re.split(r"\n\s*\n", text):
            p = " ".join(p.split())
            if len(p) > characters // 2 and not re.search(r"[|{}<>\\]|^#|^=|```", p):
                yield p[:characters].rsplit(" ", 1)[0]

def words(text, first, n):
    return " ".join(text.split()[first:first + n])

def summary(passage, r):
    return passage + "\n\n", "In short: " + words(passage, 0, 4)

def qa(passage, r):
    sentences = [s for s in re.split(r"(?<=[.:;]) ", passage) if len(s.split()) > 6] or [passage]
    about = words(r.choice(sentences), 0, 3)
    return passage + "\n\n", f"Question: what is said of {about}?\nAnswer: {about}"

def ui(passage, r):
    w = [x.strip(".,;:()`'\"") for x in passage.split()]
    controls = [x for x in w if len(x) > 5][:4] or ["button"]
    lines = [f"{r.choice(['click', 'open', 'close'])} the {c} button\n" for c in controls]
    return "Commands:\n" + "".join(lines + lines[1:] + lines[:1]), lines[1 % len(lines)] + "click"

def reply(passage, r):
    half = len(passage.split()) // 2
    quoted = "\n".join("> " + words(passage, i, 10) for i in range(0, 2 * half, 10))
    return f"Ann wrote:\n{quoted}\n\n", f"Ben wrote:\n> {words(passage, 0, 6)}"

a = argparse.ArgumentParser()
a.add_argument("-n", type=int, default=8)
a.add_argument("-s", type=int, default=1)
a.add_argument("-c", type=int, default=700)
a.add_argument("texts", nargs="+")
a = a.parse_args()
r = random.Random(a.s)
found = sorted(set(passages(a.texts, a.c)))
r.shuffle(found)
for i, kind in enumerate((summary, qa, ui, reply)):
    for passage in found[i * a.n:(i + 1) * a.n]:
        context, prompt = kind(passage, r)
        print(json.dumps({"kind": kind.__name__, "context": context, "prompt": prompt, "n": 64}))
