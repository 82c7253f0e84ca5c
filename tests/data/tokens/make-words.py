#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes a vocabulary that shows where a pre-tokenizer cuts, in the form of a tokenizer.json, and more texts for it.

  python3 make-words.py > words.json

The merges are learned from the texts as they are, not from their words. So they cross any place where some pre-tokenizer cuts, and
a cut at another place changes the ids. "texts" are texts beside those of texts.json, about what single pre-tokenizers cut.
"""
import collections, json, os, random

MERGES = 2000
here = os.path.dirname(os.path.abspath(__file__))
picked = [
    # Upper and lower case, with endings
    "fooBarBAZ", "XMLHttpRequest", "iPhone HELLOWorld", "ABC's abc'S ABC'LL", "ÀÉÎõü ÀÉ'RE", "ǅungla Ǆ", "ʰabcʰ ʰABC", "Zürich'd ΑΒΓαβγ", "don'tX",
    # Digits in groups of three, with neighbours that decide about them
    "1234567", "12345678", "123456789", "12", "1234abc", "abc1234", "1234_5678", "_1234", "1234\u0301 5", "1234² 12²3456 ²1234", "1234567 89 1,234,567.8901", "١٢٣٤٥٦٧",
    "v1234.56789", "Ⅷ123456Ⅷ", "123456\u200d7", "１２３４５",
    # Scripts that some treat apart
    "漢字とカナと、ひらがな。テスト", "漢字abc漢字ABC", "ab漢字's 漢'll", "〇々〆ヶ", "⺀⼀㐀豈", "ㄅㄆㄇ注音", "한국어ㄱㄴㄷ 텍스트", "가나다ABC라마", "！…“引用”‘引’——：；，、。〔〕", "ไทย ลาว ខ្មែរ မြန်မာ",
    "ｱｲｳｴｵ ｶﾞ", "中文，没有空格。English混排123", "ヶ月・間", "𠀀𠮷𪚥", "ꙀꙁꚀ Ა ა", "ﬁﬂ ﬃ", "ℂℍℕ ⅅⅆ", "ᏣᎳᎩ Ꮳ",
    # Marks of BLOOM's words and of DeepSeek's
    "a|b(c)d.e,f!g?h", "x…y。z，w、v।u۔t،s", " (|. ,", "ＡＢ！（）～", "‘a’ “b” ‟c", "$+<=>^~|`", "a`b`c", "x+y=z<w>v^u~t", "€£¥ ©®™", "!abc #tag @user", "(word) [word] {word}", "\"quoted\" 'single'",
    # White space in groups, and with newlines
    " " * 5 + "x", " " * 7, " " * 37 + "x", " " * 513 + "x", " " * 1100, "\t" * 9 + "a", " \u00a0\u3000 \u2003x", "   \n   x", "a  \n\n  b", "!\n  \n", "!\n\n  \n  x", "\n \n \n", " \r \r\n x", "a \u2028 \u2029 b",
    "//\n/", "a/b//\n/c", "!/\n\r/", "  //", "x //\n", "=\n/\n",
    # Letters with spaces between, marks, joiners
    "a b c d ef gh", "a b\u0301 c", "x y\nz", "क्\u200dष क्\u200cष", "e\u0301e\u0301 e\u0301", "\u0301a \u0301", "ab\u0301\u0301cd", "\u200dx\u200c",
    # Chameleon's own tokens
    "<sentinel:12>x<sentinel:>", "IMGIMGABCZ IMGIMGABCDEZ", "a    b     c  d", "\t\n\t",
]
pieces = ["a", "b", "Ab", "XY", "word", "É", "é", "ʰ", "ǅ", " ", " ", "  ", "\n", "\n", "\r\n", "\t", "1", "23", "456", "7890", "²", "Ⅷ", "٣", "'s", "'LL", "'", "’", ".", ",", "!", "/", "|", "(", "$", "+", "_",
          "`", "中", "漢字", "々", "、", "。", "ひ", "カ", "ー", "한", "ㄱ", "ㄅ", "ก", "ក", "ｱ", "\u0301", "\u200d", "\u200c", "\u00a0", "\u3000", "😀", "\u0001", "𠮷", "“", "…", "ß", "Ж", "ж", "ﬁ", "e\u0301"]


def merged(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if tuple(ids[i:i + 2]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def printable():
    """The characters by which byte-level BPE writes the 256 bytes."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    chars = {b: chr(b) for b in plain}
    for b in range(256):
        chars.setdefault(b, chr(0x100 + b - sum(p < b for p in plain)))
    return [chars[b] for b in range(256)]


def train(texts):
    tokens, merges = printable(), []
    words = [list(t.encode()) for t in texts]
    while len(merges) < MERGES:
        pairs = collections.Counter(p for w in words for p in zip(w, w[1:]))
        pair = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(tokens[pair[0]] + " " + tokens[pair[1]])
        text = tokens[pair[0]] + tokens[pair[1]]
        if text not in tokens:
            tokens.append(text)
        words = [merged(w, pair, tokens.index(text)) for w in words]
    return tokens, merges


rng = random.Random(26)
more = picked + ["".join(rng.choices(pieces, k=rng.randint(2, 12))) for i in range(150)]
texts = json.load(open(os.path.join(here, "texts.json")))["texts"]
# Without control tokens: some are known by their texts, wherever they stand.
tokens, merges = train([t for t in texts + more if len(t) < 300 and "|>" not in t and "s>" not in t])
print(json.dumps({
    "texts": more, "pre_tokenizer": {"type": "ByteLevel"},
    "added_tokens": [{"id": len(tokens), "content": "<|text|>", "special": False}],
    "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges},
}, ensure_ascii=False, indent=0, separators=(",", ":")))
