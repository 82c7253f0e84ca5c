// SPDX-License-Identifier: MIT
/* Streams to a text in memory. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "json_private.h"

static ssize_t append(void *cookie, const char *bytes, size_t n)
{
	struct schema_stream *stream = cookie;

	if (stream->room - stream->bytes <= n) {
		size_t room = 2 * (stream->room + n) + 64;
		char *grown = realloc(stream->text, room);

		if (!grown) {
			stream->failed = true;
			return 0;
		}
		stream->text = grown;
		stream->room = room;
	}
	memcpy(stream->text + stream->bytes, bytes, n);
	stream->bytes += n;
	stream->text[stream->bytes] = 0;
	return (ssize_t)n;
}

void schema_stream_open(struct schema_stream *stream)
{
	*stream = (struct schema_stream){ .room = 0 };
	stream->out = fopencookie(stream, "w", (cookie_io_functions_t){ .write = append });
}

char *schema_stream_close(struct schema_stream *stream)
{
	/* What fails is in @failed: fclose() only tells of its own last write. */
	if (!stream->out || fclose(stream->out) || stream->failed || !stream->text) {
		free(stream->text);
		stream->text = NULL;
	}
	return stream->text;
}
