/* SPDX-License-Identifier: MIT */
/* A list of words for the error lines of choices.c and choices_settle.c. */
#ifndef CHOICES_PRIVATE_H
#define CHOICES_PRIVATE_H

#include <stdio.h>
#include <string.h>

/* Words that do not fit are left out. */
struct list {
	char text[256];
	size_t n;
};

static inline void list_add(struct list *list, const char *word, const char *separator)
{
	size_t used = strlen(list->text);

	snprintf(list->text + used, sizeof(list->text) - used, "%s%s", list->n++ ? separator : "",
		 word);
}

#endif /* CHOICES_PRIVATE_H */
