// SPDX-License-Identifier: MIT
/*
 * What compiler, loader and ELF reader share about an image.
 */
#include "image.h"

#include <stdlib.h>
#include <string.h>

void image_clear(struct image *im)
{
	for (uint32_t i = 0; i < im->nr_symbols; i++)
		free(im->symbols[i].name);
	for (uint32_t i = 0; i < im->nr_params; i++)
		free(im->params[i]);
	free(im->symbols);
	free(im->params);
	free(im->relocs);
	free(im->cmds);
	free(im->consts);
	free(im->name);
	memset(im, 0, sizeof(*im));
}

void image_relocate(struct image *im)
{
	for (uint32_t i = 0; i < im->nr_relocs; i++)
		memcpy(im->cmds + im->relocs[i].offset, &im->relocs[i].symbol, sizeof(uint32_t));
}
