/* SPDX-License-Identifier: MIT */
/*
 * JSON output with json-c. Numbers have enough digits to be read back exactly; NaN and infinities,
 * which JSON lacks, become null.
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
/* NULL becomes null. */
struct json_object *json_out_string(const char *s);

/* Writes the object and a newline. 0, or 1 after a message. */
int json_out_line(FILE *out, struct json_object *o);

#endif /* JSON_OUT_H */
