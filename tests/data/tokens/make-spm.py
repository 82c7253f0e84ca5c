#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes reference ids of SPM: docs6m's tokenizer.model with SentencePiece (Debian's python3-sentencepiece).

  python3 make-spm.py docs6m/tokenizer.model DATA-DIR > spm.json

DATA-DIR (VNPU_DATA in the tests) has the files of which only a count and a hash of the ids are kept.
"""
import json, os, sys
import sentencepiece

here = os.path.dirname(os.path.abspath(__file__))
model, data = sys.argv[1:3]
spm = sentencepiece.SentencePieceProcessor(model_file=model)
texts = json.load(open(os.path.join(here, 'texts.json')))['texts']
files = ['models/docs6m/test.txt', 'text/specbench_question.jsonl', 'text/tinystories_val.txt', 'text/wikitext2_raw_test.txt',
         'text/wizard_of_oz.txt']


def fnv1a64(ids):
    h = 0xcbf29ce484222325
    for i in ids:
        for b in i.to_bytes(4, 'little'):
            h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return '%016x' % h


def entry(name):
    ids = spm.encode(open(os.path.join(data, name), encoding='utf-8', newline='').read())
    return [len(ids), fnv1a64(ids)]


result = {'package': 'python3-sentencepiece', 'version': sentencepiece.__version__, 'vocabulary': 'docs6m (tokenizer.model)',
          'ids': {'docs6m': [spm.encode(t) for t in texts]}, 'files': {'docs6m': {f: entry(f) for f in files}}}
print(json.dumps(result, separators=(',', ':')).replace('],[', '],\n['))
