// SPDX-License-Identifier: MIT
/* What becomes of options of llama.cpp: see habits.h. */
#include <string.h>

#include "habits.h"

#define ANY "*"
#define GIVEN "given"
#define NO_DOWNLOAD                                                                              \
	"nothing is downloaded: fetch the GGUF file, such as with 'hf download REPO FILE', and " \
	"give it with -m FILE"
#define NO_CHAT "only llm-cli talks with a model: leave it out"
#define NO_INPUT "llm-cli -cnv reads turns, each a line, or several with a backslash between them"
#define NO_AFFIX "the chat format has what stands around a turn: --chat-template names it"
#define NO_LOG "there is no log: --stats tells speeds, and NPU_LOG=ioctl the device's calls"
#define NO_SPLIT "one OpenCL device is used, which --gpu names, and --placement says for what"
#define NO_DRAFT_MODEL "no second model makes drafts: leave it out"
#define PAST_ANSWERS "--history keeps past answers, from which drafts come"
#define DRAFT_COSTS "what passes cost decides how much is drafted: --draft says from where"
#define NO_ROPE "RoPE is as the file says: change the file's keys"
#define ONE_ORDER \
	"samplers follow one another as llama-cli's do by default: leave out those not wanted"
#define NO_ADAPTER "adapters are not applied: merge them into the model first"
#define NO_STATE "no KV cache is kept between runs: leave it out"
#define NO_TASK "only perplexity and KL divergence are measured: leave it out"
#define NO_SERVER "there is no server: run the program once for each prompt"
#define CPUS "the program's CPUs are those that it is allowed: start it with taskset -c LIST"

static const struct habit habits[] = {
	/* where it runs */
	{ "-ngl --gpu-layers --n-gpu-layers", "N", .takes = "N|-1|auto|all", .option = "placement",
	  .when = "0", .gives = "cpu",
	  .doc = "0 is --placement cpu; with any other number all layers are where --placement "
		 "says" },
	{ "-dev --device", "NAME", .option = "placement", .when = "none", .gives = "cpu",
	  .doc = "none is --placement cpu; others are chosen with --placement, --transport and "
		 "--gpu" },
	{ "-mg --main-gpu", "N", .option = "gpu", .doc = "the OpenCL device" },
	{ "-sm --split-mode", "MODE", .takes = "none|layer", .doc = NO_SPLIT },
	{ "-ts --tensor-split", "LIST", .doc = NO_SPLIT },
	{ "-ot --override-tensor", "RULES", .doc = "--placement divides the operators of a layer" },
	{ "-cmoe --cpu-moe", .doc = "--placement divides the operators of a layer" },
	{ "-ncmoe --n-cpu-moe", "N", .takes = "0",
	  .doc = "--placement divides the operators of a layer" },
	{ "-nkvo --no-kv-offload", "0|1", .optional = true, .takes = "0|1",
	  .doc = "the KV cache is in memory that all lanes share" },
	{ "-nopo --no-op-offload", "0|1", .optional = true, .takes = "0|1",
	  .doc = "--placement alone says where operators run" },
	{ "-rpc --rpc", "SERVERS", .doc = "no other machines are used: leave it out" },
	{ "-tb --threads-batch", "N", .option = "threads", .same = true,
	  .doc = "prompts and single tokens have the same number of threads" },
	{ "-C --cpu-mask", "MASK", .doc = CPUS },
	{ "-Cr --cpu-range", "RANGE", .doc = CPUS },
	{ "--cpu-strict", "0|1", .takes = "0", .doc = CPUS },
	{ "--prio", "N", .takes = "0", .doc = "start the program with nice or chrt" },
	{ "--poll", "N", .doc = "--sync fast polls as long as it pays, --sync driver never" },
	{ "--numa", "TYPE", .takes = "numactl",
	  .doc = "start the program with numactl, such as numactl --interleave=all" },

	/* memory */
	{ "-b --batch-size", "N", .takes = "N",
	  .doc = "a prompt is one batch; -ub says how it is divided" },
	{ "-ub --ubatch-size", "N", .option = "chunk", .doc = "tokens evaluated together" },
	{ "-fa --flash-attn", "on|off|auto", .optional = true, .takes = "on|auto|1",
	  .denied = "off|0",
	  .doc = "attention never keeps the scores of all keys in memory, so it has no other way" },
	{ "-ctk --cache-type-k", "TYPE", .option = "kv", .same = true,
	  .doc = "keys and values have the same type" },
	{ "-ctv --cache-type-v", "TYPE", .option = "kv", .same = true,
	  .doc = "keys and values have the same type" },
	{ "--swa-full", .takes = GIVEN, .doc = "every layer's cache has the rows of all tokens" },
	{ "-dt --defrag-thold", "X", .takes = ANY, .doc = "a KV cache has no gaps" },
	{ "-kvu --kv-unified", .takes = GIVEN, .doc = "there is one sequence" },
	{ "-np --parallel", "N", .takes = "1", .doc = "there is one sequence" },
	{ "--keep", "N", .takes = "N|-1",
	  .doc = "nothing is dropped when the context is full: the text ends" },
	{ "--no-context-shift", .takes = GIVEN,
	  .doc = "nothing is dropped when the context is full: the text ends" },
	{ "--context-shift", .doc = "a text ends when the context is full: give a larger -c" },
	{ "-mmp --mmap", "0|1", .optional = true, .takes = "0|1",
	  .doc = "files are mapped, and weights packed for the NPU are in memory" },
	{ "--no-mmap", .takes = GIVEN,
	  .doc = "files are mapped, and weights packed for the NPU are in memory" },
	{ "-dio --direct-io", "0|1", .optional = true, .takes = "0|1",
	  .doc = "--start cold reads past the page cache where that is faster" },
	{ "--mlock", .doc = "memory is not locked: switch swapping off with swapoff -a" },

	/* files */
	{ "-hf -hfr --hf-repo", "REPO", .doc = NO_DOWNLOAD },
	{ "-hff --hf-file", "FILE", .doc = NO_DOWNLOAD },
	{ "-hft --hf-token", "TOKEN", .doc = NO_DOWNLOAD },
	{ "-mu --model-url", "URL", .doc = NO_DOWNLOAD },
	{ "-dr --docker-repo", "REPO", .doc = NO_DOWNLOAD },
	{ "-md --model-draft", "FILE", .doc = NO_DRAFT_MODEL },
	{ "-ngld --gpu-layers-draft --n-gpu-layers-draft", "N", .doc = NO_DRAFT_MODEL },
	{ "-td --threads-draft", "N", .doc = NO_DRAFT_MODEL },
	{ "-cd --ctx-size-draft", "N", .doc = NO_DRAFT_MODEL },
	{ "-devd --device-draft", "NAME", .doc = NO_DRAFT_MODEL },
	{ "--draft-max --draft-n", "N", .doc = DRAFT_COSTS },
	{ "--draft-min --draft-n-min", "N", .doc = DRAFT_COSTS },
	{ "--draft-p-min", "P", .doc = DRAFT_COSTS },
	{ "-lcs --lookup-cache-static", "FILE", .doc = PAST_ANSWERS },
	{ "-lcd --lookup-cache-dynamic", "FILE", .doc = PAST_ANSWERS },
	{ "--lora", "FILE", .doc = NO_ADAPTER },
	{ "--lora-scaled", "FILE", .doc = NO_ADAPTER },
	{ "--control-vector", "FILE", .doc = NO_ADAPTER },
	{ "--mmproj", "FILE", .doc = "models read text only: leave it out" },
	{ "--image", "FILE", .doc = "models read text only: leave it out" },
	{ "--check-tensors", .takes = GIVEN, .doc = "a file is checked whenever it is loaded" },
	{ "--override-kv", "KEY=TYPE:VALUE", .doc = "a file's keys are used as they are" },
	{ "--rope-scaling", "TYPE", .doc = NO_ROPE },
	{ "--rope-scale", "N", .doc = NO_ROPE },
	{ "--rope-freq-base", "N", .doc = NO_ROPE },
	{ "--rope-freq-scale", "N", .doc = NO_ROPE },
	{ "--yarn-orig-ctx", "N", .doc = NO_ROPE },
	{ "--prompt-cache", "FILE", .doc = NO_STATE },
	{ "--prompt-cache-all", .doc = NO_STATE },
	{ "--prompt-cache-ro", .doc = NO_STATE },

	/* prompts and texts */
	{ "-bf --binary-file", "FILE", .option = "file", .doc = "files are read byte for byte" },
	{ "-e --escape", .takes = GIVEN, .doc = "files are read byte for byte" },
	{ "--predict", "N", .option = "n-predict", .doc = "another name of it" },
	{ "-s", "N", .option = "seed", .doc = "another name of it" },
	{ "--temperature", "T", .option = "temp", .doc = "another name of it" },
	{ "--top-n-sigma", "N", .option = "top-nsigma", .doc = "another name of it" },
	{ "--typical-p", "P", .option = "typical", .doc = "another name of it" },
	{ "--samplers", "NAMES", .doc = ONE_ORDER },
	{ "--sampler-seq --sampling-seq", "LETTERS", .doc = ONE_ORDER },
	{ "--no-display-prompt", .takes = GIVEN, .doc = "only the continuation is written" },
	{ "--display-prompt", .doc = "only the continuation is written: print the prompt first" },
	{ "--verbose-prompt", .doc = "llm-vocab --encode shows the tokens of a text" },
	{ "-no-cnv --no-conversation", .takes = GIVEN, .doc = "only llm-cli has conversations" },
	{ "-cnv --conversation", .doc = NO_CHAT },
	{ "-st --single-turn", .doc = NO_CHAT },
	{ "-sys --system-prompt", "TEXT", .doc = NO_CHAT },
	{ "-sysf --system-prompt-file", "FILE", .doc = NO_CHAT },
	{ "--chat-template", "TEMPLATE", .doc = NO_CHAT },
	{ "--chat-template-file", "FILE", .doc = NO_CHAT },
	{ "--jinja", .takes = GIVEN,
	  .doc = "a chat's format is recognised in the template, which is not run" },
	{ "--no-jinja", .takes = GIVEN, .doc = "templates are not run" },
	{ "--reasoning-format", "FORMAT", .takes = "none",
	  .doc = "thoughts are text like the rest of an answer" },
	{ "-i --interactive", .doc = NO_INPUT },
	{ "-if --interactive-first", .doc = NO_INPUT },
	{ "-mli --multiline-input", .doc = NO_INPUT },
	{ "--in-prefix", "TEXT", .doc = NO_AFFIX },
	{ "--in-suffix", "TEXT", .doc = NO_AFFIX },
	{ "--in-prefix-bos", .doc = NO_AFFIX },
	{ "-cb --cont-batching", .doc = NO_SERVER },
	{ "--host", "HOST", .doc = NO_SERVER },
	{ "--port", "PORT", .doc = NO_SERVER },

	/* what is printed */
	{ "-co --color", "on|off|auto", .optional = true, .takes = "on|off|auto",
	  .doc = "only the prompt and one's input would have a colour" },
	{ "--simple-io", .takes = GIVEN, .doc = "output is always that simple" },
	{ "--log-disable", .takes = GIVEN, .doc = "there is no log" },
	{ "--log-file", "FILE", .doc = "messages go to stderr: write 2>FILE" },
	{ "--log-colors", "on|off|auto", .optional = true, .takes = "on|off|auto",
	  .doc = "there is no log" },
	{ "--log-prefix", .takes = GIVEN, .doc = "there is no log" },
	{ "--log-timestamps", .takes = GIVEN, .doc = "there is no log" },
	{ "-v --verbose --log-verbose", .doc = NO_LOG },
	{ "-lv --verbosity --log-verbosity", "N", .takes = "0|1", .doc = NO_LOG },
	{ "--perf", .option = "stats", .doc = "speeds at the end" },
	{ "--no-perf", .takes = GIVEN, .doc = "speeds are told with --stats only" },
	{ "--show-timings", .option = "stats", .doc = "speeds at the end" },
	{ "--no-show-timings", .takes = GIVEN, .doc = "speeds are told with --stats only" },
	{ "--no-warmup", .takes = GIVEN, .doc = "nothing is run before the prompt" },
	{ "--warmup", .doc = "nothing is run before the prompt: leave it out" },
	{ "--usage", .option = "help", .doc = "another name of it" },

	/* quantising */
	{ "--allow-requantize", .takes = GIVEN,
	  .doc = "a warning tells of tensors that were quantised before" },
	{ "--include-weights", "NAME", .doc = "--imatrix is used for all matrices that it has" },
	{ "--exclude-weights", "NAME", .doc = "--imatrix is used for all matrices that it has" },
	{ "--keep-split", .doc = "one file is written: leave it out" },

	/* measurements */
	{ "--perplexity --all-logits", .takes = GIVEN, .doc = "this is what is measured" },
	{ "--save-all-logits", "FILE", .option = "kl-divergence-base",
	  .doc = "another name of it" },
	{ "--ppl-stride", "N", .takes = "0", .doc = "windows do not overlap: leave it out" },
	{ "--ppl-output-type", "N", .takes = "0", .doc = "-o json writes figures for programs" },
	{ "--hellaswag", .doc = NO_TASK },
	{ "--winogrande", .doc = NO_TASK },
	{ "--multiple-choice", .doc = NO_TASK },
	{ "-embd --embeddings", "0|1", .takes = "0",
	  .doc = "embeddings are not made: leave it out" },
};

const struct habit *habit_at(size_t i)
{
	return i < sizeof(habits) / sizeof(habits[0]) ? &habits[i] : NULL;
}

/* Whether one of @words, separated by @separator, is @word. "N" and "*" stand for many. */
static bool has_word(const char *words, char separator, const char *word, size_t bytes)
{
	const char separators[] = { separator, '\0' };

	for (size_t n; words && *words; words += n + (words[n] == separator)) {
		n = strcspn(words, separators);
		if (n == bytes && !memcmp(words, word, n))
			return true;
		if (n != 1 || separator == ' ')
			continue;
		if (*words == '*' ||
		    (*words == 'N' && bytes && strspn(word, "0123456789") >= bytes))
			return true;
	}
	return false;
}

const struct habit *habit_find(const char *name)
{
	const struct habit *h;

	for (size_t i = 0; (h = habit_at(i)); i++)
		if (has_word(h->names, ' ', name, strlen(name)))
			return h;
	return NULL;
}

bool habit_words_have(const char *words, const char *more, const char *value, bool lists)
{
	size_t n;

	do {
		n = lists ? strcspn(value, ",") : strlen(value);
		if (!has_word(words, '|', value, n) && !has_word(more, '|', value, n))
			return false;
		value += n + (value[n] == ',');
	} while (lists && *value);
	return true;
}
