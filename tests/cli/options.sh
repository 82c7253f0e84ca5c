#!/bin/bash
# SPDX-License-Identifier: MIT
# Wrong command lines, --help, --version, --list-devices, and an output that cannot be written.
set -u
. tests/cli/common.bash

mkdir "$scratch/no-vendors"
for tool in llm-cli llm-bench llm-perplexity llm-logits; do
	case $tool in
	llm-cli) work=(-p x) ;;
	llm-bench) work=(-p 8 -n 0 -r 1) ;;
	llm-perplexity) work=(-f "$refs/p1.txt" -c 32) ;;
	llm-logits) work=(--tokens 1,2) ;;
	esac
	t=("$bin/$tool")
	passes "$tool --help" "${t[@]}" --help
	cp "$scratch/out" "$scratch/help"
	run "$bin/$tool" --help=options
	cp "$scratch/out" "$scratch/options"
	missing=
	while IFS=$'\t' read -r option _ words; do
		for word in "$option" $words; do
			grep -Eq -- "(^|[ ,(])$word([ ,;:)]|$)" "$scratch/help" || missing+=" $option:$word"
		done
		# Manuals have "Fl t" for -t and "Fl -threads" for --threads.
		grep -Eq "^\.It.*Fl ${option#-}( |$)" "docs/man/$tool.1" docs/man/llm-cli.1 || missing+=" manual:$option"
	done <"$scratch/options"
	same "$tool --help and the manual have every option, and --help every value" "none$missing" none
	same "$tool has all choices" "$(for c in placement weights activations graphs partition kv sync order; do cut -f1 "$scratch/options" | grep -cx -- "--$c"; done | xargs)" "1 1 1 1 1 1 1 1"
	same "$tool --help fits 100 columns" "$(awk 'length > 100' "$scratch/help")none" none
	refuses "$tool: unknown form of help" 2 "--help: 'html' is none of text, man, options, habits, man-habits" "${t[@]}" --help=html
	passes "$tool --version" "${t[@]}" --version
	grep -Eq "^$tool [0-9]+\.[0-9]+" "$scratch/out" && ok "$tool --version has a number" || not_ok "$tool --version has a number"
	refuses "$tool: unknown long option" 2 "unknown option '--no-such'" "${t[@]}" --no-such
	refuses "$tool: unknown letter" 2 "unknown option '-Z'" "${t[@]}" -Z
	refuses "$tool: option without its value" 2 "needs a value" "${t[@]}" --sync
	refuses "$tool: a word too many" 2 "'word'" "${t[@]}" -m "$model" "${work[@]}" word
	refuses "$tool: unknown placement lists the names" 2 "fine.*cpu.*npu" "${t[@]}" -m "$model" "${work[@]}" --placement tpu
	refuses "$tool: unknown weights list the names" 2 "auto.*f32.*w8a8" "${t[@]}" -m "$model" "${work[@]}" --weights w2
	refuses "$tool: unknown activations list the names" 2 "row-outliers, int8, mixed, int16, row-outliers-all, static, static-max" "${t[@]}" -m "$model" "${work[@]}" --activations int4
	refuses "$tool: unknown graphs list the names" 2 "bucketed, fixed, online, padded, pipe, shared" "${t[@]}" -m "$model" "${work[@]}" --graphs ring
	refuses "$tool: unknown partition lists the names" 2 "none, row, sequence, multi-sequence, hybrid, auto" "${t[@]}" -m "$model" "${work[@]}" --partition column
	refuses "$tool: graphs of another placement" 2 "placement npu has no graphs online: choose placement layer or linear, or graphs bucketed or fixed" \
		"${t[@]}" -m "$model" "${work[@]}" --placement npu --graphs online
	refuses "$tool: partition of another placement" 2 "placement gpu has no partition row: choose placement layer, or partition none" \
		"${t[@]}" -m "$model" "${work[@]}" --placement gpu --partition row
	refuses "$tool: weights of another placement" 2 "placement cpu has no weights w8a8" "${t[@]}" -m "$model" "${work[@]}" --preset cpu --weights w8a8
	OCL_ICD_VENDORS=$scratch/no-vendors refuses "$tool: graphs choose their placement" 1 "placement layer: no OpenCL platform" \
		"${t[@]}" -m "$model" "${work[@]}" --graphs online
	OCL_ICD_VENDORS=$scratch/no-vendors refuses "$tool: a GPU without OpenCL" 1 "no OpenCL platform.*--clock virtual" "${t[@]}" -m "$model" "${work[@]}" --preset hetero-tensor
	refuses "$tool: unknown profile for cuts" 1 "no-such-soc" "${t[@]}" -m "$model" "${work[@]}" --placement layer --cuts-profile no-such-soc
	refuses "$tool: unknown KV cache lists the names" 2 "f16.*f32.*q8_0" "${t[@]}" -m "$model" "${work[@]}" --kv q4_0
	refuses "$tool: unknown sync lists the names" 2 "fast.*driver" "${t[@]}" -m "$model" "${work[@]}" --sync slow
	refuses "$tool: unknown transport lists the names" 2 "auto.*drm.*sim" "${t[@]}" -m "$model" "${work[@]}" --transport usb
	refuses "$tool: unknown preset lists the names" 2 "cpu, npu, fine, gpu, hetero-layer, hetero-tensor" "${t[@]}" -m "$model" "${work[@]}" --preset tpu
	for value in 0 -1 x 1x '' 99999999999999999999; do
		refuses "$tool: -t '$value'" 2 "-t: " "${t[@]}" -m "$model" "${work[@]}" -t "$value"
		refuses "$tool: --chunk '$value'" 2 "--chunk: " "${t[@]}" -m "$model" "${work[@]}" --chunk "$value"
	done
	refuses "$tool: chunk above the limit" 2 "--chunk: .*8192" "${t[@]}" -m "$model" "${work[@]}" --chunk 8193
	for refines in "--decode-width 64=--switching" "--block-layers 2=--switching" "--ratio 0.5 --attention npu=--attention sparse, block or shadow" \
		"--sparse-from 1=--attention sparse, block, shadow or npu" "--scale-buckets 9 --attention sparse=--attention shadow or npu" \
		"--scale-step 0.4=--attention shadow or npu" "--pruning 0=--activations static" "--bits 5=--dry-run and --weights adaptive or w8a8" \
		"--cuts-profile host --placement npu=--placement layer on the wall clock" "--cuts-profile host --clock virtual=on the wall clock"; do
		# shellcheck disable=SC2086
		refuses "$tool: ${refines%%=*} refines nothing" 2 "${refines%% *} has no effect: it goes with .*${refines#*=}" \
			"${t[@]}" -m "$model" "${work[@]}" ${refines%%=*}
	done
	refuses "$tool: f32 weights do not run on the NPU" 2 "placement cpu" "${t[@]}" -m "$model" "${work[@]}" --placement npu --weights f32

	if [ -c /dev/full ]; then
		timeout 60 "${t[@]}" -m "$model" "${work[@]}" --preset cpu >/dev/full 2>"$scratch/err"
		rc=$?
		: >"$scratch/out"
		if [ $rc -eq 1 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q "^$tool: stdout: " "$scratch/err"; then
			ok "$tool: a full disk is a failure"
		else
			not_ok "$tool: a full disk is a failure" "$(outcome)"
		fi
	else
		skip "$tool: a full disk is a failure" "no /dev/full"
	fi
	if compgen -G '/dev/accel/accel*' >/dev/null; then
		skip "$tool: drm without a node" "there is a node"
	else
		refuses "$tool: drm without a node" 1 "/dev/accel.*sim transport" "${t[@]}" -m "$model" "${work[@]}" --transport drm
	fi
	passes "$tool --list-devices" "${t[@]}" --list-devices
	grep -Eq '^sim ' "$scratch/out" && grep -Eq '^drm ' "$scratch/out" && ok "$tool --list-devices names both transports" ||
		not_ok "$tool --list-devices names both transports" "$(<"$scratch/out")"
done

for tool in "$bin"/* "$BUILD/experiments/calibration" "$BUILD/experiments/inject"; do
	name=${tool##*/}
	option=--version=x
	case $name in
	calibration | inject) option=--help=x ;;
	llm-vocab | npu-info | npu-profile | npu-top | npu-trace | npuc | vnpu-fw)
		refuses "$name: help has no forms" 2 "'--help=x': this option takes no value" "$tool" --help=x
		;;
	esac
	refuses "$name: a value that an option does not take" 2 "'$option': this option takes no value" "$tool" $option
	refuses "$name: an option that it has not" 2 "unknown option '--no-such=x'" "$tool" --no-such=x
	refuses "$name: a letter that it has not" 2 "unknown option '-Z'" "$tool" -Z
done
passes "the manual's lists of options are current" docs/man/options.sh --check
logits() { "$bin/llm-logits" -m "$model" --tokens 1,2,3 -o f32 "$@" 2>&1 | sha256sum; }
same "weights f32 choose placement cpu" "$(logits --weights f32)" "$(logits --placement cpu)"
same "placement cpu chooses weights f32" "$(logits --placement cpu --weights f32)" "$(logits --preset cpu)"

for tool in llm-cli llm-perplexity llm-logits; do
	refuses "$tool: no model" 2 "-m FILE" "$bin/$tool"
done
refuses "llm-cli: no prompt" 2 "no prompt, and no conversation.*-p TEXT" "$bin/llm-cli" -m "$model"
refuses "llm-cli: two prompts" 2 "-p TEXT" "$bin/llm-cli" -m "$model" -p x -f y
refuses "llm-cli: prompt file that does not exist" 1 "no-such-file: No such file" "$bin/llm-cli" -m "$model" --preset cpu -f "$scratch/no-such-file"
refuses "llm-cli: prompt file that is a folder" 1 "directory" "$bin/llm-cli" -m "$model" --preset cpu -f "$scratch"
for bad in "--temp x" "--temp -1" "--temp nan" "--top-p 2" "--min-p -0.1" "--top-k -2" "--seed x" "--seed -2" "-n x" "-n -3" "-c -1" "-c x"; do
	# shellcheck disable=SC2086
	refuses "llm-cli $bad" 2 "${bad%% *}: " "$bin/llm-cli" -m "$model" -p x $bad
done
refuses "llm-logits: no tokens" 2 "--tokens LIST" "$bin/llm-logits" -m "$model"
for bad in x 1,,2 1, ,1 -1 1,99999999999 ''; do
	refuses "llm-logits --tokens '$bad'" 2 "--tokens: " "$bin/llm-logits" -m "$model" --tokens "$bad"
done
refuses "llm-logits: unknown format" 2 "json, text, f32" "$bin/llm-logits" -m "$model" --tokens 1 -o xml
refuses "llm-perplexity: no text" 2 "-f FILE" "$bin/llm-perplexity" -m "$model"
refuses "llm-perplexity: unknown format" 2 "text, json" "$bin/llm-perplexity" -m "$model" -f x -o xml
refuses "llm-perplexity: window of one token" 2 "-c: " "$bin/llm-perplexity" -m "$model" -f x -c 1
refuses "llm-perplexity: text shorter than a window" 1 "70 tokens" "$bin/llm-perplexity" -m "$model" -f "$refs/p1.txt" --preset cpu
for bad in "-p 1-" "-p 8-4" "-p 1-8*1" "-p 0-8*2" "-p 1-8+0" "-p x" "-p 1,,2" "-n -1" "-d x" "-pg 5" "-pg 5,0" "-pg 1,2,3" \
	"-r 0" "-o xml" "-oe xml" "-p 1-10000" "--preset" "-t 0-4"; do
	# shellcheck disable=SC2086
	refuses "llm-bench $bad" 2 "." "$bin/llm-bench" -m "$model" $bad
done
refuses "llm-bench: nothing to measure" 2 "nothing to measure" "$bin/llm-bench" -m "$model" -p 0 -n 0
refuses "llm-bench: prompt file too short" 1 "70 tokens, but 100 are needed" "$bin/llm-bench" -m "$model" --preset cpu -p 100 -n 0 --prompt-file "$refs/p1.txt"
finish
