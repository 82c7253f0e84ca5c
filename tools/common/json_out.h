/* SPDX-License-Identifier: MIT */
/*
 * JSON by json-c, with numbers that come back as they were. What JSON cannot write (NaN,
 * infinities) becomes null.
 */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object *json_out_double(double v);
struct json_object *json_out_float(float v);
struct json_object *json_out_u64(uint64_t v);
/* @s, or null for NULL. */
struct json_object *json_out_string(const char *s);

/* Object and newline. 0, or 1 after a message. */
int json_out_line(FILE *out, struct json_object *o);

#endif /* JSON_OUT_H */
