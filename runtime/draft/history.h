/* SPDX-License-Identifier: MIT */
/*
 * History stores: past answers on disk, which later sessions draft from (CoordGen 3.1, database
 * manager). The format is docs/history.md's.
 *
 *	struct history_store s;
 *
 *	history_open("mail", vocabulary, n_vocab, HISTORY_TOKENS, &s);
 *	history_read(&s, add_answer, automaton);	before the first prompt
 *	history_append(&s, ids, n);	after an answer
 *
 * A store is one file of tokens, which may be removed at any time. It holds max_tokens tokens at
 * most: when an answer does not fit, the oldest ones go. Any number of processes may read and
 * append to a store at once; each call holds a lock (flock) for as long as it lasts, some
 * milliseconds.
 *
 * A writer that is killed or runs out of disk leaves either the answers before, or those with the
 * new one: an unfinished answer at the end of a file is passed over, and overwritten by the next.
 * Appended answers are not synced: they outlive the writer, but maybe not a loss of power.
 * Any other damage, and answers of another vocabulary, are errors that name the file: -EINVAL. Such
 * a file is not changed, and since no answer is handed over before the whole file has been checked,
 * a caller can go on without it.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_TOKENS 131072 /* a usual bound: 9 MB of suffix automaton, 512 KB on disk */

struct history_store {
	char path[PATH_MAX];
	bool by_name; /* its folders are made */
	uint64_t vocabulary; /* a hash of the pieces: tells whether ids mean the same */
	uint32_t n_vocab;
	uint32_t max_tokens;
};

/*
 * Describes a store; the file is neither opened nor made. A @name with a slash is a path. Another
 * is the file NAME.history in $XDG_STATE_HOME/vnpu, or in ~/.local/state/vnpu without that
 * variable; its folders are made when the first answer is stored. 0, or with the
 * error line -EINVAL: no name, no vocabulary or no bound; -ENOENT: no home; -ENAMETOOLONG.
 */
int history_open(const char *name, uint64_t vocabulary, uint32_t n_vocab, uint32_t max_tokens,
		 struct history_store *store);

/* Takes an answer, @ids [n], which is valid during the call. Other than 0 ends the reading. */
typedef int (*history_answer_fn)(void *ud, const int32_t *ids, size_t n);

/*
 * Calls @answer for each of the store's answers, the oldest first. Without a file there are none.
 * 0, what @answer returned, or with the error line -EINVAL for a broken file, -ENOMEM, or what
 * reading failed with.
 */
int history_read(const struct history_store *store, history_answer_fn answer, void *ud);

/*
 * Stores an answer of @n tokens, of which those beyond max_tokens are left out. 0, or with the
 * error line -EINVAL for a broken file or for @ids that are not of the vocabulary, -ENOMEM, or what
 * writing failed with; the store is then as before.
 */
int history_append(const struct history_store *store, const int32_t *ids, size_t n);

#endif /* HISTORY_H */
