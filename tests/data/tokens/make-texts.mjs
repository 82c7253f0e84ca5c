// SPDX-License-Identifier: MIT
// Makes the texts of both references: hand-picked ones, and 300 random mixtures of awkward characters with a fixed seed.
//   node make-texts.mjs > texts.json
const picked = [
  "", " ", "  ", "a", " a", "a ", "Hello world", "Hello, World!", "hello   world", "   leading", "trailing   ",
  "\n", "\n\n", "\n\n\nx", "x\n", "x \n y", "x\r\ny\r\n", "\r", "\r\r\n", "\t", "\t\tindent", "a\tb", " \t \n \t ", "\u000b\u000c",
  "x  \n", "x\n  y", "if x:\n    return 1\n\n\n    y = 2", "{\n\t\"a\": [1, 2, 3],\n\t\"b\": null\n}\n",
  "0", "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "-42", "x1y22z333", " 7", "  77", "v1.2.3-rc4", "0x1F", "1e-10",
  "2024-01-31T12:34:56Z", "\u00bd \u00b2 \u2167 \u2460 \u4e09", "\u0661\u0662\u0663\u0664", "\u0967\u0968\u0969", "\ud835\udfd8\ud835\udfd9\ud835\udfda",
  "I'm you're we've he'll she'd it's don't", "I'M YOU'RE WE'VE HE'LL SHE'D IT'S DON'T", "'s's's", "'t 'll 're", "'tis 'Twas", "x'\u017f y'\u017f",
  "\u2019s don\u2019t", "'\u00e9", "a'b'c", "''", "'", " '", "' s",
  "na\u00efve caf\u00e9 r\u00e9sum\u00e9 \u00dcber stra\u00dfe", "e\u0301 n\u0303 a\u0308", "\u0301\u0301\u0301", "Z\u0335\u0321\u030aa\u0334l\u0337g\u0338o",
  "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002", "\u4e2d\u6587\u5206\u8bcd\u6d4b\u8bd5\uff0c\u6ca1\u6709\u7a7a\u683c", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4", "\u3000\u5168\u89d2\u3000\u30b9\u30da\u30fc\u30b9",
  "\uff21\uff22\uff23\uff11\uff12\uff13", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442", "\u03b5\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "\u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
  "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u1000\u103c\u1014\u103a\u1019\u102c", "\ud800\udf30\ud800\udf31", "\ud842\udfb7\u91ce\u5bb6",
  "\ud83d\ude00", "\ud83d\ude00\ud83d\ude01", "\ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67\u200d\ud83d\udc66", "\ud83d\udc4d\ud83c\udffd", "\ud83c\uddeb\ud83c\uddf7\ud83c\udde9\ud83c\uddea", "\u2764\ufe0f", "a\ud83d\ude00b 1\ud83d\ude002",
  "\u0000", "a\u0000b", "\u0001\u0002\u0003\u0004\u0005\u0006\u0007\u0008", "\u000e\u000f\u0010\u0013\u0014\u0016\u001b\u001d\u001f", "\u007f", "\u001b[31mred\u001b[0m",
  "\u0080\u0085\u009f", "a\u0085b", " \u0085 x", "\u00a0", "a\u00a0b", " \u00a0 x", "\u00ad", "\u1680x\u2000y\u2028z\u2029", "\u180ex\u180e y", "\u200bx\u200b", "\u202fx\u205fy\u3000", "\ufeffBOM", "x\ufeff y",
  "\ufffd", "\uffff", "\ufdd0", "\udbff\udfff", "\ue000", "\u00c0\u00c1\u00f5\u00ff",
  "...", "!!!???", "<>", "a.b.c", "foo_bar_baz", "fooBarBaz", "--help -v", "/usr/share/doc/", "http://example.org/a?b=c&d=e#f", "user@example.org", "a+b=c", "$100 \u20ac50 \u00a310", "@#%^&*()",
  "!\n", "!\r\n\r\n", "?\n\n x", " !", "  !", "\n!", "(\n", ";\n\t}", "// comment\n", "/* c */", "\\n\\t", "#include <stdio.h>\nint main(void)\n{\n\treturn 0;\n}\n",
  "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "a<|endoftext|>b", "<|im_end|><|im_end|>", "<|im_end", "|im_end|>", "<<|im_end|>>", " <|im_end|> ", "<|im_start|>1<|im_end|>  2", "<s>", "</s>", "<unk>", "<0x41>", "<s> a </s> b", "[INST] x [/INST]",
  "supercalifragilisticexpialidocious", "pneumonoultramicroscopicsilicovolcanoconiosis", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  " ".repeat(3) + "x", " ".repeat(17) + "x", " ".repeat(100), " ".repeat(100) + "x", "\n".repeat(50), "\t".repeat(40) + "x", " \n".repeat(30), "=".repeat(80), "-".repeat(79) + "\n", "ab".repeat(100), "'s".repeat(40), "1".repeat(100),
  "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "ThE qUiCk", "the the the the", "kernel memory allocation", "It is possible to specify the number of bytes.",
];

let state = 20240131n;
function random(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
}
const pieces = ["a", "the", "The", " ", " ", "  ", "\n", "\r\n", "\t", "1", "23", "456", "'s", "'LL", "'", "\u2019", ".", ",", "!", "-", "_", "(", "\"", "\u00e9", "e\u0301", "\u00df", "\u017f",
  "\u4e2d", "\u65e5\u672c", "\u3042", "\ud55c", "\u0416", "\u0648", "\u094d", "\u0301", "\ud83d\ude00", "\u200d", "\ufe0f", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\ufeff", "\u200b", "\u00b2", "\u2167", "\u0663", "\u0000", "\u001b", "\u007f", "x", "ing", "tion", "return", "<", ">", "|", "=", "Q"];
const mixed = [];
for (let i = 0; i < 300; i++) {
  let s = "";
  for (let n = 1 + random(14); n; n--)
    s += pieces[random(pieces.length)];
  mixed.push(s);
}
console.log(JSON.stringify({ texts: picked.concat(mixed) }).replace(/","/g, "\",\n\"").replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")));
