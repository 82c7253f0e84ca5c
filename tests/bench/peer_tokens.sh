#!/bin/bash
# SPDX-License-Identifier: MIT
# LLAMA_TOKENIZE=PROGRAM tests/bench/peer_tokens.sh [--write VERSION]
# Compares ids with those of a llama-tokenize (of llama.cpp or a fork): the texts of tests/data/tokens under every pre-tokenizer that
# it knows with the vocabulary of words.json, and with docs6m's vocabulary. Prints how many texts get other ids, and fails if they are
# not the ones that tests/data/tokens/llama.json lists; --write makes that list, with the program's name and version.
#
#   BUILD           the folder of bin/llm-vocab (build)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
[ -n "${LLAMA_TOKENIZE:-}" ] || { echo "peer_tokens.sh: LLAMA_TOKENIZE names no llama-tokenize" >&2; exit 2; }
[ $# -eq 0 ] || { [ $# -eq 2 ] && [ "$1" = --write ]; } || { echo "peer_tokens.sh: only --write VERSION may be given" >&2; exit 2; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
python3 - "${BUILD:-build}/bin/llm-vocab" "$LLAMA_TOKENIZE" "$scratch" "${2:-}" <<'PYTHON'
import json, subprocess, sys

vocab, peer, scratch, version = sys.argv[1:]
data = "tests/data/tokens/"
words = json.load(open(data + "words.json"))
texts = json.load(open(data + "texts.json"))["texts"] + words["texts"]
separator = words["added_tokens"][0]
docs6m = "share/models/docs6m/docs6m-q8_0.gguf"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def ours(gguf, path):
    done = run(vocab, "--encode", path, gguf)
    return [int(i) for i in done.stdout.split()] if not done.returncode else sys.exit(done.stderr)


def theirs(gguf, path):
    """None: it cannot read the file."""
    done = run(peer, "-m", gguf, "-f", path, "--ids", "--no-bos", "--no-parse-special", "--log-disable")
    return json.loads(done.stdout) if not done.returncode else None


def put(text):
    path = scratch + "/text"
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path


def divided(ids):
    """The ids of each text: the separator is a user-defined token, at which every tokenizer starts anew."""
    out = [[]]
    for i in ids:
        out.append([]) if i == separator["id"] else out[-1].append(i)
    assert len(out) == len(texts), (len(out), len(texts))
    return out


def others(pre):
    """The numbers of the texts whose ids differ; None: the peer does not know the pre-tokenizer."""
    gguf, path = scratch + "/vocab.gguf", put(separator["content"].join(texts))
    done = run(vocab, data + "words.json", "-o", gguf, "--pre", pre)
    if done.returncode:
        sys.exit(done.stderr)
    peers = theirs(gguf, path)
    return None if peers is None else [i for i, (a, b) in enumerate(zip(divided(ours(gguf, path)), divided(peers))) if a != b]


found = {pre: others(pre) for pre in run(vocab, "--list").stdout.split()}
found["docs6m"] = [i for i, t in enumerate(texts) if t and ours(docs6m, put(t)) != theirs(docs6m, put(t))]
for name, differ in found.items():
    print(f"{name:20}", "unknown" if differ is None else f"{len(differ)} of {len(texts)} texts have other ids")
if version:
    rows = ",\n".join(json.dumps(n) + ":" + json.dumps(d, separators=(",", ":")) for n, d in found.items())
    open(data + "llama.json", "w").write(f'{{"program":{json.dumps(version)},"others":{{\n{rows}}}}}\n')
else:
    known = json.load(open(data + "llama.json"))["others"]
    news = [n for n in found if found[n] is not None and found[n] != known.get(n)]
    for name in news:
        now, then = set(found[name]), set(known.get(name) or [])
        for i in sorted(now ^ then):
            print(f"{name}: the ids of text {i}, {texts[i]!r}, are {'others now' if i in now else 'equal now'}")
    sys.exit(len(news) > 0)
PYTHON
