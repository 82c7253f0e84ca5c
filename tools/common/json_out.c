// SPDX-License-Identifier: MIT
/* Numbers for json-c, with the fewest digits that read back exactly. */
#include <math.h>
#include <stdlib.h>

#include "json_out.h"
#include "tool.h"

struct json_object *json_out_double(double v)
{
	char text[40];

	if (!isfinite(v))
		return NULL;
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return json_object_new_double_s(v, text);
}

struct json_object *json_out_float(float v)
{
	char text[40];

	if (!isfinite(v))
		return NULL;
	snprintf(text, sizeof(text), "%.9g", (double)v);
	return json_object_new_double_s((double)v, text);
}

struct json_object *json_out_u64(uint64_t v)
{
	return json_object_new_uint64(v);
}

struct json_object *json_out_string(const char *s)
{
	return s ? json_object_new_string(s) : NULL;
}

int json_out_line(FILE *out, struct json_object *o)
{
	const char *s = json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED |
								  JSON_C_TO_STRING_NOSLASHESCAPE);

	if (!s)
		return tool_fail("no memory for the JSON text");
	fputs(s, out);
	putc('\n', out);
	return 0;
}
