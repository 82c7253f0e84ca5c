/* SPDX-License-Identifier: MIT */
/*
 * JSON schemas as grammars. The texts of the grammar are JSON values that fit the schema, with
 * little white space and numbers of at most 18 digits; not all that fit are texts of it:
 * docs/sampling.md says which keywords are supported, and how.
 */
#ifndef JSON_SCHEMA_H
#define JSON_SCHEMA_H

/* Sets *@grammar to GBNF; free() it. 0; -EINVAL for a text that is no schema, -ENOTSUP for keywords
 * that are not supported, -ENOMEM, with an error line that names the place in the schema. */
int json_schema_to_grammar(const char *schema, char **grammar);

#endif /* JSON_SCHEMA_H */
