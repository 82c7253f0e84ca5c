// SPDX-License-Identifier: MIT
/*
 * The table of pre-tokenizers: see tokenizer_pre.h. Its rows are the pre-tokenizers that llama.cpp
 * maps to one another by name.
 */
#include "tokenizer_pre.h"

#include <string.h>

/* Unicode's White_Space; PCRE2's \s also has U+180E, which Unicode has removed. */
#define SPACE                                                                               \
	"\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
	"\\x{205f}\\x{3000}"
/* White space that is neither \r nor \n */
#define BLANK                                                                        \
	"\\t\\x0b\\x0c\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
	"\\x{202f}\\x{205f}\\x{3000}"
#define SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define OTHER "[^" SPACE "\\p{L}\\p{N}]+"
#define ENDING "'(?:[stmd]|re|ve|ll)"

/* GPT-2's pattern */
#define GPT2_LETTERS ENDING "| ?\\p{L}+"
#define GPT2 GPT2_LETTERS "| ?\\p{N}+| ?" OTHER "|" SPACES

/* GPT-4's and Llama 3's, with and without what comes first */
#define WORDS(letters, digits, other, newlines) \
	"[^\\r\\n\\p{L}\\p{N}]?" letters "|" digits "| ?" other "|[" SPACE "]*" newlines "|" SPACES
#define LLAMA3(letters, digits, other) "(?i:" ENDING ")|" WORDS(letters, digits, other, "[\\r\\n]+")
#define LLAMA3_OTHER OTHER "[\\r\\n]*"

/* GPT-4o's: a word's upper-case letters come before its lower-case ones. */
#define NO_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(upper, lower, ending) \
	NO_WORD upper "*" lower "+" ending "|" NO_WORD upper "+" lower "*" ending
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT4O(ending, digits)       \
	CASED(UPPER, LOWER, ending) \
	"|" digits "| ?" OTHER "[\\r\\n/]*|[" SPACE "]*[\\r\\n]+|" SPACES
/*
 * The same without Han characters; PCRE2 has no intersection of classes but this. Han are those
 * whose script is Han: \p{Han} of newer PCRE2 has punctuation that is also used with them.
 */
#define HAN                                                                  \
	"\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}" \
	"\\x{3007}\\x{3021}-\\x{3029}\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}" \
	"\\x{4e00}-\\x{9fff}\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}"          \
	"\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}\\x{20000}-\\x{2a6df}"      \
	"\\x{2a700}-\\x{2b738}\\x{2b740}-\\x{2b81d}\\x{2b820}-\\x{2cea1}"    \
	"\\x{2ceb0}-\\x{2ebe0}\\x{2f800}-\\x{2fa1d}\\x{30000}-\\x{3134a}"
#define NO_CASE HAN "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}"
#define UPPER_NOT_HAN "[^\\p{Ll}" NO_CASE "]"
#define LOWER_NOT_HAN "[^\\p{Lu}\\p{Lt}" NO_CASE "]"

/* DeepSeek's: CJK apart, cased letters of Unicode 12, and version 3's main pattern */
#define DEEPSEEK_CJK "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK_LETTERS                                                                 \
	"[A-Za-z\\xb5\\xc0-\\xd6\\xd8-\\xf6\\xf8-\\x{1ba}\\x{1bc}-\\x{1bf}"              \
	"\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"            \
	"\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"    \
	"\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"           \
	"\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"   \
	"\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"   \
	"\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"   \
	"\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}"              \
	"\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"             \
	"\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"   \
	"\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}"    \
	"\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"     \
	"\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}"    \
	"\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"    \
	"\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"    \
	"\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"   \
	"\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
	"\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"                \
	"\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+"
#define DEEPSEEK_MARKS                                                     \
	"[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}" \
	"\\x{3000}-\\x{3002}]+"
#define KANA_HAN "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
#define DEEPSEEK3_WORDS                                                          \
	"[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
	" ?[\\p{P}\\p{S}]+"
#define DEEPSEEK3 DEEPSEEK3_WORDS "[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" SPACES

/* BLOOM's: words end at these marks and at white space. */
#define BLOOM " ?[^(|.,!?)" SPACE "\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}]+"

/* Falcon's: punctuation and ASCII's symbols */
#define PUNCTUATION "[\\p{P}$+<=>^~|`]+"

/* Jais 2's: white space in groups of powers of two. A newline is looked for only at the beginning
 * of a run: later groups of the run have been cut because it has none. */
#define JAIS2_SPACES                                                                         \
	"(?<![" BLANK "])[" SPACE "]*[\\r\\n]+|(?:[" SPACE "]{512}|[" SPACE "]{256}|[" SPACE \
	"]{128}|[" SPACE "]{64}|[" SPACE "]{32}|[" SPACE "]{16}|[" SPACE "]{8}|[" SPACE      \
	"]{4}|[" SPACE "]{1,2})(?![^" SPACE "])|[" SPACE "]"

static const struct pre_tokenizer pre_tokenizers[] = {
	{ .names = { "gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de",
		     "jina-v1-en", "jina-v2-code", "roberta-bpe", "modern-bert", "jais", "gigachat",
		     "a.x-4.0", "mellum", "exaone4", "trillion", "granite-docling" },
	  .steps = { { GPT2 } } },
	{ .names = { "olmo", "mpt" }, .steps = { { GPT2 } }, .nfc = true },
	/*
	 * Each digit apart, then GPT-2's pattern. In one pattern, a digit acts like the end of the
	 * text.
	 */
	{ .names = { "smollm", "starcoder", "refact", "command-r", "cohere2_moe", "codeshell",
		     "exaone", "minerva-7b", "mellum2" },
	  .steps = { { GPT2_LETTERS "|\\p{N}| ?" OTHER "|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE
				    "]+" } } },
	{ .names = { "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral",
		     "midm-2.0", "lfm2", "jina-v5-nano" },
	  .steps = { { LLAMA3("\\p{L}+", "\\p{N}{1,3}", LLAMA3_OTHER) } },
	  .whole_words = true,
	  .adds_bos = true },
	{ .names = { "dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5" },
	  .steps = { { LLAMA3("\\p{L}+", "\\p{N}{1,3}", LLAMA3_OTHER) } } },
	{ .names = { "qwen2" },
	  .steps = { { LLAMA3("\\p{L}+", "\\p{N}", LLAMA3_OTHER) } },
	  .nfc = true },
	{ .names = { "deepseek-r1-qwen", "kormo", "openpangu", "f2llmv2", "megrez", "stablelm2",
		     "hunyuan", "solar-open", "grok-2" },
	  .steps = { { LLAMA3("\\p{L}+", "\\p{N}", LLAMA3_OTHER) } } },
	{ .names = { "qwen35" },
	  .steps = { { LLAMA3("[\\p{L}\\p{M}]+", "\\p{N}",
			      "[^" SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*") } },
	  .nfc = true },
	{ .names = { "laguna" },
	  .steps = { { "[^\\n]+|\\n+" }, { LLAMA3("\\p{L}+", "\\p{N}", LLAMA3_OTHER) } } },
	{ .names = { "k2-horizon" },
	  .steps = { { LLAMA3("[\\p{L}\\p{M}\\x{200c}\\x{200d}]+", "\\p{N}{1,3}",
			      LLAMA3_OTHER) } } },
	{ .names = { "minicpm5" },
	  .steps = { { "\\p{N}{1,3}" }, { LLAMA3("\\p{L}+", "\\p{N}+", LLAMA3_OTHER) } },
	  .whole_words = true },
	{ .names = { "seed-coder" },
	  .steps = { { LLAMA3("\\p{L}+", "\\p{N}", "[^" SPACE "\\p{L}\\p{N}\\r\\n]+") } } },
	{ .names = { "ufakzeka" },
	  .steps = { { WORDS("\\p{L}+", "\\p{N}", LLAMA3_OTHER, "[\\r\\n]+") } } },
	{ .names = { "bailingmoe", "bailingmoe2", "llada-moe" },
	  .steps = { { "(?i:" ENDING
		       ")|" WORDS("\\p{L}+", "\\p{N}", LLAMA3_OTHER, "[\\r\\n]") } } },
	{ .names = { "exaone-moe" },
	  .steps = { { "(?i:" ENDING ")|" WORDS("(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++",
						"\\p{N}", OTHER "[\\r\\n/]?", "[\\r\\n]") } } },
	{ .names = { "jais-2" },
	  .steps = { { "(?i:" ENDING ")|" NO_WORD "\\p{L}+|\\p{N}{1,3}| ?" LLAMA3_OTHER
		       "|" JAIS2_SPACES } } },
	{ .names = { "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2" },
	  .steps = { { GPT4O("(?i:" ENDING ")?", "\\p{N}{1,3}") } } },
	{ .names = { "tekken" },
	  .steps = { { GPT4O("", "\\p{N}") } },
	  .whole_words = true,
	  .adds_bos = true },
	{ .names = { "tiny_aya", "cohere2moe" },
	  .steps = { { "(?<!\\d)\\d++(?![\\p{L}\\p{M}\\p{Nl}\\p{Pc}])", PRE_THREES },
		     { GPT4O("(?i:" ENDING ")?", "\\p{N}{1,3}") } } },
	{ .names = { "youtu" },
	  .steps = { { "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}"
		       "\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-"
		       "\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" KANA_HAN },
		     { GPT4O("(?i:" ENDING ")?", "\\p{N}") } },
	  .whole_words = true },
	{ .names = { "kimi-k2" },
	  .steps = { { "[" HAN "]+|" CASED(UPPER_NOT_HAN, LOWER_NOT_HAN,
					   "(?i:" ENDING ")?") "|"
							       "\\p{N}{1,3}| ?" LLAMA3_OTHER
							       "|[" SPACE
							       "]*[\\r\\n]+|" SPACES } } },
	{ .names = { "deepseek-llm" },
	  .steps = { { "[\\r\\n]" },
		     { "[" SPACE "]?" DEEPSEEK_LETTERS },
		     { "[" SPACE "]?" DEEPSEEK_MARKS },
		     /* White space at the end; a run is tried only at its beginning. */
		     { "(?<![" SPACE "])[" SPACE "]++\\z" },
		     { DEEPSEEK_CJK },
		     { "\\p{N}+" } } },
	{ .names = { "deepseek-coder" },
	  .steps = { { "[\\r\\n]" },
		     { "[" SPACE "]?\\p{L}+" },
		     { "[" SPACE "]?\\p{P}+" },
		     { DEEPSEEK_CJK },
		     { "\\p{N}" } } },
	{ .names = { "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4" },
	  .steps = { { "\\p{N}{1,3}" }, { KANA_HAN }, { DEEPSEEK3 } } },
	{ .names = { "spark2_5" },
	  .steps = { { "\\p{N}{1,3}" },
		     { KANA_HAN },
		     { DEEPSEEK3_WORDS "|[\\r\\n]|" SPACES },
		     { "\\p{N}" } } },
	{ .names = { "afmoe" },
	  .steps = { { "\\p{N}+", PRE_THREES },
		     { "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{d7ff}\\x{e000}-"
		       "\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}"
		       "\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{1100}-"
		       "\\x{11ff}]+" },
		     { DEEPSEEK3 } } },
	{ .names = { "superbpe" }, .steps = { { "\\p{N}+" }, { "\\d+", PRE_THREES_INSIDE } } },
	{ .names = { "bloom", "poro-chat", "gpt3-finnish" }, .steps = { { BLOOM } } },
	{ .names = { "viking" }, .steps = { { BLOOM }, { "\\p{N}" } } },
	{ .names = { "falcon" }, .steps = { { PUNCTUATION }, { GPT2 }, { "[0-9][0-9][0-9]" } } },
	{ .names = { "chameleon" },
	  .steps = { { "<sentinel:[0-9]+>" },
		     { "IMGIMG[A-I]{1,4}Z" },
		     { "[\\t\\n]|    |  " },
		     { "\\p{N}" },
		     { "[\\p{P}!-/:-@\\[-`{-~]" },
		     { GPT2 } },
	  .adds_bos = true },
	/* What llama.cpp does with files that name no pre-tokenizer; no model asks for it. */
	{ .names = { "default" },
	  .steps = { { "[\\p{P}$+<=>^~|]+" }, { GPT2 }, { "\\p{N}+" }, { "[0-9][0-9][0-9]" } } },
};

#define N_PRE (sizeof(pre_tokenizers) / sizeof(pre_tokenizers[0]))

const struct pre_tokenizer *pre_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < N_PRE; i++) {
		const char *const *n = pre_tokenizers[i].names;

		for (; *n; n++)
			if (strlen(*n) == bytes && !memcmp(*n, name, bytes))
				return &pre_tokenizers[i];
	}
	return NULL;
}

const char *pre_name(size_t i)
{
	for (size_t p = 0; p < N_PRE; p++)
		for (const char *const *n = pre_tokenizers[p].names; *n; n++)
			if (!i--)
				return *n;
	return NULL;
}
