// SPDX-License-Identifier: MIT
#include "utf8.h"

unsigned int utf8_length(uint8_t lead)
{
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2 || lead > 0xf4)
		return 0;
	return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

uint32_t utf8_lead_bits(uint8_t lead, unsigned int length)
{
	return length == 1 ? lead : lead & (0x7fu >> length);
}

uint32_t utf8_least(unsigned int length)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	return least[length];
}

size_t utf8_decode(const uint8_t *bytes, size_t n, uint32_t *code)
{
	unsigned int length = n ? utf8_length(bytes[0]) : 0;

	if (!length || length > n)
		return 0;
	*code = utf8_lead_bits(bytes[0], length);
	for (unsigned int i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (bytes[i] & 0x3f);
	}
	if (*code < utf8_least(length) || *code > UTF8_MAX || (*code >= 0xd800 && *code < 0xe000))
		return 0;
	return length;
}

size_t utf8_whole(const uint8_t *bytes, size_t n)
{
	uint32_t code;

	return utf8_decode(bytes, n, &code);
}

size_t utf8_encode(uint32_t code, char bytes[4])
{
	unsigned int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (unsigned int i = length - 1; i; i--) {
		bytes[i] = (char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	bytes[0] = (char)(lead[length] | code);
	return length;
}
