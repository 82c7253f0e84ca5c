#!/bin/bash
# SPDX-License-Identifier: MIT
# Bash completion of the llm tools' options and values.
set -u
. tests/cli/common.bash

. share/bash-completion/completions/llm-cli
PATH=$bin:$PATH

# offers WORD...: the sorted completions of the last word.
offers() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_vnpu_llm
	printf '%s\n' "${COMPREPLY[@]}" | sort | xargs
}

for tool in llm-bench llm-cli llm-logits llm-perplexity; do
	same "$tool: the completion function is registered" "$(complete -p $tool)" "complete -F _vnpu_llm $tool"
	same "$tool: all options" "$(offers $tool -)" "$($tool --help=options | cut -f1 | sort | xargs)"
	same "$tool: options with a prefix" "$(offers $tool --plac)" --placement
	same "$tool: all values of a choice" "$(offers $tool --weights '')" "adaptive auto f16 f32 native w4a16 w4a8 w8a8 w8a8-groups"
	same "$tool: values with a prefix" "$(offers $tool -x --weights w4)" "w4a16 w4a8"
	same "$tool: values after an equals sign" "$(offers $tool --kv =) / $(offers $tool --kv = f)" "f16 f32 q8_0 / f16 f32"
	same "$tool: values of the transport and of the clock" "$(offers $tool --transport s) $(offers $tool --clock v)" "sim virtual"
	same "$tool: presets" "$(offers $tool --preset hetero)" "hetero-layer hetero-tensor"
	same "$tool: nothing for files, numbers and operands" "$(offers $tool -m '')$(offers $tool --chunk '')$(offers $tool --list-devices '')$(offers $tool '')none" none
done
same "llm-bench: the next value of a list" "$(offers llm-bench --weights w8a8,w4)" "w8a8,w4a16 w8a8,w4a8"
same "llm-bench: all presets" "$(offers llm-bench --preset cpu,al)" cpu,all
same "llm-cli has no lists" "$(offers llm-cli --weights w8a8,w4)none" none
finish
