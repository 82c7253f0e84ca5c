#!/usr/bin/perl
# SPDX-License-Identifier: MIT
# Makes reference ids of every pre-tokenizer with the vocabulary of words.json: Perl's regular expressions cut the texts with the
# patterns of the models' own tokenizer.json, after Unicode::Normalize where these ask for it, and the pairs of a word are merged one after another.
#   perl make-pre.pl > pre.json
# It keeps 16 bits of a hash (FNV-1a, 64 bits, folded) of each text's ids.
use strict;
use warnings;
use utf8;
use FindBin;
use JSON::PP;
use Unicode::Normalize;

my $endings = qr/(?i:'s|'t|'re|'ve|'m|'ll|'d)/;
my $gpt2 = qr/'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/;
my $llama3 = qr/$endings|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/;
my $qwen2 = qr/$endings|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/;
my ($upper, $lower) = (qr/[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/, qr/[\p{Ll}\p{Lm}\p{Lo}\p{M}]/);
my $rest = qr/ ?[^\s\p{L}\p{N}]+[\r\n\/]*|\s*[\r\n]+|\s+(?!\S)|\s+/;
sub cased { my ($end) = @_; return qr/[^\r\n\p{L}\p{N}]?$upper*$lower+$end|[^\r\n\p{L}\p{N}]?$upper+$lower*$end/; }
my $gpt4o = qr/@{[cased(qr{$endings?})]}|\p{N}{1,3}|$rest/;
my ($upper_k, $lower_k) = (qr/(?:(?!\p{sc=Han})$upper)/, qr/(?:(?!\p{sc=Han})$lower)/);
my $kana_han = qr/[一-龥\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+/;
my $deepseek_cjk = qr/[一-龥ࠀ-一가-\x{d7ff}]+/;
my $deepseek3_words = qr/[!"#\$%&'()*+,\-.\/:;<=>?\@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+/;
my $deepseek3 = qr/$deepseek3_words| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/;
my $bloom = qr/ ?[^(\s|.,!?…。，、।۔،)]+/;
my $deepseek_letters = qr/\s?[A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+/;
my @threes = (qr/\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))/);

# The steps of each pre-tokenizer, by one of its names
my %steps = (
	"gpt-2" => [$gpt2],
	"olmo" => [$gpt2],
	"smollm" => [qr/\p{N}/, $gpt2],
	"llama-bpe" => [$llama3],
	"dbrx" => [$llama3],
	"qwen2" => [$qwen2],
	"deepseek-r1-qwen" => [$qwen2],
	"qwen35" => [qr/$endings|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"laguna" => [qr/[^\n]+|[\n]+/, $qwen2],
	"k2-horizon" => [qr/$endings|[^\r\n\p{L}\p{N}]?(?:\p{L}|\p{M}|\x{200c}|\x{200d})+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"minicpm5" => [qr/\p{N}{1,3}/, qr/$endings|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"seed-coder" => [qr/$endings|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"ufakzeka" => [qr/[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"bailingmoe" => [qr/'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+/],
	"exaone-moe" => [qr/$endings|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n\/]?|\s*[\r\n]|\s+(?!\S)|\s+/],
	"jais-2" => [qr/$endings|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}/],
	"gpt-4o" => [$gpt4o],
	"tekken" => [qr/@{[cased(qr{})]}|\p{N}|$rest/],
	"tiny_aya" => [qr/\d{1,3}(?=(?:\d{3})*\b)/, $gpt4o],
	"youtu" => [qr/[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|$kana_han/, qr/@{[cased(qr{$endings?})]}|\p{N}|$rest/],
	"kimi-k2" => [qr/[\p{sc=Han}]+|[^\r\n\p{L}\p{N}]?$upper_k*$lower_k+$endings?|[^\r\n\p{L}\p{N}]?$upper_k+$lower_k*$endings?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/],
	"deepseek-llm" => [qr/[\r\n]/, $deepseek_letters, qr/\s?[!-\/:-~！-／：-～‘-‟\x{3000}-。]+/, qr/\s+\z/, $deepseek_cjk, qr/\p{N}+/],
	"deepseek-coder" => [qr/[\r\n]/, qr/\s?\p{L}+/, qr/\s?\p{P}+/, $deepseek_cjk, qr/\p{N}/],
	"deepseek-v3" => [qr/\p{N}{1,3}/, $kana_han, $deepseek3],
	"spark2_5" => [qr/\p{N}{1,3}/, $kana_han, qr/$deepseek3_words| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+/, qr/\p{N}/],
	"afmoe" => [@threes, qr/[一-鿿㐀-䶿\x{8c48}-\x{d7ff}\x{e000}-\x{faff}\x{3040}-\x{309f}\x{30a0}-ヿ･-ﾟ⼀-\x{2fdf}เ-\x{e7f}\x{e80}-\x{eff}ក-\x{17ff}က-႟ꩠ-ꩿꧠ-\x{a9ff}가-\x{d7af}ᄀ-ᇿ]+/, $deepseek3],
	"superbpe" => [qr/\p{N}+/, qr/(?=(?:\d{3})+(?!\d))/],
	"bloom" => [$bloom],
	"viking" => [$bloom, qr/\p{N}/],
	"falcon" => [qr/[\p{P}\$\+<=>\^~\|`]+/, $gpt2, qr/[0-9][0-9][0-9]/],
	"chameleon" => [qr/<sentinel:[0-9]+>/, qr/(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z/, qr/(?:[\t\n]|    |  )/, qr/\p{N}/, qr/[\p{P}!-\/:-\@\[-`{-~]/, $gpt2],
	"default" => [qr/[\p{P}\$\+<=>\^~\|]+/, $gpt2, qr/\p{N}+/, qr/[0-9][0-9][0-9]/],
);
my %nfc = map { $_ => 1 } qw(olmo qwen2 qwen35);
my %whole_words = map { $_ => 1 } qw(llama-bpe minicpm5 tekken youtu);

sub load { open(my $f, "<:raw", "$FindBin::Bin/$_[0]") or die "$_[0]: $!\n"; local $/; return decode_json(<$f>); }
my $words = load("words.json");
my $vocab = $words->{model}{vocab};
my ($rank, %rank) = (0);
$rank{$_} = $rank++ for @{$words->{model}{merges}};

# Byte-level BPE's printable characters
my @print;
{
	my $n = 0;
	for my $byte (0 .. 255) {
		my $plain = ($byte > 0x20 && $byte < 0x7f) || ($byte > 0xa0 && $byte != 0xad);
		push @print, chr($plain ? $byte : 0x100 + $n++);
	}
}

sub split_text {
	my ($text, @steps) = @_;
	return length($text) ? ($text) : () unless @steps;
	my ($re, @later) = @steps;
	my ($from, @cuts) = (0);
	push @cuts, $-[0], $+[0] while $text =~ /$re/g;
	my @out;
	for my $at (@cuts, length $text) {
		push @out, split_text(substr($text, $from, $at - $from), @later) if $at > $from;
		$from = $at if $at > $from;
	}
	return @out;
}

my %memory;
sub merge_word {
	my ($word, $whole) = @_;
	utf8::encode($word);
	my @symbols = map { $print[ord] } split //, $word;
	my $all = join "", @symbols;
	return $vocab->{$all} if $whole && exists $vocab->{$all};
	return @{$memory{$all}} if $memory{$all};
	while (@symbols > 1) {
		my ($best, $at);
		for my $i (0 .. $#symbols - 1) {
			my $r = $rank{"$symbols[$i] $symbols[$i + 1]"};
			($best, $at) = ($r, $i) if defined $r && (!defined $best || $r < $best);
		}
		last unless defined $at;
		splice @symbols, $at, 2, $symbols[$at] . $symbols[$at + 1];
	}
	return @{$memory{$all} = [map { $vocab->{$_} } @symbols]};
}

sub hash_ids {
	use integer;
	my $prime = 0x1b3 + (1 << 40);
	no warnings "portable";
	my $h = 0xcbf29ce484222325;
	for my $id (@_) {
		$h = ($h ^ ($id >> 8 * $_ & 255)) * $prime for 0 .. 3;
	}
	return ($h ^ $h >> 16 ^ $h >> 32 ^ $h >> 48) & 0xffff;
}

my @texts = (@{load("texts.json")->{texts}}, @{$words->{texts}});
my %result;
for my $name (sort keys %steps) {
	$result{$name} = join "", map { sprintf "%04x", hash_ids(map { merge_word($_, $whole_words{$name}) } split_text($nfc{$name} ? NFC($_) : $_, @{$steps{$name}})) } @texts;
}
require Unicode::UCD;
my $json = JSON::PP->new->canonical->encode({ program => "perl $^V, Unicode " . Unicode::UCD::UnicodeVersion(), ids => \%result });
$json =~ s/","/",\n"/g;
print "$json\n";
