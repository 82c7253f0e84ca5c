// SPDX-License-Identifier: MIT
// Makes reference ids of byte-level BPE: SmolLM2's vocabulary with four pre-tokenizers, by Hugging Face's tokenizers library.
//   npm install @anush008/tokenizers@0.6.0
//   node make-bpe.mjs SMOLLM2-TOKENIZER.json DATA-DIR > bpe.json
// DATA-DIR (VNPU_DATA in the tests) has the files of which only a count and a hash of the ids are kept.
import { createRequire } from "module";
import fs from "fs";
import path from "path";
const require = createRequire(path.join(process.cwd(), "x.js"));
const { Tokenizer } = require("@anush008/tokenizers");

const here = path.dirname(new URL(import.meta.url).pathname);
const [source, data] = process.argv.slice(2);
const { texts } = JSON.parse(fs.readFileSync(path.join(here, "texts.json")));
const files = ["models/docs6m/test.txt", "text/specbench_question.jsonl", "text/tinystories_val.txt", "text/wikitext2_raw_test.txt", "text/wizard_of_oz.txt"];

const llama3 = (digits) => "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits +
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const byteLevel = (use_regex) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex });
const split = (pattern) => ({ type: "Sequence", pretokenizers: [
  { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false }, byteLevel(false)] });
const pre = {
  "smollm": null, // as in the file
  "gpt-2": byteLevel(true),
  "llama-bpe": split(llama3("\\p{N}{1,3}")),
  "qwen2": split(llama3("\\p{N}")),
};

function fnv1a64(ids) {
  let h = 0xcbf29ce484222325n;
  for (const id of ids)
    for (let shift = 0; shift < 32; shift += 8)
      h = ((h ^ BigInt((id >>> shift) & 255)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return h.toString(16).padStart(16, "0");
}

const result = { package: "@anush008/tokenizers", version: "0.6.0 (tokenizers 0.22.2)", vocabulary: "SmolLM2 (models/tokenizers/smollm2_tokenizer.json)", ids: {}, files: {} };
for (const [name, pre_tokenizer] of Object.entries(pre)) {
  const json = JSON.parse(fs.readFileSync(source));
  if (pre_tokenizer)
    json.pre_tokenizer = pre_tokenizer;
  json.model.ignore_merges = name == "llama-bpe";
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  const encode = async (text) => (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
  result.ids[name] = [];
  for (const text of texts)
    result.ids[name].push(await encode(text));
  result.files[name] = {};
  for (const file of files) {
    const ids = await encode(fs.readFileSync(path.join(data, file), "utf8"));
    result.files[name][file] = [ids.length, fnv1a64(ids)];
  }
}
console.log(JSON.stringify(result).replace(/([\]}]),"/g, "$1,\n\"").replace(/\],\[/g, "],\n["));
