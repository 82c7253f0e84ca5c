/* SPDX-License-Identifier: MIT */
/* UTF-8, strictly: no surrogates, nothing above U+10FFFF, no longer forms than needed. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_MAX 0x10ffff

/* Bytes of the character that begins with @lead; 0: none does. */
unsigned int utf8_length(uint8_t lead);
/* The bits of the code point that a lead byte of @length bytes has. */
uint32_t utf8_lead_bits(uint8_t lead, unsigned int length);
/* The least code point that takes @length bytes. */
uint32_t utf8_least(unsigned int length);
/* Bytes of the character at the beginning of the @n bytes; 0: there is no whole one. */
size_t utf8_whole(const uint8_t *bytes, size_t n);
/* The same, and the character's code point. */
size_t utf8_decode(const uint8_t *bytes, size_t n, uint32_t *code);
/* Writes a code point; returns its bytes. */
size_t utf8_encode(uint32_t code, char bytes[4]);

#endif /* UTF8_H */
